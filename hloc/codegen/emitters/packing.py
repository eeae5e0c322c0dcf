"""Packing: the operands of a product in the order in which micro-kernels read them.

A panel holds some rows (or columns) of an operand: for every step of k, a unit of each. Places in
the operand come from tables, the offset of a row plus that of k, so transposed operands and the
windows of convolutions are packed by the same code. What a panel at the edge has too much is left
as it is: it only reaches sums that nobody reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from hloc.codegen.emitters.routine_writer import RoutineWriter, argument
from hloc.codegen.emitters.vector_loads import load_as
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
    """

    source: DType
    packed: DType
    group: int
    width: int
    offset: int = 0


RUN = 4
"""Units that are moved as one vector."""

GATHER_TYPES = ("ptr",) * 4 + ("i64",) * 2
ROW_TYPES = ("ptr",) * 3 + ("i64",) * 2

_GATHER_PARAMETERS = (
    "ptr noalias readonly %from",
    "ptr noalias readonly %offsets",
    "ptr noalias readonly %steps",
    "ptr noalias %to",
    "i64 %count",
    "i64 %depth",
)
_ROW_PARAMETERS = (
    "ptr noalias readonly %from",
    "ptr noalias readonly %steps",
    "ptr noalias %to",
    "i64 %count",
    "i64 %depth",
)


def gather_packing(
    name: str, p: Packing, target: Target, *, runs: bool = False, pieces: bool = False
) -> RoutineWriter:
    """Return a function that packs one panel, row by row, from anywhere.

    Args:
        name: of the function.
        p: what it makes.
        target: the machine.
        runs: k lies mostly in runs of `RUN` units, which are moved by vectors, some rows at a time.
        pieces: some rows at a time mostly lie side by side; a unit is one element.
    """
    w = RoutineWriter(name, _GATHER_PARAMETERS, target)
    body, math, b = w.body, w.math, w.b
    units = math.div(argument("%depth"), p.group)
    count = argument("%count")
    first: IndexValue = 0
    if runs:
        first = math.mul(math.div(count, RUN), RUN)
        with body.loop(0, first, RUN) as i:
            bases = [w.offset("%offsets", math.add(i, r)) for r in range(RUN)]
            with body.loop(0, units, RUN) as unit:
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
    return w


def _pack_runs(
    w: RoutineWriter,
    p: Packing,
    bases: list[Value],
    i: IndexValue,
    unit: IndexValue,
    units: IndexValue,
) -> None:
    """Pack some units of some rows: as vectors if they follow each other in memory."""
    math, fn = w.math, w.fn
    end = math.minimum(math.add(unit, RUN), units)
    last = math.sub(math.mul(end, p.group), 1)
    step = w.offset("%steps", math.mul(unit, p.group))
    length = math.sub(w.offset("%steps", last), step)
    whole = math.compare("EQ", math.sub(end, unit), RUN)
    is_run = w.b.and_(whole, math.compare("EQ", length, RUN * p.group - 1))
    with w.body.when(is_run):
        rows = [_run(w, p, math.add(base, step)) for base in bases]
        for number, column in enumerate(_transposed(w, p, rows)):
            cell = math.add(math.mul(math.add(unit, number), p.width), i)
            _store_vector(w, p, _unit_type(p, RUN), column, math.mul(cell, p.group))
    broken = Value(PRED, fn.value(f"xor i1 {is_run.text}, true"))
    with w.body.when(broken), w.body.loop(unit, end) as u:
        for e in range(p.group):
            at = w.offset("%steps", math.add(math.mul(u, p.group), e))
            for r, base in enumerate(bases):
                value = w.b.load(pointer_value("%from"), p.source, math.add(base, at))
                _store_element(w, p, u, e, math.add(i, r), _packed(w, p, value))


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


def _run(w: RoutineWriter, p: Packing, place: IndexValue) -> str:
    """Load the units of one row that follow each other."""
    vector = _vector(w, p, RUN * p.group, place)
    if p.group == 1:
        return vector
    element = REPRESENTATIONS[p.packed].memory
    kind = _unit_type(p, RUN)
    units = w.fn.value(f"bitcast <{RUN * p.group} x {element}> {vector} to {kind}")
    if not p.offset:
        return units
    assert p.offset == -128
    flips = ", ".join(["i32 -2139062144"] * RUN)
    return w.fn.value(f"xor {kind} {units}, <{flips}>")


def _transposed(w: RoutineWriter, p: Packing, rows: list[str]) -> list[str]:
    """Return the columns of four vectors of four units."""
    kind = _unit_type(p, RUN)

    def mixed(x: str, y: str, order: tuple[int, ...]) -> str:
        mask = ", ".join(f"i32 {i}" for i in order)
        return w.fn.value(f"shufflevector {kind} {x}, {kind} {y}, <{RUN} x i32> <{mask}>")

    low, high = (0, 4, 1, 5), (2, 6, 3, 7)
    a, b, c, d = rows
    halves = [(mixed(a, b, order), mixed(c, d, order)) for order in (low, high)]
    return [mixed(x, y, order) for x, y in halves for order in ((0, 1, 4, 5), (2, 3, 6, 7))]


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
    w = RoutineWriter(name, _ROW_PARAMETERS, target)
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
        with body.loop(0, left) as j:
            for e, base in enumerate(bases):
                place = math.add(math.add(base, packed), j)
                value = w.b.load(pointer_value("%from"), p.source, place)
                cell = math.add(math.add(to, math.mul(j, p.group)), e)
                w.b.store(pointer_value("%to"), cell, _packed(w, p, value))
    return w


def _vector(w: RoutineWriter, p: Packing, lanes: int, place: IndexValue) -> str:
    """Load neighbouring elements and convert them, but for the offset."""
    return load_as(w, "%from", p.source, p.packed, lanes, place)


def _biased(w: RoutineWriter, p: Packing, lanes: int, vector: str) -> str:
    if not p.offset:
        return vector
    kind, element = f"<{lanes} x {REPRESENTATIONS[p.packed].memory}>", p.packed.storage_bytes * 8
    return w.fn.value(f"add {kind} {vector}, <{', '.join([f'i{element} {p.offset}'] * lanes)}>")


def _store_unit(
    w: RoutineWriter, p: Packing, lanes: int, vectors: list[str], place: IndexValue
) -> None:
    """Interleave the rows of a unit and write them."""
    fn = w.fn
    element = REPRESENTATIONS[p.packed].memory
    size = lanes
    while len(vectors) > 1:
        half = len(vectors) // 2
        kind = f"<{size} x {element}>"
        order = [i + side * size for i in range(size) for side in (0, 1)]
        mask = ", ".join(f"i32 {i}" for i in order)
        vectors = [
            fn.value(
                f"shufflevector {kind} {vectors[i]}, {kind} {vectors[i + half]}, "
                f"<{2 * size} x i32> <{mask}>"
            )
            for i in range(half)
        ]
        size *= 2
    _store_vector(w, p, f"<{size} x {element}>", vectors[0], place)
