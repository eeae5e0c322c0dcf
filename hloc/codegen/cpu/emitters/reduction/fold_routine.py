"""The common part of reduction routines: the operation, and vectors of elements of any size.

Vectors are reduced lane by lane, and the lanes with each other at the end. The order of operations
depends only on sizes and the vector width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import (
    REPRESENTATIONS,
    LaneIndex,
    Lanes,
    LaneSlot,
    Value,
    is_narrow_float,
)
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, routine_unit
from hloc.codegen.cpu.emitters.vector_loads import first_lanes, load_lanes, store_lanes
from hloc.codegen.elements.reductions import combined, identity_of
from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS, Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import BF16, F16, F32, F64, PRED, S8, S32, S64, U8, U32, U64, DType
from hloc.lazy_dataclass import dataclass

COPIES = 4
"""Independent accumulators, to hide the latency of additions."""

INIT = "%init"
"""The parameter for the initial value, of the type of the accumulators."""

DIVISOR = "%divisor"
"""The parameter for the divisor of results, of the type of the accumulators."""

_MASKED_BYTES = 4
"""AVX2 has masked loads for elements of at least this size; AVX-512 for all."""

_MOST_TRANSPOSED = 16


@dataclass(frozen=True, slots=True)
class Fold:
    """The operation and the types of a reduction routine.

    Attributes:
        name: opcode of a plain reducer.
        source: type of the elements in memory.
        total: type of the accumulators; blocks of long sums are added in f64.
        result: type of the results in memory.
        squares: whether the squares of the elements are reduced.
        finish: opcode of what is done to each result: "divide" by `DIVISOR`, "sqrt", or nothing.
    """

    name: str
    source: DType
    total: DType
    result: DType
    squares: bool = False
    finish: str = ""

    @property
    def is_float_sum(self) -> bool:
        """True if long sums are computed in blocks."""
        return self.name == "add" and self.total.is_float


def of_one_type(name: str, dtype: DType) -> Fold:
    """Return the reduction of elements of a type to results of the same type."""
    return Fold(name, dtype, F32 if is_narrow_float(dtype) else dtype, dtype)


_NORMS: tuple[Fold, ...] = tuple(
    Fold("add", F32, F32, F32, squares, finish)
    for squares, finish in ((False, "divide"), (True, ""), (True, "divide"), (True, "sqrt"))
)
"""Means, sums and means of squares, and Euclidean norms."""

LISTED_FOLDS: tuple[Fold, ...] = (
    *_NORMS,
    *(of_one_type("add", dtype) for dtype in (F32, F64, BF16, F16, U32, U64)),
    *(Fold("add", narrow, F32, F32) for narrow in (BF16, F16)),
    *(Fold("add", narrow, U32, U32) for narrow in (S8, U8)),
    *(of_one_type("multiply", dtype) for dtype in (F32, F64, U32)),
    *(
        of_one_type(name, dtype)
        for name in ("maximum", "minimum")
        for dtype in (F32, F64, BF16, F16, S32, U32, S8, U8)
    ),
    *(of_one_type(name, U8) for name in ("and", "or")),
)
"""The reductions of most programs, which have routines; others have kernels of their own. Sums of
signed integers are those of unsigned ones, and `pred` is a byte of 0 or 1."""


SMALL_FOLDS = (
    *_NORMS,
    *(of_one_type(name, F32) for name in ("add", "maximum", "minimum")),
    of_one_type("add", U32),
)
"""Reductions that also have routines for small arrays, with vectors of at most `SMALL_BITS`."""

SMALL_BITS = 256
"""Waking wider registers takes longer than reducing a small array: without them, sums of `f32[8,8]`
take 0.15 us less, of 1.9 us in total."""


class FoldWriter:
    """One routine that is being emitted, with vectors that fill a register.

    Attributes:
        lanes: elements of a vector.
        has_masks: the target has masked loads of its elements.
    """

    def __init__(self, fold: Fold, w: RoutineWriter) -> None:
        self.fold, self.w = fold, w
        self.b, self.body, self.math = w.b, w.body, w.math
        self.lanes, target = w.b.lanes, w.b.target
        self.has_masks = has_masks(fold.source, target)
        self.identity = self.b.const(fold.total, identity_of(fold.name, fold.total))
        self.init = Value(fold.total, INIT)

    # ---- elements

    def at(self, position: IndexValue) -> LaneIndex:
        """Return the lanes of contiguous elements from `position` on."""
        return LaneIndex(S64, self.math.value(position).text)

    def pointer_to(self, place: IndexValue) -> Value:
        """Return the address of the operand's element number `place`."""
        return pointer_value(
            self.b.address(pointer_value("%from"), self.fold.source, self.math.value(place))
        )

    def load(self, pointer: Value, index: IndexValue) -> Value:
        """Return the vector of elements from `index` on."""
        return self._addend(self.b.load(pointer, self.fold.source, self.at(index)))

    def _addend(self, x: Value) -> Value:
        """Return what is reduced of an element."""
        x = self.b.convert(x, self.fold.total)
        return self.b.fmul(x, x) if self.fold.squares else x

    def finished(self, x: Value) -> Value:
        """Return a result, or a vector of results, as it is stored."""
        b, fold = self.b, self.fold
        if fold.finish == "divide":
            x = b.fdiv(x, Value(fold.total, DIVISOR))
        elif fold.finish == "sqrt":
            x = b.intrinsic("sqrt", x)
        return b.convert(x, fold.result)

    def mask(self, count: IndexValue) -> Lanes:
        """Return the mask of the first `count` lanes."""
        return Lanes(PRED, first_lanes(self.w, count, self.lanes))

    def load_some(self, pointer: Value, index: IndexValue, mask: Lanes) -> Value:
        """Return a vector of the elements in `mask`; the other lanes are the identity element."""
        at = self.b.address(pointer, self.fold.source, self.math.value(index))
        text = load_lanes(self.w, at, self.fold.source, self.lanes, mask.text)
        return self.b.select(mask, self._addend(Lanes(self.fold.source, text)), self.identity)

    def store_some(self, place: IndexValue, x: Value, mask: Lanes) -> None:
        """Write the lanes in `mask` of a vector of results from element `place` on."""
        result = self.fold.result
        at = self.b.address(pointer_value("%to"), result, self.math.value(place))
        store_lanes(self.w, at, result, self.lanes, mask.text, x.text)

    # ---- accumulators

    def folded(self, x: Value, y: Value) -> Value:
        """Return the reducer of two values or vectors."""
        return combined(self.b, self.fold.name, x, y)

    def running(self, count: int) -> list[LaneSlot]:
        """Return vectors of accumulators at their initial values."""
        slots = [self.b.lane_slot(self.fold.total) for _ in range(count)]
        self.restart(slots)
        return slots

    def restart(self, slots: Sequence[LaneSlot]) -> None:
        """Set accumulators to the identity element."""
        for slot in slots:
            self.b.store(slot, 0, self.identity)

    def add(self, slot: LaneSlot, x: Value) -> None:
        """Combine a vector with an accumulator."""
        self.b.store(slot, 0, self.folded(self.b.load(slot, self.fold.total, 0), x))

    def together(self, slots: Sequence[LaneSlot]) -> Value:
        """Return the reduction of several accumulators, lane by lane."""
        found = [self.b.load(slot, self.fold.total, 0) for slot in slots]
        while len(found) > 1:
            found = [self.folded(*found[i : i + 2]) for i in range(0, len(found), 2)]
        return found[0]

    def add_block(self, total: LaneSlot, slots: Sequence[LaneSlot]) -> None:
        """Add the accumulators of sums to totals in f64, and reset them."""
        block = self.b.convert(self.together(slots), F64)
        self.b.store(total, 0, self.b.fadd(self.b.load(total, F64, 0), block))
        self.restart(slots)

    # ---- lanes

    @property
    def group(self) -> int:
        """Vectors whose lanes are reduced at the same time."""
        return group_of(self.lanes)

    def narrowed(self, x: Value) -> Value:
        """Return a vector with `group` lanes that has the same reduction."""
        lanes = self.lanes
        while lanes > self.group:
            lanes //= 2
            with self.b.with_lanes(lanes):
                low, high = (
                    self._picked((x, x), 2 * lanes, range(first, first + lanes))
                    for first in (0, lanes)
                )
                x = self.folded(low, high)
        return x

    def each_folded(self, vectors: Sequence[Value]) -> Value:
        """Return a vector whose lane i is the reduction of vector i, for `group` vectors.

        Each step combines the halves of two vectors into the halves of one.
        """
        found, shift = list(vectors), self.group // 2
        with self.b.with_lanes(self.group):
            while shift:
                found = [
                    self._halves_folded(found[i], found[i + shift], shift) for i in range(shift)
                ]
                shift //= 2
        return found[0]

    def _halves_folded(self, x: Value, y: Value, shift: int) -> Value:
        """Combine lanes `shift` apart; those of `y` go to lanes whose number has that bit."""
        lanes = range(self.group)
        low = [lane - shift + self.group if lane & shift else lane for lane in lanes]
        high = [lane + self.group if lane & shift else lane + shift for lane in lanes]
        first, second = (self._picked((x, y), self.group, places) for places in (low, high))
        return self.folded(first, second)

    def _picked(self, pair: tuple[Value, Value], lanes: int, places: Sequence[int]) -> Lanes:
        """Return a shuffle of two vectors of `lanes` lanes; `places` count through both."""
        kind = f"<{lanes} x {REPRESENTATIONS[self.fold.total].register}>"
        mask = f"<{len(places)} x i32> <{', '.join(f'i32 {place}' for place in places)}>"
        x, y = (value.text for value in pair)
        text = self.w.fn.value(f"shufflevector {kind} {x}, {kind} {y}, {mask}")
        return Lanes(self.fold.total, text)


