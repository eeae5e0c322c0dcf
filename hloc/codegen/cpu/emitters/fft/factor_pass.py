"""One pass of Stockham's algorithm for one factor of the length, unrolled."""

from __future__ import annotations

from functools import cache

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.cpu.emitters.fft.interleaved_rows import (
    FROM_ROWS,
    TO_ROWS,
    RowForm,
    RowRoutine,
    row_routine,
)
from hloc.codegen.cpu.emitters.fft.wave_table import TABLE, table_entry
from hloc.codegen.cpu.emitters.routine_writer import argument
from hloc.codegen.kernels.butterflies import Butterflies
from hloc.codegen.llvm.routine import Routines


@cache
def pass_routine(form: RowForm, factor: int, inverse: bool, is_last: bool) -> Routines:
    """Return one pass of Stockham's algorithm.

    With x the source rows and y the target rows, and w entry `stride` of the table,
    y[j + done (q + factor s)] is w**(q s done) times element q of the transform of all
    x[j + done (s + rest p)]. In the last pass `rest` is 1.
    """
    name = f"{factor}{'_inverse' if inverse else ''}{'_last' if is_last else ''}"
    sizes = ("i64 %done", "i64 %rest", "i64 %stride")

    def write(r: RowRoutine) -> None:
        """Transform `factor` elements that lie `done * rest` apart, times twiddle factors.

        For each of `rest` groups the twiddle factors are the same; in the last pass they are all
        1.
        """
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

    return row_routine(form, name, (*FROM_ROWS, *TO_ROWS, *TABLE, *sizes), write)
