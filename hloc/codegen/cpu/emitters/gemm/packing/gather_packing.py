"""Packing of rows or columns at arbitrary offsets: one by one, or in runs along k."""

from __future__ import annotations

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import REPRESENTATIONS, Value
from hloc.codegen.cpu.emitters.gemm.packing.packing import (
    LONG_RUN,
    RUN,
    Packing,
    load_vector,
    store_vector,
    transposed,
)
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument
from hloc.codegen.llvm.target import Target


def pack_gathered(w: RoutineWriter, p: Packing, *, runs: int = 0, pieces: bool = False) -> None:
    """Emit a function that packs one panel, row by row, from arbitrary offsets.

    Args:
        w: the function, with `GATHER_PARAMETERS`.
        p: the form of the panel.
        runs: k consists of contiguous runs of at least this many units, `RUN` or `LONG_RUN`, which
            are moved by vectors, some rows at a time; 0 if not.
        pieces: groups of rows are mostly contiguous; a unit is one element.
    """
    body, math, b = w.body, w.math, w.b
    depth, count = argument("%depth"), argument("%count")
    units = math.div(depth, p.group)
    first: IndexValue = 0
    is_square = False
    if runs:
        rows = _rows_at_once(p, b.target, runs)
        # Surplus rows of a square block repeat the last row: a panel has whole blocks.
        is_square = rows == LONG_RUN
        reach = math.add(count, rows - 1) if is_square else count
        first = math.mul(math.div(reach, rows), rows)
        with body.loop(0, first, rows) as i:
            places: list[IndexValue] = [math.add(i, r) for r in range(rows)]
            if is_square:
                places = [math.minimum(math.sub(count, 1), place) for place in places]
            bases = [w.offset("%offsets", place) for place in places]
            with body.loop(0, units, runs) as unit:
                if runs == LONG_RUN:
                    _pack_long_runs(w, p, bases, i, unit, units, count)
                else:
                    _pack_runs(w, p, bases, i, unit, units)
    if pieces:
        first = math.mul(math.div(count, RUN), RUN)
        with body.loop(0, first, RUN) as i:
            _pack_piece(w, p, i, units)
    with body.loop(first, count) as i:
        base = w.offset("%offsets", i)
        with body.loop(0, units) as unit:
            for e in range(p.group):
                step = w.offset("%steps", math.add(math.mul(unit, p.group), e))
                value = b.load(pointer_value("%from"), p.source, math.add(base, step))
                _store_element(w, p, unit, e, i, _packed(w, p, value))
    if p.group > 1:
        with body.when(math.compare("LT", math.mul(units, p.group), depth)):
            _pack_last_unit(w, p, units)
    zero = b.const(p.packed, 0)
    end, units = first if is_square else count, math.value(math.ceiling_div(depth, p.group))
    with body.loop(end, p.end(math, count)) as i, body.loop(0, units) as unit:
        for e in range(p.group):
            _store_element(w, p, unit, e, i, zero)


def _pack_last_unit(w: RoutineWriter, p: Packing, unit: IndexValue) -> None:
    """Pack the last unit of all rows: its steps of k beyond `depth` are zeros."""
    math, depth, zero = w.math, argument("%depth"), w.b.const(p.packed, 0)
    for e in range(p.group):
        step = math.add(math.mul(unit, p.group), e)
        exists = math.compare("LT", step, depth)
        at = w.offset("%steps", math.minimum(step, math.sub(depth, 1)))
        with w.body.loop(0, argument("%count")) as i:
            place = math.add(w.offset("%offsets", i), at)
            value = _packed(w, p, w.b.load(pointer_value("%from"), p.source, place))
            _store_element(w, p, unit, e, i, w.b.select(exists, value, zero))


def _rows_at_once(p: Packing, target: Target, runs: int) -> int:
    """Return how many rows are packed at a time if k consists of runs."""
    is_square = runs == LONG_RUN and p.width % LONG_RUN == 0 and target.vector_bits == 512
    whole_words = p.source is p.packed and p.group == 1 and p.packed.storage_bytes == 4
    return LONG_RUN if is_square and whole_words else RUN


def _pack_long_runs(
    w: RoutineWriter,
    p: Packing,
    bases: list[Value],
    i: IndexValue,
    unit: IndexValue,
    units: IndexValue,
    count: IndexValue,
) -> None:
    """Pack many units of some rows, with a single test if they are one contiguous run."""
    math = w.math
    is_run, broken, step, end = _find_run(w, p, unit, units, LONG_RUN)
    with w.body.when(is_run):
        for shift in range(0, LONG_RUN, len(bases)):
            _pack_run(w, p, bases, i, math.add(unit, shift), math.add(step, shift * p.group))
    last = math.add(i, len(bases))
    with w.body.when(broken), w.body.loop(unit, end) as u, w.body.loop(i, last) as row:
        place = math.minimum(math.sub(count, 1), row) if len(bases) == LONG_RUN else row
        _pack_unit(w, p, [w.offset("%offsets", place)], row, u)


