"""Tables of offsets along several axes, computed by a routine.

    offset_table(to, axes, count)

Axes are given as pairs of size and stride, fastest first.
"""

from __future__ import annotations

from functools import cache

from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.routine_writer import (
    RoutineWriter,
    argument,
    declaration,
    routine_unit,
)
from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS, Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import S64

NAME = "offset_table"
_PARAMETERS = ("ptr noalias %to", "ptr noalias readonly %axes", "i64 %count")
DECLARATION = declaration(NAME, _PARAMETERS)


@cache
def table_routine(target: Target) -> Routines:
    """Return the routine that writes the offsets of all positions along some axes."""
    return routine_unit(NAME, _PARAMETERS, _write, target, FINAL_WITH_SLOTS)


def _write(w: RoutineWriter) -> None:
    fn, math, b = w.fn, w.math, w.b
    to = pointer_value("%to")
    slot = fn.allocate("i64")
    fn.line(f"store i64 1, ptr {slot}")
    b.store(to, 0, Value(S64, "0"))
    with w.body.loop(0, argument("%count")) as axis:
        size, step = (w.offset("%axes", math.add(math.mul(axis, 2), i)) for i in range(2))
        done = Value(S64, fn.value(f"load i64, ptr {slot}"))
        with w.body.loop(1, size) as i:
            first, moved = math.mul(i, done), math.value(math.mul(i, step))
            with w.body.loop(0, done) as j:
                place = math.value(math.add(w.offset("%to", j), moved))
                b.store(to, math.add(first, j), place)
        fn.line(f"store i64 {math.value(math.mul(done, size)).text}, ptr {slot}")
