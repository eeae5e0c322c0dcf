"""One pass of Stockham's algorithm for any odd factor, with loops over pairs of elements."""

from __future__ import annotations

from functools import cache

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.cpu.emitters.fft.interleaved_rows import (
    FROM_ROWS,
    TO_ROWS,
    RowForm,
    RowRoutine,
    Rows,
    row_routine,
)
from hloc.codegen.cpu.emitters.fft.wave_table import TABLE, table_entry
from hloc.codegen.cpu.emitters.routine_writer import argument
from hloc.codegen.kernels.butterflies import Butterflies, Complex
from hloc.codegen.kernels.fft_plan import MOST_ODD
from hloc.codegen.kernels.lanes import has_many_registers
from hloc.codegen.kernels.vectors import Vectors
from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS, Routines
from hloc.dtypes import S64


@cache
def odd_pass_routine(form: RowForm) -> Routines:
    """Return one pass of Stockham's algorithm for any odd factor from 7 to `MOST_ODD`.

    As `pass_routine` with other numbers: `done` is in floats, with those of imaginary parts if the
    parts alternate, and at least a step of `form`; the last two vectors may overlap. Entry `turn`
    of the table is w, entry `root` is the root of unity of order `factor`. Pairs of elements from
    both ends share their products, and some results share the loads of pairs.
    """
    sizes = ("i64 %done", "i64 %rest", "i64 %factor", "i64 %turn", "i64 %root")

    def write(r: RowRoutine) -> None:
        m, done, factor = r.m, argument("%done"), argument("%factor")
        with r.body.loop(0, argument("%rest")) as s:
            first = m.mul(done, s)
            with r.body.loop(0, done, form.step) as block:
                j = m.minimum(block, m.sub(done, form.step))
                here = r.rows("from").beginning_at(m.add(j, first))
                there = r.rows("to").beginning_at(m.add(j, m.mul(first, factor)))
                _OddTransform(r, form, m.mul(s, argument("%turn"))).write(here, there)

    return row_routine(form, "odd", (*FROM_ROWS, *TO_ROWS, *TABLE, *sizes), write, FINAL_WITH_SLOTS)


class _OddTransform:
    """Writes the transform of one vector of each of an odd number of rows."""

    def __init__(self, r: RowRoutine, form: RowForm, turn: IndexValue) -> None:
        self.r, self.v, self.m, self.turn = r, r.v, r.m, turn
        self.butterflies = Butterflies(r.v, inverse=False)
        self.factor, self.root = argument("%factor"), argument("%root")
        self.pairs = r.m.div(self.factor, 2)
        self.together = 4 if has_many_registers(form.target) else 2

    def write(self, here: Rows, there: Rows) -> None:
        """Write the sums of all pairs, then some results at a time."""
        r, m, v, body = self.r, self.m, self.v, self.r.body
        done, distance = argument("%done"), m.mul(argument("%done"), argument("%rest"))
        sums, differences = (r.own_rows(MOST_ODD // 2) for _ in range(2))
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