def _find_run(
    w: RoutineWriter, p: Packing, unit: IndexValue, units: IndexValue, length: int
) -> tuple[Value, Value, Value, IndexValue]:
    """Return whether `length` units are contiguous; if not, start and end of the first run."""
    math = w.math
    end = math.minimum(math.add(unit, length), units)
    last = math.sub(math.mul(end, p.group), 1)
    step = w.offset("%steps", math.mul(unit, p.group))
    reach = math.sub(w.offset("%steps", last), step)
    whole = math.compare("EQ", math.sub(end, unit), length)
    is_run = w.b.and_(whole, math.compare("EQ", reach, length * p.group - 1))
    return is_run, w.b.not_(is_run), step, end


def _pack_run(
    w: RoutineWriter,
    p: Packing,
    bases: list[Value],
    i: IndexValue,
    unit: IndexValue,
    step: IndexValue,
) -> None:
    """Pack contiguous units of some rows, from offset `step` of every row."""
    math = w.math
    size = len(bases)
    rows = [_run(w, p, math.add(base, step), size) for base in bases]
    for number, column in enumerate(transposed(w, rows, _unit_type(p, size))):
        cell = math.add(math.mul(math.add(unit, number), p.width), i)
        store_vector(w, p, _unit_type(p, size), column, math.mul(cell, p.group))


def _pack_runs(
    w: RoutineWriter,
    p: Packing,
    bases: list[Value],
    i: IndexValue,
    unit: IndexValue,
    units: IndexValue,
) -> None:
    """Pack some units of some rows: as vectors if they are contiguous."""
    is_run, broken, step, end = _find_run(w, p, unit, units, RUN)
    with w.body.when(is_run):
        _pack_run(w, p, bases, i, unit, step)
    with w.body.when(broken), w.body.loop(unit, end) as u:
        _pack_unit(w, p, bases, i, u)


def _pack_unit(
    w: RoutineWriter, p: Packing, bases: list[Value], i: IndexValue, unit: IndexValue
) -> None:
    """Pack one unit of some rows, element by element."""
    math = w.math
    for e in range(p.group):
        at = w.offset("%steps", math.add(math.mul(unit, p.group), e))
        for r, base in enumerate(bases):
            value = w.b.load(pointer_value("%from"), p.source, math.add(base, at))
            _store_element(w, p, unit, e, math.add(i, r), _packed(w, p, value))


def _pack_piece(w: RoutineWriter, p: Packing, i: IndexValue, units: IndexValue) -> None:
    """Pack some rows: as vectors if they are contiguous."""
    math = w.math
    bases = [w.offset("%offsets", math.add(i, r)) for r in range(RUN)]
    side_by_side = math.compare("EQ", math.sub(bases[-1], bases[0]), RUN - 1)
    apart = w.b.not_(side_by_side)
    with w.body.when(side_by_side), w.body.loop(0, units) as unit:
        place = math.add(bases[0], w.offset("%steps", unit))
        cell = math.add(math.mul(unit, p.width), i)
        store_vector(w, p, _unit_type(p, RUN), load_vector(w, p, RUN, place), cell)
    with w.body.when(apart), w.body.loop(0, units) as unit:
        _pack_unit(w, p, bases, i, unit)


def _store_element(
    w: RoutineWriter, p: Packing, unit: IndexValue, e: int, i: IndexValue, value: Value
) -> None:
    math = w.math
    cell = math.mul(math.add(math.mul(unit, p.width), i), p.group)
    w.b.store(pointer_value("%to"), math.add(cell, e), value)


def _unit_type(p: Packing, count: int) -> str:
    unit = REPRESENTATIONS[p.packed].memory if p.group == 1 else "i32"
    return f"<{count} x {unit}>"


def _run(w: RoutineWriter, p: Packing, place: IndexValue, size: int) -> str:
    """Load `size` contiguous units of one row."""
    vector = load_vector(w, p, size * p.group, place)
    if p.group == 1:
        return vector
    element = REPRESENTATIONS[p.packed].memory
    kind = _unit_type(p, size)
    units = w.fn.value(f"bitcast <{size * p.group} x {element}> {vector} to {kind}")
    if not p.offset:
        return units
    assert p.offset == -128
    flips = ", ".join(["i32 -2139062144"] * size)
    return w.fn.value(f"xor {kind} {units}, <{flips}>")


def _packed(w: RoutineWriter, p: Packing, value: Value) -> Value:
    value = w.b.convert(value, p.packed) if p.source is not p.packed else value
    return w.b.iadd(value, w.b.const(p.packed, p.offset)) if p.offset else value