def fold_routine(
    fold: Fold,
    form: str,
    parameters: Sequence[str],
    target: Target,
    write: Callable[[FoldWriter], None],
) -> Routines:
    """Return the routine in `form`, whose body `write` emits.

    Parameters are given as LLVM text, except `INIT`, the initial value; `DIVISOR` is the last.
    """
    names = "_".join(dtype.name for dtype in (fold.source, fold.total, fold.result))
    lanes = lanes_of_fold(fold, target)
    parts = ["fold", fold.name, "squares" * fold.squares, fold.finish, names, str(lanes), form]
    name = "_".join(filter(None, parts))
    kind = REPRESENTATIONS[fold.total].register
    given = (*parameters, DIVISOR) if fold.finish == "divide" else parameters
    typed = tuple(f"{kind} {p}" if p in (INIT, DIVISOR) else p for p in given)
    return routine_unit(
        name, typed, lambda w: write(FoldWriter(fold, w)), target, FINAL_WITH_SLOTS, lanes
    )


def narrow_target(target: Target) -> Target:
    """Return the machine with narrower vectors, for routines for small arrays."""
    return replace(target, vector_bits=min(target.vector_bits, SMALL_BITS))


def lanes_of_fold(fold: Fold, target: Target) -> int:
    """Return how many elements are reduced at a time."""
    return target.vector_bytes // max(map(_computed_bytes, (fold.source, fold.total)))


def group_of(lanes: int) -> int:
    """Return how many vectors of this many lanes are reduced at the same time."""
    return min(lanes, _MOST_TRANSPOSED)


def has_masks(dtype: DType, target: Target) -> bool:
    """True if the machine has masked loads and stores of vectors of `dtype`."""
    is_wide = dtype.storage_bytes >= _MASKED_BYTES
    return target.has("avx512bw") or (is_wide and target.has("avx2"))


def _computed_bytes(dtype: DType) -> int:
    return F32.storage_bytes if is_narrow_float(dtype) else dtype.storage_bytes
