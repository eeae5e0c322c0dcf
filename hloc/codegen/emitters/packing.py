"""Packing: the operands of a product in the order in which micro-kernels read them.

A panel holds some rows (or columns) of an operand: for every step of k, a unit of each. Places in
the operand come from tables, the offset of a row plus that of k, so transposed operands and the
windows of convolutions are packed by the same code. What a panel at the edge has too much is zero:
it only reaches sums that nobody reads, but what memory held before may be numbers that are slow.
"""

from __future__ import annotations

from dataclasses import dataclass

from hloc.codegen.emitters.routine_writer import RoutineWriter, argument
from hloc.codegen.emitters.vector_loads import first_lanes, load_as
from hloc.codegen.loops import IndexValue
from hloc.codegen.scalar_builder import pointer_value
from hloc.codegen.target import Target
from hloc.codegen.values import REPRESENTATIONS, Value
from hloc.dtypes import PRED, DType


@dataclass(frozen=True, slots=True)
class Packing:
    """What a packing function makes of its operand.

    Attributes:
        source, packed: element types before and after.
        group: elements of k in a unit.
        width: rows or columns of a panel.
        offset: added to every packed element.
        part: which bf16 of an f32: 0 the nearest, 1 the nearest to what that leaves.
    """

    source: DType
    packed: DType
    group: int
    width: int
    offset: int = 0
    part: int = 0


RUN = 4
"""Units that are moved as one vector."""

LONG_RUN = 16
"""Units that are looked for at a time."""

GATHER_TYPES = ("ptr",) * 4 + ("i64",) * 2
ROW_TYPES = ("ptr",) * 3 + ("i64",) * 2

GATHER_PARAMETERS = (
    "ptr noalias readonly %from",
    "ptr noalias readonly %offsets",
    "ptr noalias readonly %steps",
    "ptr noalias %to",
    "i64 %count",
    "i64 %depth",
)
ROW_PARAMETERS = (
    "ptr noalias readonly %from",
    "ptr noalias readonly %steps",
    "ptr noalias %to",
    "i64 %count",
    "i64 %depth",
)


def gather_packing(
    name: str, p: Packing, target: Target, *, runs: int = 0, pieces: bool = False
) -> RoutineWriter:
    """Return a function that packs one panel, row by row, from anywhere.

    Args:
        name: of the function.
        p: what it makes.
        target: the machine.
        runs: k lies in runs of at least so many units, `RUN` or `LONG_RUN`, which are moved by
            vectors, some rows at a time; 0 if it does not.
        pieces: some rows at a time mostly lie side by side; a unit is one element.
    """
    w = RoutineWriter(name, GATHER_PARAMETERS, target)
    body, math, b = w.body, w.math, w.b
    units = math.div(argument("%depth"), p.group)
    count = argument("%count")
    first: IndexValue = 0
    if runs:
        rows = _rows_at_once(p, target, runs)
        first = math.mul(math.div(count, rows), rows)
        with body.loop(0, first, rows) as i:
            bases = [w.offset("%offsets", math.add(i, r)) for r in range(rows)]
            with body.loop(0, units, runs) as unit:
                if runs == LONG_RUN:
                    _pack_long_runs(w, p, bases, i, unit, units)
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
    zero = b.const(p.packed, 0)
    with body.loop(count, p.width) as i, body.loop(0, units) as unit:
        for e in range(p.group):
            _store_element(w, p, unit, e, i, zero)
    return w


def _rows_at_once(p: Packing, target: Target, runs: int) -> int:
    """Return how many rows are packed at a time where k lies in runs."""
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
) -> None:
    """Pack many units of some rows, with one question if all of them follow each other."""
    math = w.math
    is_run, broken, step, end = _find_run(w, p, unit, units, LONG_RUN)
    with w.body.when(is_run):
        for shift in range(0, LONG_RUN, len(bases)):
            _pack_run(w, p, bases, i, math.add(unit, shift), math.add(step, shift * p.group))
    last = math.add(i, len(bases))
    with w.body.when(broken), w.body.loop(unit, end) as u, w.body.loop(i, last) as row:
        _pack_unit(w, p, [w.offset("%offsets", row)], row, u)


