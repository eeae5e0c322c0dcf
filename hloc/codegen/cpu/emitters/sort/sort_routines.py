"""Routines that sort one row of any length by keys of its bits, alone or with a payload.

    sort(from, from_step, to, to_step, [others, others_step, to_others, to_others_step,]
         scratch, size, limit, zero, flip)

Steps are in elements. Keys are computed once and sorted by a stable radix sort, least significant
digit first (`radix_functions`); a digit that all keys share is skipped. Short rows are sorted by
rank (`rank_sort`). `others` move with the keys; a null pointer stands for the positions 0, 1, 2 ...
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.routine_writer import (
    RoutineWriter,
    argument,
    declaration,
    routine_unit,
)
from hloc.codegen.cpu.emitters.sort.radix_functions import RadixFunctions, RowForm
from hloc.codegen.cpu.emitters.sort.rank_sort import RANKED_BYTES, rank_function, ranked_size
from hloc.codegen.cpu.emitters.sort.sort_keys import WIDTHS, digit_of
from hloc.codegen.kernels.vectors import Vectors
from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS, Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import PRED, S64, U32, DType
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import aligned_bytes

LONG_ROW = 8192
"""From this length on, digits of eleven bits are faster than digits of eight."""

_DIRECT = 1 << 16
"""Up to this length, the last pass writes to the result: longer rows have many pages, and scratch
memory has larger pages."""

OTHER_BYTES = (0, 1, 2, 4, 8)
"""Sizes of payloads in bytes; 0 for none."""

_LISTED_OTHER_BYTES = (0, 4, 8)

_GATHERED_BYTES = (1, 2, 4, 8, 16)

_WIDE, _NARROW = 11, 8


def sort_bytes(form: RowForm, size: int, *, numbered: bool) -> int:
    """Return the scratch memory for rows of up to `size` elements.

    Args:
        form: the elements and payloads.
        size: most elements.
        numbered: the payload is the positions, which the routine writes itself.
    """
    row = aligned_bytes(size * form.bits // 8) + aligned_bytes(size * form.other_bytes)
    counts = max(_count_bytes(form.bits, digit) for digit in _digits(form.bits, size))
    places = aligned_bytes(size * form.other_bytes) if numbered else 0
    return places + max(2 * row + counts, RANKED_BYTES)


def _digits(bits: int, size: int) -> tuple[int, ...]:
    """Return the widths of the digits of keys for rows of up to `size` elements."""
    return (_NARROW, _WIDE) if bits > 16 and size >= LONG_ROW else (_NARROW,)


def _count_bytes(bits: int, digit: int) -> int:
    return -(-bits // digit) * U32.storage_bytes << digit


def sort_routines(form: RowForm, target: Target) -> Routines:
    """Return the routine for one form, with its functions."""
    declared = declaration(form.name, _parameters(form))
    source = partial(_sort_text, form, target)
    return Routines(form.name, (declared,), source, FINAL_WITH_SLOTS)


@cache
def _sort_text(form: RowForm, target: Target) -> str:
    digits = _digits(form.bits, LONG_ROW)
    parts = RadixFunctions(form, target)
    functions = [
        *(parts.enter(digit) for digit in digits),
        *(parts.take_digit(is_last=is_last) for is_last in (False, True)),
        *((parts.restore(),) if form.is_float else ()),
        rank_function(form.name, form.key, form.other, form.is_float, target),
    ]
    main = parts.function("", _parameters(form))
    _Main(main, form, digits, ranked_size(form.key, target)).write()
    declarations = dict.fromkeys(d for w in (*functions, main) for d in w.fn.declarations)
    texts = [w.text().replace("define void", "define internal void", 1) for w in functions]
    return "\n".join([*declarations, "", *texts, main.text()])


def _parameters(form: RowForm) -> tuple[str, ...]:
    moved = ("ptr %from", "i64 %from_step", "ptr %to", "i64 %to_step")
    others = (
        "ptr %others",
        "i64 %others_step",
        "ptr %to_others",
        "i64 %to_others_step",
    )
    along = others if form.other_bytes else ()
    return (*moved, *along, "ptr %scratch", "i64 %size", *form.numbers)


@dataclass(frozen=True, slots=True)
class _End:
    """The target of the last pass: half of the scratch memory, or the result."""

    half: str
    result: str
    step: str
    dtype: DType


class _Main:
    """Emits the steps of a row.

    Slots: `passes` and `width` are number and width of the digits, `live` has a bit per pass that
    is needed, `done` is the number of finished passes, and `special` is set if `restore` has work.
    """

    def __init__(
        self, w: RoutineWriter, form: RowForm, digits: tuple[int, ...], ranked: int
    ) -> None:
        self.w, self.fn, self.b, self.math, self.body = w, w.fn, w.b, w.math, w.body
        self.form, self.digits, self.ranked = form, digits, ranked
        self.size = argument("%size")
        names = ("passes", "width", "live", "done")
        self.slots = {name: w.b.allocate(S64) for name in names}
        self.special = w.b.allocate(form.key)
        self.numbers = ", ".join(form.numbers)
        self.others, self.others_step, self.scratch = (
            "%others",
            "%others_step",
            "%scratch",
        )

    def write(self) -> None:
        """Write the positions if they are the payload, and choose the algorithm."""
        m, body = self.math, self.body
        if self.form.other:
            self._number(self.form.other)
        with body.when(m.compare("LE", self.size, self.ranked)):
            along = f", {self._along('%to_others', '%to_others_step')}" if self.form.other else ""
            row = "ptr %from, i64 %from_step, ptr %to, i64 %to_step"
            arguments = f"{row}{along}, ptr {self.scratch}, i64 %size, {self.numbers}"
            self.fn.line(f"call void @{self.form.name}_ranked({arguments})")
        with body.when(m.compare("GT", self.size, self.ranked)):
            self._by_digits()

    def _number(self, other: DType) -> None:
        """Write 0, 1, 2 and so on at the start of the scratch memory, if there are no others."""
        fn, m, b = self.fn, self.math, self.b
        is_null = Value(PRED, fn.value("icmp eq ptr %others, null"))
        with self.body.when(is_null):
            whole = m.mul(m.div(self.size, b.lanes), b.lanes)
            for positions in (self.w.whole_vectors(0, whole), self.body.loop(whole, self.size)):
                with positions as i:
                    b.store(pointer_value("%scratch"), i, b.convert(m.value(i), other))
        size = m.value(self._multiple(other.storage_bytes))
        after = fn.value(f"getelementptr i8, ptr %scratch, i64 {size.text}")
        choose = f"select i1 {is_null.text}"
        self.others = fn.value(f"{choose}, ptr %scratch, ptr %others")
        self.others_step = fn.value(f"{choose}, i64 1, i64 %others_step")
        self.scratch = fn.value(f"{choose}, ptr {after}, ptr %scratch")

    def _along(self, to: str, step: str) -> str:
        return f"ptr {self.others}, i64 {self.others_step}, ptr {to}, i64 {step}"

    def _multiple(self, element_bytes: int) -> IndexValue:
        """Return the bytes of a row in scratch memory."""
        m = self.math
        return m.mul(m.div(m.add(m.mul(self.size, element_bytes), 63), 64), 64)

    def _get(self, name: str) -> Value:
        return self.b.load(self.slots[name], S64, 0)

    def _set(self, name: str, value: IndexValue) -> None:
        self.b.store(self.slots[name], 0, self.math.value(value))

    def _chosen(self, condition: Value, kind: str, on_true: str, on_false: str) -> str:
        return self.fn.value(f"select i1 {condition.text}, {kind} {on_true}, {kind} {on_false}")

    # ---- by digits

    def _by_digits(self) -> None:
        """Sort by radix: keys and counts of digits in one pass, then a pass per digit that differs.

        Longer rows use wider digits. The last pass that is needed writes the result; it runs even
        if no digit differs, to copy the row.
        """
        b, m = self.b, self.math
        keys_bytes = self._multiple(self.form.bits // 8)
        half_bytes = m.add(keys_bytes, self._multiple(self.form.other_bytes))
        keys = self.math.moved(self.scratch, half_bytes)
        counts = self.math.moved(self.scratch, m.mul(half_bytes, 2))
        if len(self.digits) == 1:
            self._enter(keys, counts, self.digits[0])
        else:
            for digit, order in zip(self.digits, ("LT", "GE"), strict=True):
                with self.body.when(m.compare(order, self.size, LONG_ROW)):
                    self._enter(keys, counts, digit)
        if self.form.other:
            self._enter_others(self.math.moved(keys, keys_bytes), self.form.other)
        self._find_live(keys, counts)
        self._set("done", 0)
        last = b.isub(b.const(S64, 63), b.intrinsic("ctlz", self._get("live")))
        last = b.intrinsic("smax", last, b.const(S64, 0))
        with self.body.loop(0, self._get("passes")) as which:
            needed = b.and_(b.lshr(self._get("live"), m.value(which)), b.const(S64, 1))
            is_last = m.compare("EQ", which, last)
            with self.body.when(b.or_(m.compare("NE", needed, 0), is_last)):
                self._take(which, is_last, counts, (keys_bytes, half_bytes))
                self._set("done", m.add(self._get("done"), 1))
        if self.form.is_float:
            self._restore()

    def _enter(self, keys: str, counts: str, digit: int) -> None:
        self.b.clear(pointer_value(counts), _count_bytes(self.form.bits, digit))
        places = f"ptr {keys}, ptr {counts}, ptr {self.special.text}"
        row = f"ptr %from, i64 %from_step, {places}, i64 %size, {self.numbers}"
        self.fn.line(f"call void @{self.form.name}_enter_{digit}({row})")
        self._set("passes", -(-self.form.bits // digit))
        self._set("width", digit)

    def _enter_others(self, to: str, other: DType) -> None:
        """Copy the payload if it is strided; `others` then points to a dense row."""
        b, m = self.b, self.math
        step = Value(S64, self.others_step)
        is_dense = m.compare("EQ", step, 1)
        with (
            self.body.when(m.compare("NE", step, 1)),
            self.body.loop(0, self.size) as i,
        ):
            value = b.load(pointer_value(self.others), other, m.value(m.mul(i, step)))
            b.store(pointer_value(to), i, value)
        self.others = self._chosen(is_dense, "ptr", self.others, to)

    def _restore(self) -> None:
        b, form = self.b, self.form
        special = b.load(self.special, form.key, 0)
        with self.body.when(b.compare("NE", special, b.const(form.key, 0))):
            row = "ptr %from, i64 %from_step, ptr %to, i64 %to_step, i64 %size"
            self.fn.line(f"call void @{form.name}_restore({row}, {self.numbers})")

    def _digit_mask(self) -> Value:
        b = self.b
        one = b.const(S64, 1)
        return b.isub(b.shl(one, self._get("width")), one)

    def _find_live(self, keys: str, counts: str) -> None:
        """Find the digits in which some key differs from the first one."""
        b, m = self.b, self.math
        self._set("live", 0)
        key = b.load(pointer_value(keys), self.form.key, 0)
        width, mask = self._get("width"), self._digit_mask()
        with self.body.loop(0, self._get("passes")) as which:
            digit = digit_of(b, key, m.value(m.mul(which, width)), mask)
            at = b.iadd(b.shl(m.value(which), width), digit)
            alike = b.convert(b.load(pointer_value(counts), U32, at), S64)
            differ = b.convert(m.compare("NE", alike, self.size), S64)
            self._set("live", b.or_(self._get("live"), b.shl(differ, m.value(which))))

    def _take(
        self,
        which: IndexValue,
        is_last: Value,
        counts: str,
        sizes: tuple[IndexValue, IndexValue],
    ) -> None:
        """Emit a pass from one half of the scratch memory to the other, or to the result."""
        b, m, form = self.b, self.math, self.form
        width, done = self._get("width"), self._get("done")
        offset = m.mul(b.shl(m.value(which), width), U32.storage_bytes)
        places = self.math.moved(counts, offset)
        self._add_up(places, b.shl(b.const(S64, 1), width))
        keys_bytes, half_bytes = sizes
        odd = b.and_(done, b.const(S64, 1))
        here = self.math.moved(self.scratch, m.mul(m.sub(1, odd), half_bytes))
        half = self.math.moved(self.scratch, m.mul(odd, half_bytes))
        ends = [_End(half, "%to", "%to_step", form.key)]
        along = ""
        if form.other:
            ends.append(
                _End(
                    self.math.moved(half, keys_bytes),
                    "%to_others",
                    "%to_others_step",
                    form.other,
                )
            )
            is_first = m.compare("EQ", done, 0)
            others = self._chosen(is_first, "ptr", self.others, self.math.moved(here, keys_bytes))
            along = f", ptr {others}"
        there = [self._target(end, is_last) for end in ends]
        rest = f", ptr {there[1]}" if form.other else ""
        shift = m.value(m.mul(which, width)).text
        how = f"ptr {places}, i64 %size, i64 {shift}, i64 {self._digit_mask().text}"
        row = f"ptr {here}, ptr {there[0]}{along}{rest}, {how}"
        with self.body.when(b.not_(is_last)):
            self.fn.line(f"call void @{form.name}_pass({row})")
        with self.body.when(is_last):
            self.fn.line(f"call void @{form.name}_last({row}, {self.numbers})")
            for end in ends:
                self._spread(end)

    def _is_direct(self, end: _End) -> Value:
        """Return whether the last pass writes to the result."""
        is_dense = self.math.compare("EQ", argument(end.step), 1)
        return self.b.and_(is_dense, self.math.compare("LE", self.size, _DIRECT))

    def _target(self, end: _End, is_last: Value) -> str:
        """Return the target of a pass."""
        is_direct = self.b.and_(is_last, self._is_direct(end))
        return self._chosen(is_direct, "ptr", end.result, end.half)

    def _spread(self, end: _End) -> None:
        """Copy the sorted row to the result if the last pass did not write to it."""
        b, m = self.b, self.math
        step = argument(end.step)
        with self.body.when(b.not_(self._is_direct(end))):
            is_dense = m.compare("EQ", step, 1)
            with self.body.when(is_dense):
                size = m.value(m.mul(self.size, end.dtype.storage_bytes)).text
                b.copy(pointer_value(end.result), pointer_value(end.half), size)
            strided = b.not_(is_dense)
            with self.body.when(strided), self.body.loop(0, self.size) as i:
                value = b.load(pointer_value(end.half), end.dtype, i)
                b.store(pointer_value(end.result), m.value(m.mul(i, step)), value)

    def _add_up(self, counts: str, digits: Value) -> None:
        """Replace the counts of one digit by their prefix sums, the first positions."""
        v, fn = (
            Vectors(self.b, U32, self.b.target.vector_bytes // U32.storage_bytes),
            self.fn,
        )
        before = fn.allocate(v.type)
        zeros, pointer = v.constant(0), pointer_value(counts)
        fn.line(f"store {v.type} {zeros}, ptr {before}")
        with self.body.loop(0, digits, v.lanes) as digit:
            own = total = v.load(pointer, digit)
            step = 1
            while step < v.lanes:
                total = v.folded("add", total, v.shifted_up(total, step, zeros))
                step *= 2
            sofar = fn.value(f"load {v.type}, ptr {before}")
            total = v.folded("add", total, sofar)
            v.store(pointer, digit, fn.value(f"sub {v.type} {total}, {own}"))
            fn.line(f"store {v.type} {v.lane_everywhere(total, v.lanes - 1)}, ptr {before}")


@cache
def gather_routine(element_bytes: int, target: Target) -> Routines:
    """Return the routine that copies elements of a row in the order of `places`.

    gather(from, from_step, to, to_step, places, size)
    """
    kind, align = f"i{8 * element_bytes}", min(element_bytes, 8)

    def write(w: RoutineWriter) -> None:
        with w.body.loop(0, argument("%size")) as i:
            place = w.b.convert(w.b.load(pointer_value("%places"), U32, i), S64)
            source = w.math.value(w.math.mul(place, argument("%from_step")))
            target_at = w.math.value(w.math.mul(i, argument("%to_step")))
            here = w.fn.value(f"getelementptr {kind}, ptr %from, i64 {source.text}")
            there = w.fn.value(f"getelementptr {kind}, ptr %to, i64 {target_at.text}")
            element = w.fn.value(f"load {kind}, ptr {here}, align {align}")
            w.fn.line(f"store {kind} {element}, ptr {there}, align {align}")

    row = ("ptr %from", "i64 %from_step", "ptr noalias %to", "i64 %to_step")
    parameters = (*row, "ptr %places", "i64 %size")
    return routine_unit(f"sort_gather_{element_bytes}", parameters, write, target)


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield the routines for all elements and payloads."""
    for bits in WIDTHS:
        for is_float in (False, True) if bits > 8 else (False,):
            for other_bytes in _LISTED_OTHER_BYTES:
                yield sort_routines(RowForm(bits, is_float, other_bytes), target)
    for element_bytes in _GATHERED_BYTES:
        yield gather_routine(element_bytes, target)
