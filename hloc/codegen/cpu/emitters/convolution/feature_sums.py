"""Convolutions with one output feature as routines: vectors of input features are summed.

    feature_sums(lhs, rhs, out, begin, end, numbers, finish, context)

Input features are contiguous in the input and in the kernel. `numbers` are `grouped_numbers`; their
features are those of the input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Lanes, Value
from hloc.codegen.cpu.emitters.convolution.position_loops import (
    PARAMETERS,
    Block,
    PositionLoops,
    Reach,
)
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, routine_unit
from hloc.codegen.cpu.emitters.vector_loads import first_lanes, load_lanes, vector_type
from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS, Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, F64, S64, DType
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FeatureSums:
    """The parameter of a routine's text: the element type of all three arrays."""

    dtype: DType

    @property
    def name(self) -> str:
        """The name of the routine."""
        return f"feature_sums_{self.dtype.name}"


@cache
def feature_sums_routine(form: FeatureSums, target: Target) -> Routines:
    """Return the routine of one form."""
    return routine_unit(
        form.name,
        PARAMETERS,
        lambda w: _Writer(w, form.dtype).write(),
        target,
        FINAL_WITH_SLOTS,
        target.vector_bits // form.dtype.bits,
    )


class _Writer(PositionLoops):
    """Writes one routine."""

    def __init__(self, w: RoutineWriter, dtype: DType) -> None:
        super().__init__(w, dtype)
        self.lanes = w.b.lanes
        self.kind = vector_type(dtype, self.lanes)

    def write_block(self, block: Block) -> None:
        """Sum over the window and the input features, a vector for each position."""
        fn, math, body = self.fn, self.math, self.body
        slots = [fn.allocate(self.kind) for _ in block.inputs]
        for slot in slots:
            fn.line(f"store {self.kind} zeroinitializer, ptr {slot}")
        line, run = self._runs(block.line)
        whole = math.sub(run, math.rem(run, self.lanes))
        rest = first_lanes(self.w, math.sub(run, whole), self.lanes)
        with ExitStack() as stack:
            left: IndexValue = block.source
            right: IndexValue = 0
            for reach in (*block.reaches, line):
                w = stack.enter_context(body.loop(reach.low, reach.high))
                left = math.add(left, math.mul(w, reach.step))
                right = math.add(right, math.mul(w, reach.rhs))
            with body.loop(0, whole, self.lanes) as first:
                self._add(slots, (math.add(left, first), math.add(right, first)), "", block)
            with body.when(math.compare("LT", whole, run)):
                self._add(slots, (math.add(left, whole), math.add(right, whole)), rest, block)
        for slot, place in zip(slots, block.results, strict=True):
            total = fn.value(f"load {self.kind}, ptr {slot}")
            to = self.moved_to("%out", math.add(block.to, place))
            sum_ = self.w.b.folded("add", Lanes(self.dtype, total))
            self.w.b.store(pointer_value(to), 0, sum_)

    def _runs(self, line: Reach) -> tuple[Reach, IndexValue]:
        """Return the loop over a line of the window, and the contiguous elements of an iteration.

        A line that is contiguous in the input and in the kernel is one run.
        """
        math, fn = self.math, self.fn
        apart = [math.sub(step, self.features) for step in (line.step, line.rhs)]
        differs = self.w.b.or_(*(math.compare("NE", x, 0) for x in apart))

        def chosen(many: IndexValue, one: IndexValue) -> Value:
            texts = (math.value(x).text for x in (many, one))
            return Value(S64, fn.value("select i1 {}, i64 {}, i64 {}".format(differs.text, *texts)))

        size = math.sub(line.high, line.low)
        high = chosen(line.high, math.minimum(line.high, math.add(line.low, 1)))
        return replace(line, high=high), chosen(self.features, math.mul(size, self.features))

    def _add(
        self,
        slots: Sequence[str],
        places: tuple[IndexValue, IndexValue],
        mask: str,
        block: Block,
    ) -> None:
        """Add the products of some input features, the lanes of `mask`, to the sums."""
        fn = self.fn
        source, kernel = (self.moved_to(*at) for at in zip(("%lhs", "%rhs"), places, strict=True))
        factor = load_lanes(self.w, kernel, self.dtype, self.lanes, mask)
        for slot, distance in zip(slots, block.inputs, strict=True):
            at = self.address(source, distance)
            x = load_lanes(self.w, at, self.dtype, self.lanes, mask)
            product = fn.value(f"fmul contract {self.kind} {x}, {factor}")
            total = fn.value(f"load {self.kind}, ptr {slot}")
            added = fn.value(f"fadd contract {self.kind} {total}, {product}")
            fn.line(f"store {self.kind} {added}, ptr {slot}")


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield all such routines."""
    for dtype in (F32, F64):
        yield feature_sums_routine(FeatureSums(dtype), target)
