"""Compiles single kernels and runs them on NumPy arrays, without the rest of the compiler."""

from __future__ import annotations

import ctypes
from collections.abc import Hashable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from hloc.codegen.cpu.kernel import Kernel, emit_kernel, routine_names
from hloc.codegen.llvm.object_file import (
    check_symbols,
    compile_object,
    optimize_module,
    parse_module,
)
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target, create_target_machine, host_target
from hloc.codegen.plan.kernel_request import KernelRequest
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import post_order
from hloc.parser import parse
from hloc.shapes import ArrayShape, array_leaves
from hloc.source import SourceFile

Array = np.ndarray[Any, Any]

UNWRITTEN = 0xFFFFFFFF
"""Each word of scratch memory at first: NaNs of every float type."""


def kernel_text(kernel: Kernel) -> str:
    """Return a whole LLVM module with one kernel."""
    return "\n".join([*kernel.declarations, kernel.text])


def emit(
    inst: Instruction,
    aliased: Sequence[int | None] = (),
    target: Target | None = None,
    choice: Hashable = None,
) -> Kernel:
    """Return the kernel of one instruction."""
    shared = tuple(aliased) or (None,) * len(array_leaves(inst.shape))
    request = KernelRequest(inst, shared)
    return emit_kernel(request, "kernel", target or host_target(), choice=choice)


@cache
def _routine_object(routines: Routines, target: Target, known: frozenset[str]) -> bytes:
    """Return the object of routines, which many kernels share."""
    return compile_object(routines.text, target, routines.level, known)


class Compiled:
    """A kernel in executable memory."""

    def __init__(self, kernel: Kernel, level: int = 2, target: Target | None = None) -> None:
        machine = create_target_machine(target or host_target(), level)
        self.kernel = kernel
        self.module = optimize_module(parse_module(kernel_text(kernel)), machine, level)
        data = machine.emit_object(self.module)
        objects = [data]
        known = frozenset(routine_names(kernel))
        for routines in kernel.routines:
            objects.append(_routine_object(routines, target or host_target(), known))
        check_symbols(data, also=known)
        self._jit = llvm.create_lljit_compiler(machine)
        builder = llvm.JITLibraryBuilder().add_current_process()
        for image in objects:
            builder = builder.add_object_img(image)
        self._library = builder.export_symbol("kernel").link(self._jit, "kernel")
        self._address = self._library["kernel"]

    def run(
        self,
        buffers: Sequence[Array],
        begin: int = 0,
        end: int | None = None,
        scratch_offset: int = 0,
        unwritten: int = UNWRITTEN,
    ) -> None:
        """Call the kernel on buffers for operands and results.

        Args:
            buffers: memory of the operands, then of the results.
            begin: of the part of the outermost loop.
            end: of that part.
            scratch_offset: of scratch memory from a cache line, in bytes.
            unwritten: each word of scratch memory at first.
        """
        pointers = [b.ctypes.data for b in buffers]
        words = (self.kernel.scratch_bytes + 128 + scratch_offset) // 4 + 1
        scratch = np.full(words, unwritten, np.uint32).view(np.uint8)
        start = -scratch.ctypes.data % 64 + scratch_offset
        if self.kernel.scratch_bytes:
            pointers.append(scratch.ctypes.data + start)
        kinds = [ctypes.c_void_p] * len(pointers) + [ctypes.c_int64] * 2
        function = ctypes.CFUNCTYPE(None, *kinds)(self._address)
        function(*pointers, begin, self.kernel.extent if end is None else end)
        beyond = scratch[start + self.kernel.scratch_bytes :]
        expected = np.full(words, unwritten, np.uint32).view(np.uint8)[-len(beyond) :]
        assert np.array_equal(beyond, expected), "the kernel writes beyond its scratch memory"


def to_memory(array: Array, shape: ArrayShape) -> Array:
    """Return the bytes of `array` in the layout of `shape`."""
    order = tuple(reversed(shape.minor_to_major))
    return np.ascontiguousarray(np.asarray(array, shape.dtype.numpy).transpose(order)).reshape(-1)


def from_memory(memory: Array, shape: ArrayShape) -> Array:
    """Return the logical array whose bytes in the layout of `shape` are `memory`."""
    order = tuple(reversed(shape.minor_to_major))
    return memory.reshape([shape.dims[d] for d in order]).transpose(np.argsort(order))


