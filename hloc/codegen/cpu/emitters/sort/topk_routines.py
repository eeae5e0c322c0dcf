"""Routines that find the first elements of one row of any length, in order, and their positions.

    topk(from, from_step, to, to_step, to_places, to_places_step, scratch, size, count, sign, flip)

Steps are in elements. Keys are unsigned integers in the order of the elements: the bits, with those
in `sign` inverted if the sign bit is set (all others of a float, none of an integer), then those in
`flip` inverted. If few elements are wanted, a histogram of the leading digits gives the digit of
the last one, and only elements up to that digit are sorted (`sort_routines`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import LlvmBuilder, pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument, routine_unit
from hloc.codegen.cpu.emitters.sort.radix_functions import RowForm
from hloc.codegen.cpu.emitters.sort.sort_keys import WIDTHS
from hloc.codegen.cpu.emitters.sort.sort_routines import sort_bytes, sort_routines
from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS, Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import DTYPES, S32, S64, U32, DType
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import aligned_bytes

_WORTH = 4
"""Elements are selected before sorting if at most one in this many is kept."""

_LEAST = 32
"""For more elements, that is faster than sorting them all."""

_LEADING_BITS = 11

_SCANNED = 16
"""Digits whose counts are added up at a time."""


@dataclass(frozen=True, slots=True)
class FirstForm:
    """The order of rows of a type; the module's docstring explains `sign` and `flip`."""

    bits: int
    sign: int
    flip: int

    @property
    def name(self) -> str:
        return f"topk_{self.bits}"


def first_form(dtype: DType, *, largest: bool) -> FirstForm | None:
    """Return the order with the largest or smallest first, None if routines do not support it."""
    if dtype.bits < 8 and not dtype.is_pred:  # the sign is not the highest bit of the byte
        return None
    bits = 8 * dtype.storage_bytes
    top, ones = 1 << (bits - 1), (1 << bits) - 1
    flip = top if dtype.has_sign or dtype.is_signed else 0
    return FirstForm(bits, top - 1 if dtype.has_sign else 0, flip ^ ones if largest else flip)


def _sorted_form(bits: int) -> RowForm:
    return RowForm(bits, False, S32.storage_bytes)


