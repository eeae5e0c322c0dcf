"""The functions of a radix sort routine: keys and histograms, passes, equal floats.

Keys are unsigned integers (`sort_keys`). A pass moves them from one half of the scratch memory to
the other, in the order of one digit; the last pass converts them to elements.
"""

from __future__ import annotations

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import LlvmBuilder, pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument
from hloc.codegen.cpu.emitters.sort.sort_keys import (
    digit_of,
    element_key,
    element_of_key,
    one_of_equals,
    ordered,
)
from hloc.codegen.llvm.target import Target
from hloc.dtypes import DTYPES, S64, U32, DType
from hloc.lazy_dataclass import dataclass

_BLOCK = 1024
"""Elements whose keys are computed before their digits are counted."""


@dataclass(frozen=True, slots=True)
class RowForm:
    """The elements and payloads of a routine.

    Attributes:
        bits: width of an element.
        is_float: see `KeyForm`.
        other_bytes: size of the payload of an element, 0 for none.
    """

    bits: int
    is_float: bool
    other_bytes: int

    @property
    def name(self) -> str:
        kind = "float" if self.is_float else "integer"
        return f"sort_{kind}_{self.bits}_{8 * self.other_bytes}"

    @property
    def key(self) -> DType:
        return DTYPES[f"u{self.bits}"]

    @property
    def other(self) -> DType | None:
        return DTYPES[f"u{8 * self.other_bytes}"] if self.other_bytes else None

    @property
    def numbers(self) -> tuple[str, ...]:
        """The parameters that define the keys."""
        return tuple(f"i{self.bits} %{name}" for name in ("limit", "zero", "flip"))


class RadixFunctions:
    """Writes the functions of one form."""

    def __init__(self, form: RowForm, target: Target) -> None:
        self.form, self.target = form, target

    def function(self, suffix: str, parameters: tuple[str, ...]) -> RoutineWriter:
        lanes = self.target.vector_bytes * 8 // self.form.bits
        return RoutineWriter(self.form.name + suffix, parameters, self.target, lanes)

    def enter(self, digit: int) -> RoutineWriter:
        """Return the function that computes the keys, and counts all digits.

        It sets bits at `special` if the keys do not determine the elements.
        """
        w = self.function(
            f"_enter_{digit}",
            (
                *(
                    "ptr %from",
                    "i64 %from_step",
                    "ptr noalias %keys",
                    "ptr noalias %counts",
                ),
                *("ptr noalias %special", "i64 %size", *self.form.numbers),
            ),
        )
        b, m, dtype = w.b, w.math, self.form.key
        pointer, keys = pointer_value("%from"), pointer_value("%keys")
        step, size = argument("%from_step"), argument("%size")
        differences = b.allocate(dtype), b.lane_slot(dtype)
        for slot in differences:
            b.store(slot, 0, b.const(dtype, 0))
        with w.body.loop(0, size, _BLOCK) as first:
            stop = m.minimum(m.add(first, _BLOCK), size)
            whole = m.mul(m.div(m.sub(stop, first), b.lanes), b.lanes)
            is_dense = m.compare("EQ", step, 1)
            whole = m.add(first, b.select(is_dense, m.value(whole), m.value(0)))
            with w.whole_vectors(first, whole) as i:
                b.store(keys, i, self._key(b, b.load(pointer, dtype, i), differences[1]))
            with w.body.loop(whole, stop) as i:
                bits = b.load(pointer, dtype, m.value(m.mul(i, step)))
                b.store(keys, i, self._key(b, bits, differences[0]))
            with w.body.loop(first, stop) as i:
                wide = b.convert(b.load(keys, dtype, m.value(i)), S64)
                for number in range(-(-self.form.bits // digit)):
                    part = b.lshr(wide, b.const(S64, number * digit))
                    place = m.add(b.and_(part, b.const(S64, (1 << digit) - 1)), number << digit)
                    _incremented(w, "%counts", m.value(place))
        one, several = (b.load(slot, dtype, 0) for slot in differences)
        b.store(pointer_value("%special"), 0, b.or_(one, b.folded("or", several)))
        return w

    def _key(self, b: LlvmBuilder, bits: Value, difference: Value) -> Value:
        if not self.form.is_float:
            return element_key(b, bits, False)
        one = one_of_equals(b, bits)
        seen = b.load(difference, self.form.key, 0)
        b.store(difference, 0, b.or_(seen, b.xor(bits, one)))
        return ordered(b, one)

    def take_digit(self, *, is_last: bool) -> RoutineWriter:
        """Return the function of one pass: every key moves to the next position of its digit."""
        along = ("ptr %others", "ptr noalias %to_others")
        w = self.function(
            "_last" if is_last else "_pass",
            (
                *("ptr %from", "ptr noalias %to"),
                *(along if self.form.other else ()),
                *("ptr noalias %places", "i64 %size", "i64 %shift", "i64 %mask"),
                *(self.form.numbers if is_last else ()),
            ),
        )
        b, m = w.b, w.math
        with w.body.loop(0, argument("%size")) as i:
            key = b.load(pointer_value("%from"), self.form.key, m.value(i))
            digit = digit_of(b, key, argument("%shift"), argument("%mask"))
            place = b.convert(_incremented(w, "%places", digit), S64)
            new = element_of_key(b, key, self.form.is_float) if is_last else key
            b.store(pointer_value("%to"), place, new)
            if self.form.other:
                other = b.load(pointer_value("%others"), self.form.other, m.value(i))
                b.store(pointer_value("%to_others"), place, other)
        return w

    def restore(self) -> RoutineWriter:
        """Return the function that restores the bits of zeros and NaN, in their order."""
        row = ("ptr %from", "i64 %from_step", "ptr noalias %to", "i64 %to_step")
        w = self.function("_restore", (*row, "i64 %size", *self.form.numbers))
        b, m, dtype = w.b, w.math, self.form.key
        ones = (1 << dtype.bits) - 1
        samples = (b.const(dtype, 0), b.const(dtype, ones >> 1))
        keys = [element_key(b, sample, True) for sample in samples]
        slots = [b.allocate(S64) for _ in keys]
        for slot in slots:
            b.store(slot, 0, b.const(S64, 0))
        for writes in (False, True):
            with w.body.loop(0, argument("%size")) as i:
                bits = _load(w, "%from", dtype, "%from_step", i)
                found = element_key(b, bits, True)
                for key, slot in zip(keys, slots, strict=True):
                    place = b.load(slot, S64, 0)
                    counts = b.compare("EQ" if writes else "LT", found, key)
                    if writes:
                        with w.body.when(counts):
                            to = m.mul(place, argument("%to_step"))
                            b.store(pointer_value("%to"), m.value(to), bits)
                    b.store(slot, 0, b.iadd(place, b.convert(counts, S64)))
        return w


def _load(w: RoutineWriter, pointer: str, dtype: DType, step: str, i: IndexValue) -> Value:
    return w.b.load(pointer_value(pointer), dtype, w.math.value(w.math.mul(i, argument(step))))


def _incremented(w: RoutineWriter, counts: str, at: Value) -> Value:
    """Increment a count; return its old value."""
    before = w.b.load(pointer_value(counts), U32, at)
    w.b.store(pointer_value(counts), at, w.b.iadd(before, w.b.const(U32, 1)))
    return before