def _find_run(
    w: RoutineWriter, p: Packing, unit: IndexValue, units: IndexValue, length: int
) -> tuple[Value, Value, Value, IndexValue]:
    """Return if `length` units follow each other, and if not, where they begin, and their end."""
    math = w.math
    end = math.minimum(math.add(unit, length), units)
    last = math.sub(math.mul(end, p.group), 1)
    step = w.offset("%steps", math.mul(unit, p.group))
    reach = math.sub(w.offset("%steps", last), step)
    whole = math.compare("EQ", math.sub(end, unit), length)
    is_run = w.b.and_(whole, math.compare("EQ", reach, length * p.group - 1))
    return is_run, Value(PRED, w.fn.value(f"xor i1 {is_run.text}, true")), step, end


def _pack_run(
    w: RoutineWriter,
    p: Packing,
    bases: list[Value],
    i: IndexValue,
    unit: IndexValue,
    step: IndexValue,
) -> None:
    """Pack units of some rows that follow each other, from place `step` of every row on."""
    math = w.math
    size = len(bases)
    rows = [_run(w, p, math.add(base, step), size) for base in bases]
    for number, column in enumerate(transposed(w, rows, _unit_type(p, size))):
        cell = math.add(math.mul(math.add(unit, number), p.width), i)
        _store_vector(w, p, _unit_type(p, size), column, math.mul(cell, p.group))


def _pack_runs(
    w: RoutineWriter,
    p: Packing,
    bases: list[Value],
    i: IndexValue,
    unit: IndexValue,
    units: IndexValue,
) -> None:
    """Pack some units of some rows: as vectors if they follow each other in memory."""
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
    """Pack some rows: as vectors if they lie side by side."""
    math = w.math
    bases = [w.offset("%offsets", math.add(i, r)) for r in range(RUN)]
    side_by_side = math.compare("EQ", math.sub(bases[-1], bases[0]), RUN - 1)
    apart = Value(PRED, w.fn.value(f"xor i1 {side_by_side.text}, true"))
    with w.body.when(side_by_side), w.body.loop(0, units) as unit:
        place = math.add(bases[0], w.offset("%steps", unit))
        cell = math.add(math.mul(unit, p.width), i)
        _store_vector(w, p, _unit_type(p, RUN), _vector(w, p, RUN, place), cell)
    with w.body.when(apart), w.body.loop(0, units) as unit:
        step = w.offset("%steps", unit)
        for r, base in enumerate(bases):
            value = w.b.load(pointer_value("%from"), p.source, math.add(base, step))
            _store_element(w, p, unit, 0, math.add(i, r), _packed(w, p, value))


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
    """Load `size` units of one row that follow each other."""
    vector = _vector(w, p, size * p.group, place)
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


def transposed(w: RoutineWriter, lines: list[str], kind: str) -> list[str]:
    """Return the columns of as many vectors as each has elements; `kind` is their type.

    In each round, the halves of every pair of lines that lie across the diagonal change places.
    """
    size, step = len(lines), 1

    def mixed(pair: tuple[str, str], order: list[int]) -> str:
        mask = ", ".join(f"i32 {lane}" for lane in order)
        text = f"shufflevector {kind} {pair[0]}, {kind} {pair[1]}, <{size} x i32> <{mask}>"
        return w.fn.value(text)

    while step < size:
        above = [size + lane - step if lane & step else lane for lane in range(size)]
        below = [size + lane if lane & step else lane + step for lane in range(size)]
        result = list(lines)
        for i in range(size):
            if not i & step:
                pair = lines[i], lines[i + step]
                result[i], result[i + step] = mixed(pair, above), mixed(pair, below)
        lines, step = result, 2 * step
    return lines


