"""Packing: the operands of a gemm in the order in which micro-kernels read them.

A panel holds several rows (or columns) of an operand: for every step of k, one unit of each. An
element's offset is the table entry of its row plus that of k, so the same code packs transposed
operands and the windows of convolutions. An edge panel is padded with zeros: they only affect sums
that are not read, but stale memory could contain slow subnormals. So is the last unit of k.

This file packs contiguous columns; `gather_packing` packs the others.
"""

from __future__ import annotations

from hloc.codegen.builder.index import IndexMath
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import REPRESENTATIONS
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument, named_parameters
from hloc.codegen.cpu.emitters.vector_loads import first_lanes, load_as
from hloc.dtypes import DType
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import CACHE_LINE_BYTES


@dataclass(frozen=True, slots=True)
class Packing:
    """The form of packed panels.

    Attributes:
        source, packed: element types before and after.
        group: elements of k in a unit.
        width: rows or columns of a panel.
        offset: added to every packed element.
        filled: edge panels are padded to a multiple of this, 0 for the whole panel.
    """

    source: DType
    packed: DType
    group: int
    width: int
    offset: int = 0
    filled: int = 0

    def end(self, math: IndexMath, count: IndexValue) -> IndexValue:
        """Return the padded size of a panel that has `count` rows or columns."""
        if self.filled in (0, self.width):
            return self.width
        return math.mul(math.div(math.add(count, self.filled - 1), self.filled), self.filled)


RUN = 4
"""Units that are moved as one vector."""

LONG_RUN = 16
"""Longest run of units that is moved at a time."""

_STEPS_AHEAD = 8
"""Steps of k between elements that are packed and those that are prefetched.

Steps lie far apart, where the processor does not prefetch them: 0.85 of the time for 1000x64x2000
with a transposed left-hand side, 0.94 for 1000x1100x900.
"""

GATHER_PARAMETERS = named_parameters("from offsets steps", "to", "count depth")
ROW_PARAMETERS = named_parameters("from steps", "to", "count depth")


def transposed(w: RoutineWriter, lines: list[str], kind: str) -> list[str]:
    """Return the transpose of as many vectors as each has elements; `kind` is their type.

    In each round, the off-diagonal halves of every pair of lines are exchanged.
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


def store_vector(w: RoutineWriter, p: Packing, kind: str, value: str, place: IndexValue) -> None:
    """Write a vector of packed elements, or of units, from element `place` on."""
    at = w.b.address(pointer_value("%to"), p.packed, w.math.value(place))
    w.fn.line(f"store {kind} {value}, ptr {at}, align 4")


def pack_rows(w: RoutineWriter, p: Packing, lanes: int) -> None:
    """Write a function that packs panels of contiguous columns, by vectors.

    It reads rows of `count` columns and writes them to as many panels as they fill.
    """
    body, math = w.body, w.math
    depth, count = argument("%depth"), argument("%count")
    whole = math.div(depth, p.group)
    panel_size = math.mul(math.ceiling_div(depth, p.group), p.width * p.group)
    panels = math.div(count, p.width)
    packed = math.mul(panels, p.width)
    left = math.sub(count, packed)
    with body.loop(0, whole) as unit:
        first = math.mul(unit, p.group)
        bases = [w.offset("%steps", math.add(first, e)) for e in range(p.group)]
        begin = math.mul(first, p.width)
        later = math.minimum(math.add(first, _STEPS_AHEAD), math.sub(depth, 1))
        ahead = w.offset("%steps", later)
        with body.loop(0, panels) as panel:
            to = math.add(math.mul(panel, panel_size), begin)
            column = math.mul(panel, p.width)
            for line in range(0, p.width * p.source.storage_bytes, CACHE_LINE_BYTES):
                place = math.mul(math.add(ahead, column), p.source.storage_bytes)
                w.b.prefetch_at(math.moved("%from", math.add(place, line)))
            for first_lane in range(0, p.width, lanes):
                places = [math.add(math.add(base, column), first_lane) for base in bases]
                vectors = [_biased(w, p, lanes, load_vector(w, p, lanes, x)) for x in places]
                _store_unit(w, p, lanes, vectors, math.add(to, first_lane * p.group))
        to = math.add(math.mul(panels, panel_size), begin)
        with body.when(math.compare("GT", left, 0)):
            for first_lane in range(0, p.width, lanes):
                mask = first_lanes(w, math.sub(left, first_lane), lanes)
                places = [math.add(math.add(base, packed), first_lane) for base in bases]
                vectors = [_biased(w, p, lanes, load_vector(w, p, lanes, x, mask)) for x in places]
                _store_unit(w, p, lanes, vectors, math.add(to, first_lane * p.group))
    if p.group > 1:
        with body.when(math.compare("LT", math.mul(whole, p.group), depth)):
            _pack_last_unit(w, p, lanes, panel_size)


def _pack_last_unit(w: RoutineWriter, p: Packing, lanes: int, panel_size: IndexValue) -> None:
    """Pack the last unit of all columns: its steps of k beyond `depth` are zeros."""
    math, depth, count = w.math, argument("%depth"), argument("%count")
    first = math.mul(math.div(depth, p.group), p.group)
    steps = [math.add(first, e) for e in range(p.group)]
    bases = [w.offset("%steps", math.minimum(step, math.sub(depth, 1))) for step in steps]
    end = math.mul(math.ceiling_div(count, p.width), p.width)
    with w.body.loop(0, end, lanes) as column:
        within = math.add(math.mul(first, p.width), math.mul(math.rem(column, p.width), p.group))
        to = math.add(math.mul(math.div(column, p.width), panel_size), within)
        left, vectors = math.value(math.sub(count, column)), []
        for step, base in zip(steps, bases, strict=True):
            exists = math.compare("LT", step, depth)
            mask = first_lanes(w, w.b.select(exists, left, math.value(0)), lanes)
            vector = load_vector(w, p, lanes, math.add(base, column), mask)
            vectors.append(_biased(w, p, lanes, vector))
        _store_unit(w, p, lanes, vectors, to)


def load_vector(w: RoutineWriter, p: Packing, lanes: int, place: IndexValue, mask: str = "") -> str:
    """Load contiguous elements, convert them and add the offset."""
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
    store_vector(w, p, kind, interleaved(w, vectors, lanes, element), place)


def interleaved(w: RoutineWriter, vectors: list[str], lanes: int, element: str) -> str:
    """Return 1, 2 or 4 vectors interleaved: the first element of each, then the second ..."""
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
