"""The steps of Fourier transforms that work on several rows at once, for rows of any length.

A set of rows is interleaved in memory, one row per lane: element 0 of all rows, then element 1;
real parts in one array, imaginary parts in another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from hloc.codegen.builder.index import IndexMath
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import REPRESENTATIONS, Value
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument, routine_unit
from hloc.codegen.kernels.butterflies import Butterflies, Complex
from hloc.codegen.kernels.fft_plan import MOST_ODD
from hloc.codegen.kernels.lanes import has_many_registers
from hloc.codegen.kernels.vectors import Vectors
from hloc.codegen.llvm.routine import FINAL_FORM, FINAL_WITH_SLOTS, Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, F64, S64, DType
from hloc.lazy_dataclass import dataclass

TABLE = ("ptr %cosines", "ptr %sines")
FROM_ROWS = ("ptr noalias %from_real", "ptr noalias %from_imag")
TO_ROWS = ("ptr noalias %to_real", "ptr noalias %to_imag")

LISTED_FACTORS = (2, 3, 4, 5, 7, 8, 11, 13)
"""Factors of the lengths that most programs use; all are unrolled."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Interleaved rows: element i of all of them, then element i + 1."""

    v: Vectors
    real: Value
    imag: Value

    def load(self, at: IndexValue) -> Complex:
        return self.v.load(self.real, at), self.v.load(self.imag, at)

    def store(self, at: IndexValue, x: Complex) -> None:
        self.v.store(self.real, at, x[0])
        self.v.store(self.imag, at, x[1])

    def beginning_at(self, at: IndexValue) -> Rows:
        """Return the rows from element `at` on."""
        real, imag = (self.v.b.moved(part, self.v.dtype, at) for part in (self.real, self.imag))
        return Rows(self.v, real, imag)


@dataclass(frozen=True, slots=True)
class RowForm:
    """The form of rows: real numbers of `dtype`, in `lanes` lanes of a machine."""

    dtype: DType
    lanes: int
    target: Target

    def widened(self, count: int) -> RowForm:
        """Return the widest form whose vectors divide `count` consecutive elements of all rows."""
        lanes, most = self.lanes, self.target.vector_bytes // self.dtype.storage_bytes
        while 2 * lanes <= most and self.lanes * count % (2 * lanes) == 0:
            lanes *= 2
        return RowForm(self.dtype, lanes, self.target)


def place(m: IndexMath, i: IndexValue, lanes: int) -> IndexValue:
    """Return the offset of element `i` of the rows."""
    return m.mul(i, lanes)


def table_entry(v: Vectors, table: tuple[Value, Value], at: IndexValue) -> Complex:
    """Return entry `at` of a table of cosines and sines, in all lanes."""
    index = at if isinstance(at, Value) else Value(S64, str(at))
    cosine, sine = (v.b.load(part, v.dtype, index) for part in table)
    return v.splat(cosine), v.splat(sine)


class _Routine:
    """One function that is being emitted, with vectors for the rows."""

    def __init__(self, form: RowForm, w: RoutineWriter) -> None:
        self.w, self.lanes = w, form.lanes
        self.m, self.b, self.body = w.math, w.b, w.body
        self.v = Vectors(self.b, form.dtype, form.lanes)
        self.table = pointer_value("%cosines"), pointer_value("%sines")

    def rows(self, name: str) -> Rows:
        return Rows(self.v, *(pointer_value(f"%{name}_{part}") for part in ("real", "imag")))

    def at(self, i: IndexValue) -> IndexValue:
        return place(self.m, i, self.lanes)


def _routine(
    form: RowForm,
    name: str,
    parameters: tuple[str, ...],
    write: Callable[[_Routine], None],
    level: int = FINAL_FORM,
) -> Routines:
    """Return a routine whose text is generated on demand."""
    full_name = f"fft_{form.dtype.name}_{form.lanes}_{name}"
    return routine_unit(
        full_name, parameters, lambda w: write(_Routine(form, w)), form.target, level
    )


