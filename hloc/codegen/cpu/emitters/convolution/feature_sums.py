"""Convolutions with few output features as routines: vectors of input features are summed.

    feature_sums(lhs, rhs, out, begin, end, numbers, finish, context)

Input features are contiguous in the input and in the kernel. `numbers` are `grouped_numbers`; their
features are those of the input. With several output features, their strides in the kernel and in
the result follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from itertools import chain, product

from hloc.analysis.small_groups import SPATIAL_DIMS
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Lanes, Value
from hloc.codegen.cpu.emitters.convolution.grouped_arguments import FEATURES, OUTER, SPATIAL
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

_TOGETHER = {1: 4, 2: 4, 3: 3, 4: 2}
"""Positions whose sums are in registers at a time, by output features."""

FEW_FEATURES = max(_TOGETHER)
"""Most output features.

Time of gradients to inputs with a stride of 2 over that of gemms, AVX2: 0.35 to 0.45 for two
features, 0.31 to 0.65 for three, 0.47 to 0.64 for four; of windows of 3x3 over 64x64x32, 0.28 for
two and 0.39 for three, 0.7 over 64x64x3 for three.
"""


@dataclass(frozen=True, slots=True)
class FeatureSums:
    """The parameters of a routine's text.

    Attributes:
        dtype: element type of all three arrays.
        outputs: output features.
    """

    dtype: DType
    outputs: int = 1

    @property
    def name(self) -> str:
        """The name of the routine."""
        return f"feature_sums_{self.dtype.name}" + f"_{self.outputs}" * (self.outputs > 1)


@cache
def feature_sums_routine(form: FeatureSums, target: Target) -> Routines:
    """Return the routine of one form."""
    return routine_unit(
        form.name,
        PARAMETERS,
        lambda w: _Writer(w, form).write(),
        target,
        FINAL_WITH_SLOTS,
        target.vector_bits // form.dtype.bits,
    )


class _Writer(PositionLoops):
    """Writes one routine."""

    def __init__(self, w: RoutineWriter, form: FeatureSums) -> None:
        super().__init__(w, form.dtype, _TOGETHER[form.outputs])
        self.lanes, self.outputs = w.b.lanes, form.outputs
        self.kind = vector_type(form.dtype, self.lanes)
        self.steps: tuple[IndexValue, IndexValue] = (0, 0)

    def prepare(self, d: Sequence[Value]) -> None:
        super().prepare(d)
        if self.outputs > 1:
            at = FEATURES + OUTER + SPATIAL_DIMS * SPATIAL
            self.steps = self.w.offset("%numbers", at), self.w.offset("%numbers", at + 1)

    def write_block(self, block: Block) -> None:
        """Sum over the window and the input features, vectors for each position."""
        fn, math, body = self.fn, self.math, self.body
        slots = [[fn.allocate(self.kind) for _ in block.inputs] for _ in range(self.outputs)]
        for slot in chain(*slots):
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
        for feature, sums in enumerate(slots):
            to = math.add(block.to, math.mul(feature, self.steps[1]))
            for slot, place in zip(sums, block.results, strict=True):
                total = fn.value(f"load {self.kind}, ptr {slot}")
                sum_ = self.w.b.folded("add", Lanes(self.dtype, total))
                self.w.b.store(pointer_value(self.moved_to("%out", math.add(to, place))), 0, sum_)

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
        slots: Sequence[Sequence[str]],
        places: tuple[IndexValue, IndexValue],
        mask: str,
        block: Block,
    ) -> None:
        """Add the products of some input features, the lanes of `mask`, to the sums."""
        fn, (left, right) = self.fn, places
        source = self.moved_to("%lhs", left)
        xs = [
            load_lanes(self.w, self.address(source, x), self.dtype, self.lanes, mask)
            for x in block.inputs
        ]
        for feature, sums in enumerate(slots):
            at = self.math.add(right, self.math.mul(feature, self.steps[0]))
            factor = load_lanes(self.w, self.moved_to("%rhs", at), self.dtype, self.lanes, mask)
            for slot, x in zip(sums, xs, strict=True):
                scaled = fn.value(f"fmul contract {self.kind} {x}, {factor}")
                total = fn.value(f"load {self.kind}, ptr {slot}")
                added = fn.value(f"fadd contract {self.kind} {total}, {scaled}")
                fn.line(f"store {self.kind} {added}, ptr {slot}")


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield all such routines."""
    for dtype, outputs in product((F32, F64), range(1, FEW_FEATURES + 1)):
        yield feature_sums_routine(FeatureSums(dtype, outputs), target)
