"""Elementwise kernels: every thread computes several contiguous elements of the result.

If all arrays have the same order in memory, a thread computes 16 bytes of elements, and LLVM
vectorises its loads and stores. Otherwise threads follow the order of the result, so that stores
coalesce.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitter import GpuPlan
from hloc.codegen.kernels.emitter import Emitter
from hloc.codegen.kernels.loop import is_flat, is_generated
from hloc.ir.instruction import Instruction
from hloc.shapes import ArrayShape, ShapeIndex, array_leaves, leaves

_VECTOR_BYTES = 16
_MOST_PER_THREAD = 8
_FEWEST_THREADS = 1 << 14
"""With fewer threads, more threads are better than wider accesses."""

_Output = tuple[ShapeIndex, int]
"""A leaf of the result: its path and its number."""


def plan(inst: Instruction) -> GpuPlan | None:
    """Plan everything that the element generator supports."""
    return GpuPlan(emit) if is_generated(inst) else None


def emit(w: LaunchWriter) -> None:
    """Emit a launch per group of results of equal sizes."""
    shapes = array_leaves(w.inst.shape)
    groups: dict[tuple[int, ...], list[_Output]] = {}
    for number, (path, _) in enumerate(leaves(w.inst.shape)):
        groups.setdefault(shapes[number].dims, []).append((path, number))
    for outputs in groups.values():
        shape = shapes[outputs[0][1]]
        if not shape.elements:
            continue
        if len(groups) == 1 and is_flat(w.inst):
            _flat(w, outputs, shape)
        else:
            _ordered(w, outputs, shape)


def elements_per_thread(inst: Instruction, elements: int) -> int:
    """Return the elements per thread: at most 16 bytes of the widest array."""
    operands = inst.operand_arrays
    arrays = [leaf for leaf in (*operands, *array_leaves(inst.shape)) if leaf.elements == elements]
    widest = max(leaf.dtype.storage_bytes for leaf in arrays)
    count = min(max(_VECTOR_BYTES // widest, 1), _MOST_PER_THREAD)
    while count > 1 and elements // count < _FEWEST_THREADS:
        count //= 2
    return count


def _flat(w: LaunchWriter, outputs: Sequence[_Output], shape: ArrayShape) -> None:
    elements = shape.elements
    width = elements_per_thread(w.inst, elements)
    with w.each(-(-elements // width)) as (k, thread):
        k.g.flat = True
        first = k.math.mul(thread, width)
        if elements % width == 0:
            _elements(k, outputs, [k.math.add(first, i) for i in range(width)], elements)
            return
        end = k.math.add(first, width)
        whole = k.math.compare("LE", end, elements)
        with k.body.when(whole):
            _elements(k, outputs, [k.math.add(first, i) for i in range(width)], elements)
        with k.body.when(k.math.compare("GT", end, elements)), k.body.loop(first, elements) as at:
            _elements(k, outputs, [at], elements)


def _elements(
    k: GpuContext, outputs: Sequence[_Output], positions: Sequence[IndexValue], elements: int
) -> None:
    """Compute the elements at `positions` in memory; all loads come before the first store."""
    result = [
        (
            output.flat(elements),
            at,
            k.g.element(k.frame, k.root, (at,) if output.dims else (), path),
        )
        for path, output in ((path, k.outputs[number]) for path, number in outputs)
        for at in positions
    ]
    for output, at, value in result:
        output.store(k.math, (at,), value)


def _ordered(w: LaunchWriter, outputs: Sequence[_Output], shape: ArrayShape) -> None:
    with w.each(shape.elements) as (k, thread):
        index = tuple(k.math.in_memory(thread, shape))
        result = [
            (k.outputs[number], k.g.element(k.frame, k.root, index, path))
            for path, number in outputs
        ]
        for output, value in result:
            output.store(k.math, tuple(index), value)


EMITTER = Emitter("loop", plan)