@cache
def pass_routine(form: RowForm, factor: int, inverse: bool, is_last: bool) -> Routines:
    """Return one pass of Stockham's algorithm.

    With x the source rows and y the target rows, and w entry `stride` of the table,
    y[j + done (q + factor s)] is w**(q s done) times element q of the transform of all
    x[j + done (s + rest p)]. In the last pass `rest` is 1.
    """
    name = f"{factor}{'_inverse' if inverse else ''}{'_last' if is_last else ''}"
    sizes = ("i64 %done", "i64 %rest", "i64 %stride")

    def write(r: _Routine) -> None:
        m, butterflies = r.m, Butterflies(r.v, inverse)
        source, target = r.rows("from"), r.rows("to")
        done = argument("%done")
        rest: IndexValue = 1 if is_last else argument("%rest")
        distance = m.mul(done, rest)
        inputs = [r.at(m.mul(distance, p)) for p in range(factor)]
        outputs = [r.at(m.mul(done, q)) for q in range(factor)]
        with r.body.loop(0, rest) as s:
            first = m.mul(done, s)
            step = m.mul(first, argument("%stride"))
            turned = () if is_last else range(1, factor)
            factors = [table_entry(r.v, r.table, m.mul(step, q)) for q in turned]
            with r.body.loop(0, done) as j:
                here = source.beginning_at(r.at(m.add(j, first)))
                there = target.beginning_at(r.at(m.add(j, m.mul(first, factor))))
                found = butterflies.transform([here.load(at) for at in inputs])
                for q, w in enumerate(factors, 1):
                    found[q] = butterflies.mul(found[q], w)
                for at, value in zip(outputs, found, strict=True):
                    there.store(at, value)

    return _routine(form, name, (*FROM_ROWS, *TO_ROWS, *TABLE, *sizes), write)


@cache
def odd_pass_routine(form: RowForm) -> Routines:
    """Return one pass of Stockham's algorithm for any odd factor from 7 to `MOST_ODD`.

    As `pass_routine` with other numbers: the rows of `form` are `done` floats, at least a vector,
    and the last two vectors may overlap; entry `turn` of the table is w, entry `root` is the root
    of unity of order `factor`. Pairs of elements from both ends share their products, and some
    results share the loads of pairs.
    """
    sizes = ("i64 %done", "i64 %rest", "i64 %factor", "i64 %turn", "i64 %root")

    def write(r: _Routine) -> None:
        m, done, factor = r.m, argument("%done"), argument("%factor")
        with r.body.loop(0, argument("%rest")) as s:
            first = m.mul(done, s)
            with r.body.loop(0, done, r.lanes) as block:
                j = m.minimum(block, m.sub(done, r.lanes))
                here = r.rows("from").beginning_at(m.add(j, first))
                there = r.rows("to").beginning_at(m.add(j, m.mul(first, factor)))
                _OddTransform(r, form, m.mul(s, argument("%turn"))).write(here, there)

    return _routine(form, "odd", (*FROM_ROWS, *TO_ROWS, *TABLE, *sizes), write, FINAL_WITH_SLOTS)


