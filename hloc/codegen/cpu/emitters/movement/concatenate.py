"""Concatenate: one loop nest per operand, so that no element tests which operand it comes from.

Dimensions slower than the concatenated one are loops around all operands, so that the result is
written from beginning to end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from math import prod

from hloc.codegen.builder.index import loop_order
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.cpu_plan import CpuPlan
from hloc.codegen.cpu.emitters.movement.rows import write_rows
from hloc.codegen.kernels.boundaries import boundaries
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.codegen.kernels.lanes import Lanes, lane_count, lanes_of, mark_final, nest_of_rows
from hloc.codegen.llvm.target import Target
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import post_order_from
from hloc.lazy_dataclass import dataclass

_SHARED_BYTES = 1 << 18
"""Fewest bytes of a result for which threads share the concatenated dimension: the bounds of loops
are then known only when they run."""

_WORTH_LANES = 8
"""Time of a function such as exp of one element, that of moving one between lanes being 1."""


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a concatenate; threads share its outermost dimension.

    If the operands have boundaries along another dimension, the loop emitter takes the instruction,
    as it splits the loops of both.
    """
    root = root_of(inst)
    around = _around(root)
    if any(boundaries(inst, dim) for dim in around):
        return None
    along = None if around or root.array.size_bytes < _SHARED_BYTES else _dim(root)
    shared = around[0] if around else along
    extent = 1 if shared is None else root.array.dims[shared]
    rows_in_lanes = partial(_plan_rows_in_lanes, inst, around, extent)
    emit = partial(_emit, around) if along is None else _emit_along
    return CpuPlan(emit, extent, rows_in_lanes=rows_in_lanes)


def _plan_rows_in_lanes(
    inst: Instruction, around: list[int], extent: int, target: Target
) -> KernelPlan[KernelContext] | None:
    """Plan a row of the operands in each lane if many functions are of rows shorter than a vector.

    These would be computed one by one. Where each row is one element, LLVM computes several rows at
    a time. Time relative to loops along the rows, f32, AVX2: exp and tanh of 2 times 6 columns
    0.59, of 3, 3 and 1 0.44, sine and cosine of 2 times 3 0.54.
    """
    root, lanes = root_of(inst), lane_count(inst, target)
    if not lanes or not around or root.array.dims[around[-1]] <= lanes:
        return None
    rows = {operand: _elements(operand, around) for operand in root.operands}
    single = sum(size for x, size in rows.items() if size < lanes and _has_functions(x))
    if max(rows.values()) == 1 or single * _WORTH_LANES < _elements(root, around):
        return None
    return KernelPlan(partial(_emit_rows_in_lanes, around), extent)


def _parts(root: Instruction, around: list[int]) -> Iterator[_Part]:
    """Yield the places of the operands in the result."""
    dim, first = _dim(root), 0
    for operand in root.operands:
        shape = operand.array.with_layout(root.array.layout)
        inner = [dim for dim in loop_order(shape) if dim not in around]
        yield _Part(operand, dim, first, inner)
        first += operand.array.dims[dim]


def _dim(root: Instruction) -> int:
    """Return the concatenated dimension."""
    (dim,) = root.attributes.dimensions
    return int(dim)


def _elements(inst: Instruction, around: list[int]) -> int:
    """Return the elements of a row: of the dimensions that are not `around`."""
    return prod(size for dim, size in enumerate(inst.array.dims) if dim not in around)


def _has_functions(operand: Instruction) -> bool:
    return any(inst.opcode.transcendental for inst in post_order_from([operand]))


def _around(root: Instruction) -> list[int]:
    """Return the dimensions with loops around all operands, slowest first."""
    order, dim = loop_order(root.array), _dim(root)
    return order[: order.index(dim)] if dim in order else order


def _emit(around: list[int], k: KernelContext) -> None:
    """Write the operands one after another, inside loops over the dimensions `around` them."""
    lanes = lanes_of(k)
    with k.body.nest(k.root.array.dims, around, (k.begin, k.end)) as outer:
        for length, parts in groupby(_parts(k.root, around), lambda p: p.row_of_functions(lanes)):
            if length:
                together = list(parts)
                rows = [(part.operand, partial(part.store, k)) for part in together]
                index = [outer[d] for d in range(k.root.array.rank)]
                write_rows(k, rows, together[0].inner[0], index)
            else:
                k.is_final = False
                for part in parts:
                    part.write(k, outer)
    mark_final(k)


def _emit_along(k: KernelContext) -> None:
    """Write what of each operand lies in the kernel's part of the concatenated dimension."""
    k.is_final = False
    for part in _parts(k.root, []):
        within = [k.math.sub(x, part.first) for x in (k.begin, k.end)]
        first, last = (k.math.clamp(x, part.operand.array.dims[part.dim]) for x in within)
        loops = [part.dim, *(d for d in part.inner if d != part.dim)]
        replace(part, inner=loops).write(k, [0] * k.root.array.rank, (first, last))
    mark_final(k)


def _emit_rows_in_lanes(around: list[int], k: KernelContext) -> None:
    """Write the operands for several indices of the fastest dimension around them at a time."""
    with nest_of_rows(k, k.root.array.dims, around) as outer:
        for part in _parts(k.root, around):
            part.write(k, outer)
    mark_final(k)


@dataclass(frozen=True, slots=True)
class _Part:
    """Where one operand is in the result.

    Attributes:
        dim: the concatenated dimension.
        first: position of the first element along it.
        inner: the dimensions that are not around all operands, slowest first.
    """

    operand: Instruction
    dim: int
    first: int
    inner: list[int]

    def row_of_functions(self, lanes: Lanes | None) -> int:
        """Return the length of its rows if functions such as exp are computed in them, or 0.

        LLVM computes functions outside of whole vectors one by one, and all that need branches or
        divide the dimension; here the last vector overlaps the one before. 0.38 of the time for exp
        and tanh of 2 times 12 columns, 0.65 for 2 times 20 (f32, AVX2), 0.17 for sine and cosine of
        3 coordinates times 8 frequencies (f32, AVX-512).
        """
        size = self.operand.array.dims[self.inner[-1]] if self.inner else 1
        fits = lanes is not None and len(self.inner) == 1 and size >= lanes.count
        return size if fits and _has_functions(self.operand) else 0

    def write(
        self,
        k: KernelContext,
        outer: Sequence[IndexValue],
        first_range: tuple[IndexValue, IndexValue] | None = None,
    ) -> None:
        """Write the elements at one index of the dimensions around all operands.

        `first_range` is what of the outermost other dimension is written, None for all.
        """
        index = list(outer)
        with k.body.nest(self.operand.array.dims, self.inner, first_range) as at:
            for dim in self.inner:
                index[dim] = at[dim]
            self.store(k, index, k.read(self.operand, tuple(index)))

    def store(self, k: KernelContext, index: Sequence[IndexValue], value: Value) -> None:
        """Store the element at an index of the operand."""
        place = list(index)
        place[self.dim] = k.math.add(index[self.dim], self.first)
        k.output.store(k.math, tuple(place), value)