def _store_vector(w: RoutineWriter, p: Packing, kind: str, value: str, place: IndexValue) -> None:
    at = w.b.address(pointer_value("%to"), p.packed, w.math.value(place))
    w.fn.line(f"store {kind} {value}, ptr {at}, align 4")


def _packed(w: RoutineWriter, p: Packing, value: Value) -> Value:
    value = w.b.convert(value, p.packed) if p.source is not p.packed else value
    return w.b.iadd(value, w.b.const(p.packed, p.offset)) if p.offset else value


def row_packing(name: str, p: Packing, lanes: int, target: Target) -> RoutineWriter:
    """Return a function that packs panels of columns which lie side by side, by vectors.

    It reads rows of `count` columns and writes them to as many panels as they fill.
    """
    w = RoutineWriter(name, ROW_PARAMETERS, target)
    body, math = w.body, w.math
    count = argument("%count")
    units = math.div(argument("%depth"), p.group)
    panel_size = math.mul(argument("%depth"), p.width)
    panels = math.div(count, p.width)
    packed = math.mul(panels, p.width)
    left = math.sub(count, packed)
    with body.loop(0, units) as unit:
        first = math.mul(unit, p.group)
        bases = [w.offset("%steps", math.add(first, e)) for e in range(p.group)]
        begin = math.mul(first, p.width)
        with body.loop(0, panels) as panel:
            to = math.add(math.mul(panel, panel_size), begin)
            column = math.mul(panel, p.width)
            for first_lane in range(0, p.width, lanes):
                places = [math.add(math.add(base, column), first_lane) for base in bases]
                vectors = [_biased(w, p, lanes, _vector(w, p, lanes, x)) for x in places]
                _store_unit(w, p, lanes, vectors, math.add(to, first_lane * p.group))
        to = math.add(math.mul(panels, panel_size), begin)
        with body.when(math.compare("GT", left, 0)):
            for first_lane in range(0, p.width, lanes):
                mask = first_lanes(w, math.sub(left, first_lane), lanes)
                places = [math.add(math.add(base, packed), first_lane) for base in bases]
                vectors = [_biased(w, p, lanes, _vector(w, p, lanes, x, mask)) for x in places]
                _store_unit(w, p, lanes, vectors, math.add(to, first_lane * p.group))
    return w


def _vector(w: RoutineWriter, p: Packing, lanes: int, place: IndexValue, mask: str = "") -> str:
    """Load neighbouring elements and convert them, but for the offset."""
    return load_as(w, "%from", p.source, p.packed, lanes, place, mask)


def _biased(w: RoutineWriter, p: Packing, lanes: int, vector: str) -> str:
    if not p.offset:
        return vector
    kind, element = f"<{lanes} x {REPRESENTATIONS[p.packed].memory}>", p.packed.storage_bytes * 8
    return w.fn.value(f"add {kind} {vector}, <{', '.join([f'i{element} {p.offset}'] * lanes)}>")


def _store_unit(
    w: RoutineWriter, p: Packing, lanes: int, vectors: list[str], place: IndexValue
) -> None:
    """Interleave the rows of a unit and write them."""
    element = REPRESENTATIONS[p.packed].memory
    kind = f"<{lanes * len(vectors)} x {element}>"
    _store_vector(w, p, kind, interleaved(w, vectors, lanes, element), place)


def interleaved(w: RoutineWriter, vectors: list[str], lanes: int, element: str) -> str:
    """Return the elements of 1, 2 or 4 vectors, the first of each, then the second and so on."""
    size = lanes
    while len(vectors) > 1:
        half = len(vectors) // 2
        kind = f"<{size} x {element}>"
        order = [i + side * size for i in range(size) for side in (0, 1)]
        mask = ", ".join(f"i32 {i}" for i in order)
        vectors = [
            w.fn.value(
                f"shufflevector {kind} {vectors[i]}, {kind} {vectors[i + half]}, "
                f"<{2 * size} x i32> <{mask}>"
            )
            for i in range(half)
        ]
        size *= 2
    return vectors[0]