class _OddTransform:
    """Writes the transform of one vector of each of an odd number of rows."""

    def __init__(self, r: _Routine, form: RowForm, turn: IndexValue) -> None:
        self.r, self.v, self.m, self.turn = r, r.v, r.m, turn
        self.butterflies = Butterflies(r.v, inverse=False)
        self.factor, self.root = argument("%factor"), argument("%root")
        self.pairs = r.m.div(self.factor, 2)
        self.together = 4 if has_many_registers(form.target) else 2

    def write(self, here: Rows, there: Rows) -> None:
        """Write the sums of all pairs, then some results at a time."""
        r, m, v, body = self.r, self.m, self.v, self.r.body
        done, distance = argument("%done"), m.mul(argument("%done"), argument("%rest"))
        room = (MOST_ODD // 2) * r.lanes
        sums, differences = (
            Rows(v, r.b.allocate(v.dtype, room), r.b.allocate(v.dtype, room)) for _ in range(2)
        )
        start = here.load(0)
        total = _Slot(v, start)
        with body.loop(0, self.pairs) as k:
            low = here.load(m.mul(distance, m.add(k, 1)))
            high = here.load(m.mul(distance, m.sub(m.sub(self.factor, 1), k)))
            pair = self.butterflies.add(low, high)
            sums.store(r.at(k), pair)
            differences.store(r.at(k), self.butterflies.sub(low, high))
            total.add(pair)
        there.store(0, total.load())
        with body.loop(1, m.add(self.pairs, 1), self.together) as q:
            found = self._results(q, start, (sums, differences))
            for number, (even, odd) in enumerate(found):
                place = m.add(q, number)
                for at, value in (
                    (place, self.butterflies.add(even, odd)),
                    (m.sub(self.factor, place), self.butterflies.sub(even, odd)),
                ):
                    wave = table_entry(v, r.table, m.mul(self.turn, at))
                    there.store(m.mul(done, at), self.butterflies.mul(value, wave))

    def _results(
        self, q: IndexValue, start: Complex, pairs: tuple[Rows, Rows]
    ) -> list[tuple[Complex, Complex]]:
        """Return for results q, q + 1 ... what they share with results -q, -q - 1 ..., and not."""
        r, m, v = self.r, self.m, self.v
        zero = v.constant(0.0)
        steps = [m.mul(m.add(q, number), self.root) for number in range(self.together)]
        whole = m.mul(self.factor, self.root)
        even = [_Slot(v, start) for _ in steps]
        odd = [_Slot(v, (zero, zero)) for _ in steps]
        places = [r.b.allocate(S64) for _ in steps]
        for place in places:
            r.b.store(place, 0, m.value(0))
        with r.body.loop(0, self.pairs) as k:
            pair, difference = (rows.load(r.at(k)) for rows in pairs)
            for step, place, shared, own in zip(steps, places, even, odd, strict=True):
                at = m.add(r.b.load(place, S64, 0), step)
                wrapped = m.sub(at, whole)
                at = r.b.select(m.compare("GE", wrapped, 0), m.value(wrapped), m.value(at))
                r.b.store(place, 0, at)
                cosine, sine = table_entry(v, r.table, at)
                shared.add((v.mul(pair[0], cosine), v.mul(pair[1], cosine)))
                own.add((v.mul(difference[0], sine), v.mul(difference[1], sine)))
        turned = [(v.neg(imag), real) for real, imag in (slot.load() for slot in odd)]
        return [(slot.load(), x) for slot, x in zip(even, turned, strict=True)]


class _Slot:
    """A complex vector that changes in a loop."""

    def __init__(self, v: Vectors, start: Complex) -> None:
        self.v, self.places = v, [v.fn.allocate(v.type) for _ in start]
        for place, x in zip(self.places, start, strict=True):
            v.fn.line(f"store {v.type} {x}, ptr {place}")

    def load(self) -> Complex:
        real, imag = (self.v.fn.value(f"load {self.v.type}, ptr {at}") for at in self.places)
        return real, imag

    def add(self, x: Complex) -> None:
        for place, now, more in zip(self.places, self.load(), x, strict=True):
            self.v.fn.line(f"store {self.v.type} {self.v.add(now, more)}, ptr {place}")


@cache
def real_spectrum_routine(form: RowForm) -> Routines:
    """Return the routine for the half spectrum of real rows that were transformed as pairs.

    With z the transform of x[2i] + i x[2i + 1], of length `half`, and w = exp(-pi i / half), it is
    (z[k] + conj z[-k]) / 2 - i w**k (z[k] - conj z[-k]) / 2.
    """

    def write(r: _Routine) -> None:
        m, v, butterflies = r.m, r.v, Butterflies(r.v, inverse=False)
        half, zero, scale = argument("%half"), Value(S64, "0"), v.constant(0.5)
        with r.body.loop(0, m.add(half, 1)) as at:
            position, back = m.value(at), m.value(m.sub(half, at))
            is_end, is_start = m.compare("EQ", position, half), m.compare("EQ", position, zero)
            one = r.rows("from").load(r.at(r.b.select(is_end, zero, position)))
            other = r.rows("from").load(r.at(r.b.select(is_start, zero, back)))
            even = v.add(one[0], other[0]), v.sub(one[1], other[1])
            odd = v.sub(one[0], other[0]), v.add(one[1], other[1])
            turned = odd[1], v.neg(odd[0])
            product = butterflies.mul(turned, table_entry(v, r.table, at))
            total = butterflies.add(even, product)
            r.rows("to").store(r.at(at), (v.mul(total[0], scale), v.mul(total[1], scale)))

    return _routine(form, "joined", (*FROM_ROWS, *TO_ROWS, *TABLE, "i64 %half"), write)


@cache
def pairs_spectrum_routine(form: RowForm) -> Routines:
    """Return the routine that prepares half spectra of real rows for a transform to pairs.

    With x a half spectrum of `half` + 1 elements, y[k] = conj x[half - k] and w = exp(pi i / half),
    element k becomes x[k] + y[k] + i w**k (x[k] - y[k]): the inverse transform of length `half` of
    these has elements 2j and 2j + 1 of the row as the parts of element j. Imaginary parts of the
    first and last element count as zero.
    """

    def write(r: _Routine) -> None:
        m, v, butterflies, rows = r.m, r.v, Butterflies(r.v, inverse=False), r.rows("rows")
        half = argument("%half")
        first, last = rows.load(r.at(0)), rows.load(r.at(half))
        rows.store(r.at(0), (v.add(first[0], last[0]), v.sub(first[0], last[0])))
        with r.body.loop(1, m.add(m.div(half, 2), 1)) as at:
            back = m.sub(half, at)
            one, other = rows.load(r.at(at)), rows.load(r.at(back))
            even = v.add(one[0], other[0]), v.sub(one[1], other[1])
            odd = v.sub(one[0], other[0]), v.add(one[1], other[1])
            real, imag = butterflies.mul(odd, table_entry(v, r.table, at))
            rows.store(r.at(at), (v.sub(even[0], imag), v.add(even[1], real)))
            rows.store(r.at(back), (v.add(even[0], imag), v.sub(real, even[1])))

    return _routine(form, "split", ("ptr %rows_real", "ptr %rows_imag", *TABLE, "i64 %half"), write)


@cache
def multiply_routine(form: RowForm, conjugate: bool) -> Routines:
    """Return the routine that multiplies rows by a table, and conjugates them or not."""
    name = f"turned{'_conjugate' if conjugate else ''}"

    def write(r: _Routine) -> None:
        rows, butterflies = r.rows("rows"), Butterflies(r.v, inverse=False)
        with r.body.loop(0, argument("%count")) as i:
            at = r.at(i)
            real, imag = butterflies.mul(rows.load(at), table_entry(r.v, r.table, i))
            rows.store(at, (real, r.v.neg(imag) if conjugate else imag))

    return _routine(form, name, ("ptr %rows_real", "ptr %rows_imag", *TABLE, "i64 %count"), write)


@cache
def mirror_routine(form: RowForm) -> Routines:
    """Return the routine that completes half spectra of `held` elements: x[i] is conj x[n - i]."""

    def write(r: _Routine) -> None:
        n, rows = argument("%n"), r.rows("rows")
        with r.body.loop(argument("%held"), n) as i:
            real, imag = rows.load(r.at(r.m.sub(n, i)))
            rows.store(r.at(i), (real, r.v.neg(imag)))

    parameters = ("ptr %rows_real", "ptr %rows_imag", "i64 %held", "i64 %n")
    return _routine(form, "mirrored", parameters, write)


@cache
def load_routine(form: RowForm, pairs: bool) -> Routines:
    """Return the routine that loads rows, a square block of floats at a time.

    Row number i begins at `from` plus entry i of `starts`, and has at least one vector of floats;
    `pairs` are complex numbers, else imaginary parts are zero.
    """
    parameters = ("ptr noalias %from", "ptr %starts", *TO_ROWS, "i64 %floats")

    def write(r: _Routine) -> None:
        v, m, rows = r.v, r.m, r.rows("to")
        with _columns(r) as column:
            pointer = r.b.moved(pointer_value("%from"), v.dtype, m.value(column))
            found = v.transposed(
                [v.load(pointer, r.w.offset("%starts", i)) for i in range(r.lanes)]
            )
            first = m.div(column, 2) if pairs else column
            for number, x in enumerate(found):
                if pairs:
                    part = rows.imag if number % 2 else rows.real
                    v.store(part, r.at(m.add(first, number // 2)), x)
                else:
                    rows.store(r.at(m.add(first, number)), (x, v.constant(0.0)))

    return _routine(form, "pairs_in" if pairs else "in", parameters, write)


@cache
def store_routine(form: RowForm, pairs: bool) -> Routines:
    """Return the routine that stores rows times a number; arguments as for `load_routine`."""
    number_type = REPRESENTATIONS[form.dtype].memory
    parameters = (*FROM_ROWS, "ptr noalias %to", "ptr %starts", "i64 %floats")

    def write(r: _Routine) -> None:
        v, m, rows = r.v, r.m, r.rows("from")
        scale = v.splat(Value(form.dtype, "%scale"))
        with _columns(r) as column:
            pointer = r.b.moved(pointer_value("%to"), v.dtype, m.value(column))
            first = m.div(column, 2) if pairs else column
            found = []
            for number in range(r.lanes):
                part = rows.imag if pairs and number % 2 else rows.real
                at = m.add(first, number // 2 if pairs else number)
                found.append(v.mul(v.load(part, r.at(at)), scale))
            for i, x in enumerate(v.transposed(found)):
                v.store(pointer, r.w.offset("%starts", i), x)

    return _routine(
        form, "pairs_out" if pairs else "out", (*parameters, f"{number_type} %scale"), write
    )


@cache
def gather_routine(form: RowForm, pairs: bool) -> Routines:
    """Return the routine that loads `width` rows, an element at a time.

    Row number i begins at `from` plus entry i of `starts`, and has `count` elements `step` floats
    apart. With `pairs`, imaginary parts are `second` floats after real ones, else they are zero.
    """
    sizes = ("i64 %count", "i64 %step", "i64 %second", "i64 %width")

    def write(r: _Routine) -> None:
        rows, source = r.rows("to"), pointer_value("%from")
        with _elements(r) as (at, place):
            real = r.b.load(source, form.dtype, at)
            imag = r.b.const(form.dtype, 0)
            if pairs:
                imag = r.b.load(source, form.dtype, r.m.value(r.m.add(at, argument("%second"))))
            r.b.store(rows.real, place, real)
            r.b.store(rows.imag, place, imag)

    parameters = ("ptr noalias %from", "ptr %starts", *TO_ROWS, *sizes)
    return _routine(form, "pairs_gathered" if pairs else "gathered", parameters, write)


@cache
def scatter_routine(form: RowForm, pairs: bool) -> Routines:
    """Return the routine that stores rows times a number; arguments as for `gather_routine`."""
    number_type = REPRESENTATIONS[form.dtype].memory
    sizes = ("i64 %count", "i64 %step", "i64 %second", "i64 %width")

    def write(r: _Routine) -> None:
        rows, target = r.rows("from"), pointer_value("%to")
        scale = Value(form.dtype, "%scale")
        with _elements(r) as (at, place):
            real = r.b.load(rows.real, form.dtype, place)
            r.b.store(target, at, r.b.fmul(real, scale))
            if pairs:
                imag = r.b.load(rows.imag, form.dtype, place)
                second = r.m.value(r.m.add(at, argument("%second")))
                r.b.store(target, second, r.b.fmul(imag, scale))

    parameters = (*FROM_ROWS, "ptr noalias %to", "ptr %starts", *sizes, f"{number_type} %scale")
    return _routine(form, "pairs_scattered" if pairs else "scattered", parameters, write)


@contextmanager
def _elements(r: _Routine) -> Iterator[tuple[Value, Value]]:
    """Run the region for every element of `width` rows; yields its offset in the array and here."""
    m = r.m
    with r.body.loop(0, argument("%count")) as i, r.body.loop(0, argument("%width")) as lane:
        start = r.w.offset("%starts", lane)
        place = m.add(r.at(i), lane)
        yield m.value(m.add(start, m.mul(i, argument("%step")))), m.value(place)


@cache
def table_routine(dtype: DType, target: Target) -> Routines:
    """Return the routine for a table of cosines and sines of `count` angles, in ascending order.

    It multiplies those of the first `block` angles by that of the first angle of each of `blocks`,
    in f64. Both counts are multiples of `TABLE_UNIT`.
    """
    lanes = target.vector_bytes // F64.storage_bytes
    tables = [f"ptr noalias %{name}" for name in ("cosines", "sines")]
    sources = [
        f"ptr noalias readonly %{kind}_{name}"
        for kind in ("first", "next")
        for name in ("cosines", "sines")
    ]

    def write(w: RoutineWriter) -> None:
        m, v = w.math, Vectors(w.b, F64, lanes)
        count, block = argument("%count"), argument("%block")
        first, following = (
            tuple(pointer_value(f"%{kind}_{name}") for name in ("cosines", "sines"))
            for kind in ("first", "next")
        )
        with w.body.loop(0, argument("%blocks")) as number:
            begin, turn = m.mul(number, block), table_entry(v, (first[0], first[1]), number)
            with w.body.loop(0, m.minimum(block, m.sub(count, begin)), lanes) as i:
                wave = v.load(following[0], i), v.load(following[1], i)
                found = Butterflies(v, inverse=False).mul(wave, turn)
                for name, x in zip(("%cosines", "%sines"), found, strict=True):
                    narrow = Vectors(w.b, dtype, lanes)
                    if dtype is not F64:
                        x = w.fn.value(f"fptrunc {v.type} {x} to {narrow.type}")
                    narrow.store(pointer_value(name), m.add(begin, i), x)

    parameters = (*tables, *sources, "i64 %count", "i64 %block", "i64 %blocks")
    return routine_unit(f"fft_{dtype.name}_table", parameters, write, target)


@contextmanager
def _columns(r: _Routine) -> Iterator[IndexValue]:
    """Run the region for every vector of floats of the rows; the last two may overlap."""
    floats = argument("%floats")
    with r.body.loop(0, floats, r.lanes) as column:
        yield r.m.minimum(column, r.m.sub(floats, r.lanes))


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield the routines that most programs use: for one row, for a few, and for whole vectors."""
    for dtype in (F32, F64):
        yield table_routine(dtype, target)
        lanes = 1
        while lanes * dtype.storage_bytes <= target.vector_bytes:
            yield from _listed_for(RowForm(dtype, lanes, target))
            lanes *= 2


def _listed_for(form: RowForm) -> Iterator[Routines]:
    for inverse in (False, True):
        for factor in LISTED_FACTORS:
            for is_last in (False, True):
                yield pass_routine(form, factor, inverse, is_last)
    for pairs in (False, True):
        if form.lanes > 1:
            yield load_routine(form, pairs)
            yield store_routine(form, pairs)
        yield gather_routine(form, pairs)
        yield scatter_routine(form, pairs)
    for conjugate in (False, True):
        yield multiply_routine(form, conjugate)
    yield odd_pass_routine(form)
    yield real_spectrum_routine(form)
    yield mirror_routine(form)
    yield pairs_spectrum_routine(form)