def run_instruction(
    inst: Instruction,
    arrays: Sequence[Array],
    *,
    aliased: Sequence[int | None] = (),
    level: int = 2,
    pieces: int = 1,
    target: Target | None = None,
    scratch_offset: int = 0,
    choice: Hashable = None,
) -> list[Array]:
    """Compile and run one instruction; `pieces` splits the outermost loop."""
    compiled = Compiled(emit(inst, aliased, target, choice), level, target)
    shapes = [leaf for operand in inst.operands for leaf in array_leaves(operand.shape)]
    buffers = [to_memory(a, s) for a, s in zip(arrays, shapes, strict=True)]
    results = array_leaves(inst.shape)
    for number, shape in enumerate(results):
        if aliased and aliased[number] is not None:
            buffers.append(buffers[aliased[number]])  # type: ignore[index]
        else:
            garbage = np.full(shape.elements * shape.dtype.storage_bytes, 0x5A, np.uint8)
            buffers.append(garbage.view(shape.dtype.numpy))
    extent = compiled.kernel.extent
    bounds = [extent * i // pieces for i in range(pieces + 1)]
    for begin, end in pairwise(bounds):
        compiled.run(buffers, begin, end, scratch_offset)
    return [from_memory(m, s) for m, s in zip(buffers[len(shapes) :], results, strict=True)]


def parse_text(text: str) -> Any:
    """Return the module that `text` spells."""
    return parse(SourceFile(text, "<test>"))


def evaluate(computation: Computation, arguments: Sequence[Any]) -> Any:
    """Return what the rows' evaluators make of a computation."""
    values: dict[Instruction, Any] = {}
    for inst in post_order(computation):
        if inst.opcode.name == "parameter":
            values[inst] = arguments[inst.attributes.number]
            continue
        operands = tuple(values[operand] for operand in inst.operands)
        assert inst.opcode.evaluate is not None
        values[inst] = inst.opcode.evaluate(inst, operands, lambda c, *a: evaluate(c, a))
    return values[computation.root]


def check_root(
    text: str,
    arrays: Sequence[Array],
    *,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    **options: Any,
) -> list[Array]:
    """Run the root of the entry computation as one kernel and compare with the evaluator.

    The operands of the root are the parameters of the entry, in order.
    """
    entry = parse_text(text).entry
    expected = evaluate(entry, arrays)
    expected = expected if isinstance(expected, tuple) else (expected,)
    operands = [arrays[o.attributes.number] for o in entry.root.operands]
    found = run_instruction(entry.root, operands, **options)
    for x, y in zip(found, expected, strict=True):
        assert x.shape == y.shape
        assert_close(x, y, rtol, atol)
    return found


def assert_close(found: Array, expected: Array, rtol: float, atol: float) -> None:
    """Compare numbers; integers and pred exactly, narrow floats after conversion."""
    assert found.dtype == expected.dtype, (found.dtype, expected.dtype)
    if found.dtype.kind in "biu":
        np.testing.assert_array_equal(found, expected)
    elif found.dtype.kind in "fc":
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
    else:
        np.testing.assert_allclose(
            found.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=atol
        )


def module_text(parameters: Sequence[str], root: str, before: str = "") -> str:
    """Return a module whose parameters p0, p1 ... are the operands of `root`."""
    lines = [f"  p{i} = {shape} parameter({i})" for i, shape in enumerate(parameters)]
    return "\n".join(["HloModule test", before, "ENTRY e {", *lines, f"  ROOT r = {root}", "}"])


def reducer(name: str, opcode: str, dtype: str) -> str:
    """Return a computation of two scalars."""
    return (
        f"{name} {{\n x = {dtype}[] parameter(0)\n y = {dtype}[] parameter(1)\n"
        f" ROOT r = {dtype}[] {opcode}(x, y)\n}}"
    )


def random_array(shape: ArrayShape, rng: np.random.Generator) -> Array:
    """Return small values, so that sums of integers do not wrap too soon."""
    dtype, dims = shape.dtype, shape.dims
    if dtype.is_pred:
        return rng.random(dims) < 0.5
    if dtype.is_integer:
        low = 0 if dtype.is_unsigned else -min(4, 2 ** (dtype.bits - 1))
        return rng.integers(low, min(4, 2 ** (dtype.bits - 1)), dims).astype(dtype.numpy)
    values = np.asarray(rng.standard_normal(dims))
    if dtype.is_complex:
        values = values + 1j * np.asarray(rng.standard_normal(dims))
    return np.asarray(values).astype(dtype.numpy)


def random_arrays(text: str, seed: int = 0) -> list[Array]:
    """Return arguments for the entry computation of a module."""
    rng = np.random.default_rng(seed)
    return [random_array(p.array, rng) for p in parse_text(text).entry.parameters]