def topk_bytes(bits: int, size: int) -> int:
    """Return the scratch memory for rows of `size` elements."""
    inner = sort_bytes(_sorted_form(bits), size, numbered=True)
    rows = aligned_bytes(size * bits // 8) + aligned_bytes(size * U32.storage_bytes)
    return 2 * rows + _count_bytes(bits) + inner


def _leading_bits(bits: int) -> int:
    return min(_LEADING_BITS, bits)


def _count_bytes(bits: int) -> int:
    return U32.storage_bytes << _leading_bits(bits)


@cache
def topk_routines(bits: int, target: Target) -> tuple[Routines, Routines]:
    """Return the routine for elements of `bits` bits, and the one that it calls."""
    name = f"topk_{bits}"
    inner = sort_routines(_sorted_form(bits), target)
    parameters = (
        *("ptr %from", "i64 %from_step", "ptr noalias %to", "i64 %to_step"),
        *("ptr noalias %to_places", "i64 %to_places_step", "ptr noalias %scratch"),
        *("i64 %size", "i64 %count", f"i{bits} %sign", f"i{bits} %flip"),
    )

    def write(w: RoutineWriter) -> None:
        for declaration in inner.declarations:
            w.fn.declare(declaration)
        _Writer(w, DTYPES[f"u{bits}"], inner.symbols[0]).write()

    lanes = target.vector_bytes * 8 // bits
    return routine_unit(name, parameters, write, target, FINAL_WITH_SLOTS, lanes), inner


class _Writer:
    """Writes the steps of a row.

    Slots: `kept` is the number of elements that are sorted, `digit` the last leading digit of them.
    """

    def __init__(self, w: RoutineWriter, key: DType, inner: str) -> None:
        self.w, self.fn, self.b, self.math, self.body = w, w.fn, w.b, w.math, w.body
        self.key, self.inner = key, inner
        self.size, self.count = argument("%size"), argument("%count")
        self.kept, self.digit = w.b.allocate(S64), w.b.allocate(S64)
        m = self.math
        row, places = self._row(key), self._row(U32)
        offsets = [0, row, m.mul(row, 2), m.add(m.mul(row, 2), places)]
        offsets.append(m.add(offsets[3], places))
        offsets.append(m.add(offsets[4], _count_bytes(key.bits)))
        pointers = [pointer_value(self.math.moved("%scratch", offset)) for offset in offsets]
        self.keys, self.ordered, self.places, self.ordered_places, self.counts = pointers[:5]
        self.scratch = pointers[5]

    def _row(self, dtype: DType) -> IndexValue:
        m = self.math
        return m.mul(m.div(m.add(m.mul(self.size, dtype.storage_bytes), 63), 64), 64)

    def write(self) -> None:
        """Compute the keys, select, sort, and convert keys to elements."""
        m, b = self.math, self.b
        self._enter()
        b.store(self.kept, 0, self.size)
        are_few = m.compare("LE", m.mul(self.count, _WORTH), self.size)
        selects = b.and_(are_few, m.compare("GT", self.size, _LEAST))
        with self.body.when(selects):
            self._count()
            self._find_digit()
            self._choose()
        places = f"select i1 {selects.text}, ptr {self.places.text}, ptr null"
        self._sort(self.fn.value(places))
        self._leave()

    def _turned(self, b: LlvmBuilder, x: Value) -> Value:
        """Return `x` with the bits of `sign` inverted if its sign is set; an involution."""
        signed = DTYPES[f"s{self.key.bits}"]
        mask = b.ashr(b.convert(x, signed), b.const(signed, self.key.bits - 1))
        return b.xor(x, b.and_(b.convert(mask, self.key), Value(self.key, "%sign")))

    def _enter(self) -> None:
        """Write all keys, several at a time from a dense row."""
        b, m = self.b, self.math
        step, pointer, flip = (
            argument("%from_step"),
            pointer_value("%from"),
            Value(self.key, "%flip"),
        )
        whole = m.mul(m.div(self.size, b.lanes), b.lanes)
        whole = b.select(m.compare("EQ", step, 1), m.value(whole), m.value(0))
        with self.w.whole_vectors(0, whole) as i:
            bits = b.load(pointer, self.key, i)
            b.store(self.keys, i, b.xor(self._turned(b, bits), flip))
        with self.body.loop(whole, self.size) as i:
            bits = b.load(pointer, self.key, m.value(m.mul(i, step)))
            b.store(self.keys, i, b.xor(self._turned(b, bits), flip))

    def _leading(self, key: Value) -> Value:
        shift = self.b.const(self.key, self.key.bits - _leading_bits(self.key.bits))
        return self.b.lshr(key, shift)

    def _count(self) -> None:
        """Count the leading digits."""
        b = self.b
        b.clear(self.counts, _count_bytes(self.key.bits))
        with self.body.loop(0, self.size) as i:
            at = b.convert(self._leading(b.load(self.keys, self.key, self.math.value(i))), S64)
            b.store(self.counts, at, b.iadd(b.load(self.counts, U32, at), b.const(U32, 1)))

    def _find_digit(self) -> None:
        """Find the leading digit of element number `count` in order."""
        b, m = self.b, self.math
        total = b.allocate(S64)
        b.store(total, 0, b.const(S64, 0))
        b.store(self.digit, 0, b.const(S64, 0))
        for step in (_SCANNED, 1):
            with self.body.repeat_while() as head:
                digit = b.load(self.digit, S64, 0)
                here = self._counted(digit, step)
                sum_ = b.iadd(b.load(total, S64, 0), here)
                head.go_on_if(m.compare("LT", sum_, self.count))
                b.store(total, 0, sum_)
                b.store(self.digit, 0, m.value(m.add(digit, step)))

    def _counted(self, digit: Value, step: int) -> Value:
        """Return the sum of the counts of `step` digits."""
        b = self.b
        if step == 1:
            return b.convert(b.load(self.counts, U32, digit), S64)
        kind = f"<{step} x i32>"
        at = b.address(self.counts, U32, digit)
        counts = self.fn.value(f"load {kind}, ptr {at}, align 4")
        symbol = f"@llvm.vector.reduce.add.v{step}i32"
        return b.convert(Value(U32, self.fn.call("i32", symbol, (kind, counts))), S64)

    def _choose(self) -> None:
        """Compact the keys up to that digit, and write their positions."""
        b, m = self.b, self.math
        last = b.convert(b.load(self.digit, S64, 0), self.key)
        b.store(self.kept, 0, b.const(S64, 0))
        whole = m.mul(m.div(self.size, b.lanes), b.lanes)
        rest = b.allocate(S64)
        with self.w.whole_vectors(0, whole) as i:
            wanted = b.compare("LE", self._leading(b.load(self.keys, self.key, i)), last)
            mask = self.fn.value(f"bitcast <{b.lanes} x i1> {wanted.text} to i{b.lanes}")
            wide = mask if b.lanes == 64 else self.fn.value(f"zext i{b.lanes} {mask} to i64")
            b.store(rest, 0, Value(S64, wide))
            first = Value(S64, i.text)
            with self.body.repeat_while() as head:
                left = b.load(rest, S64, 0)
                head.go_on_if(m.compare("NE", left, 0))
                b.store(rest, 0, b.and_(left, b.isub(left, b.const(S64, 1))))
                self._keep(m.add(first, self._lowest(left)))
        with self.body.loop(whole, self.size) as i:
            leading = self._leading(b.load(self.keys, self.key, m.value(i)))
            with self.body.when(b.compare("LE", leading, last)):
                self._keep(i)

    def _lowest(self, bits: Value) -> Value:
        """Return the number of the lowest bit that is set."""
        operands = ("i64", bits.text), ("i1", "true")
        return Value(S64, self.fn.call("i64", "@llvm.cttz.i64", *operands))

    def _keep(self, i: IndexValue) -> None:
        b, m = self.b, self.math
        kept = b.load(self.kept, S64, 0)
        b.store(self.keys, kept, b.load(self.keys, self.key, m.value(i)))
        b.store(self.places, kept, b.convert(m.value(i), U32))
        b.store(self.kept, 0, m.value(m.add(kept, 1)))

    def _sort(self, places: str) -> None:
        """Sort the selected keys; a null pointer for positions stands for 0, 1, 2 ..."""
        kept = self.b.load(self.kept, S64, 0).text
        numbers = ", ".join([f"i{self.key.bits} 0"] * 3)
        self.fn.line(
            f"call void @{self.inner}(ptr {self.keys.text}, i64 1, ptr {self.ordered.text}, i64 1, "
            f"ptr {places}, i64 1, ptr {self.ordered_places.text}, i64 1, "
            f"ptr {self.scratch.text}, i64 {kept}, {numbers})"
        )

    def _leave(self) -> None:
        """Write the first elements and their positions."""
        b, m = self.b, self.math
        with self.body.loop(0, self.count) as i:
            key = b.load(self.ordered, self.key, m.value(i))
            bits = self._turned(b, b.xor(key, Value(self.key, "%flip")))
            b.store(pointer_value("%to"), m.value(m.mul(i, argument("%to_step"))), bits)
            place = b.load(self.ordered_places, U32, m.value(i))
            to = m.mul(i, argument("%to_places_step"))
            b.store(pointer_value("%to_places"), m.value(to), place)


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield the routines for all widths of elements."""
    for bits in WIDTHS:
        yield topk_routines(bits, target)[0]
