"""Loops that make several neighbouring elements at a time, one per lane of a vector.

Text with such loops is in the form in which it should run, so LLVM has no vectors to find. How many
lanes there are depends on the element types of a kernel; kernels with opcodes that need branches or
that move single elements have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

from hloc.analysis.epilogue import product_in
from hloc.codegen.emitters.context import KernelContext, array_leaves
from hloc.codegen.lane_builder import LaneBuilder
from hloc.codegen.loops import IndexValue
from hloc.codegen.routine import FINAL_WITH_SLOTS
from hloc.codegen.target import Target
from hloc.codegen.values import LaneIndex, is_narrow_float
from hloc.dtypes import S64, DType, component_of
from hloc.ir.instruction import Instruction
from hloc.shapes import ArrayShape

_OPCODES = frozenset(
    {
        "parameter",
        "constant",
        "iota",
        "broadcast",
        "reshape",
        "bitcast",
        "copy",
        "transpose",
        "slice",
        "tuple",
        "get-tuple-element",
        "reduce",
        "reduce-window",
        "fusion",
    }
)
"""Opcodes besides the elementwise ones that a kernel with lanes may have."""

_WORD_BYTES = 4
"""Kernels on elements of this size and wider ones are LLVM's to make vectors of: with as many lanes
as fit the wider ones, bits of `threefry` are made at half the speed."""

_PROCESSORS = ("x86_64", "i686", "aarch64")
"""Where all vectors that LLVM is given become vectors of the machine."""


def lane_count(inst: Instruction, target: Target) -> int:
    """Return how many elements of a kernel's arrays fill a register, 0 if it needs scalars."""
    if not target.triple.startswith(_PROCESSORS):
        return 0
    members = [inst]
    if inst.is_a("fusion"):
        product = product_in(inst.called[0])  # routines make it
        members = [member for member in inst.called[0].instructions if member is not product]
    sizes = set()
    for member in members:
        if member.opcode.elemental is None and member.opcode.name not in _OPCODES:
            return 0
        for shape in chain(
            array_leaves(member.shape), *(array_leaves(o.shape) for o in member.operands)
        ):
            sizes.add(_computed_bytes(shape))
    widest = max(sizes, default=0)
    if not widest or (widest > _WORD_BYTES and _WORD_BYTES in sizes):
        return 0
    return target.vector_bytes // widest


def _computed_bytes(shape: ArrayShape) -> int:
    """Return the size of an element of `shape` while it is computed with; 0 of scalars."""
    if not shape.dims:
        return 0
    dtype: DType = component_of(shape.dtype)
    return 4 if is_narrow_float(dtype) else dtype.storage_bytes


@dataclass(frozen=True, slots=True)
class Lanes:
    """Writes loops over lanes into a kernel."""

    k: KernelContext
    b: LaneBuilder

    @property
    def count(self) -> int:
        """Elements at a time."""
        return self.b.lanes

    def serve(self, size: int) -> bool:
        """True if `size` neighbours can be made in whole vectors.

        Where it is no multiple, the last vector repeats elements, so that nothing may have been
        written over what they are made of.
        """
        if size % self.count == 0:
            return size > 0
        return size > self.count and not any(a is not None for a in self.k.aliased)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """A region in which values of one element are kept per lane."""
        outer, self.b.is_inside = self.b.is_inside, True
        try:
            yield
        finally:
            self.b.is_inside = outer

    def at(self, position: IndexValue) -> LaneIndex:
        """Return the neighbours from `position` on."""
        return LaneIndex(S64, self.k.math.value(position).text)

    @contextmanager
    def loop(self, start: IndexValue, stop: IndexValue, size: int) -> Iterator[LaneIndex]:
        """Run the region for all vectors from `start` to `stop` of `size` neighbours."""
        with self.k.body.loop(start, stop, self.count) as first, self.inside():
            if size % self.count:
                first = self.k.math.minimum(first, size - self.count)
            yield self.at(first)


def lanes_of(k: KernelContext) -> Lanes | None:
    """Return the writer of loops over lanes, None if the kernel has no lanes."""
    return Lanes(k, k.b) if isinstance(k.b, LaneBuilder) and k.b.lanes else None


def settle(k: KernelContext) -> None:
    """Let LLVM leave a kernel as it is whose loops are all over lanes."""
    if k.is_final:
        k.level = FINAL_WITH_SLOTS


@contextmanager
def positions(
    k: KernelContext, size: int, start: IndexValue, stop: IndexValue
) -> Iterator[IndexValue]:
    """Run the region from `start` to `stop` of `size` neighbours, several at a time if possible.

    Parts of threads begin at whole vectors (`split_kernel.py`).
    """
    lanes = lanes_of(k)
    if lanes is None or not lanes.serve(size):
        k.is_final = False
        with k.body.loop(start, stop) as position:
            yield position
        return
    with lanes.loop(start, stop, size) as position:
        yield position


@contextmanager
def lanes_nest(
    k: KernelContext,
    dims: Sequence[int],
    order: Sequence[int],
    first_range: tuple[IndexValue, IndexValue],
) -> Iterator[list[IndexValue]]:
    """Run the region for every index as `Body.nest` does, several of the fastest at a time."""
    if not order:
        yield [0] * len(dims)
        return
    *slow, last = order
    with k.body.nest(dims, slow, first_range) as index:
        start, stop = (0, dims[last]) if slow else first_range
        with positions(k, dims[last], start, stop) as position:
            index[last] = position
            yield index
