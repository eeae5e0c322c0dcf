"""Table offsets that fall into a few contiguous pieces, each read with one masked load.

Element l of a piece is at its base plus l, so all offsets with the same difference to their index
belong to one piece.
"""

from __future__ import annotations

from dataclasses import replace

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter
from hloc.codegen.cpu.emitters.vector_loads import first_lanes, load_lanes
from hloc.dtypes import PRED, S64
from hloc.lazy_dataclass import dataclass

MOST_PIECES = 4
"""Most pieces for which a load per piece is faster than one per element."""


@dataclass(frozen=True, slots=True)
class GatherRuns:
    """The pieces of some entries of a table.

    Attributes:
        parts: base and lane mask of each piece; unused pieces have an empty mask.
        is_one, are_several, are_few, are_many: whether there are 1, 2 to `MOST_PIECES`, either of
            these, or more.
    """

    parts: tuple[tuple[IndexValue, str], ...]
    is_one: Value
    are_several: Value
    are_few: Value
    are_many: Value

    @property
    def whole(self) -> GatherRuns:
        """The same, given that there is a single piece."""
        return replace(self, parts=self.parts[:1])


def find_gather_runs(
    w: RoutineWriter, table: str, first: IndexValue, count: IndexValue, size: int
) -> GatherRuns:
    """Emit the search for pieces.

    Args:
        w: the routine.
        table: pointer to the table of offsets.
        first: the first entry.
        count: number of entries, at least one.
        size: entries per vector.
    """
    fn, math = w.fn, w.math
    kind, flags, bits = f"<{size} x i64>", f"<{size} x i1>", f"i{size}"
    at = w.b.address(pointer_value(table), S64, math.value(first))
    valid = first_lanes(w, count, size)
    places = load_lanes(w, at, S64, size, valid)
    numbers = ", ".join(f"i64 {lane}" for lane in range(size))
    distances = fn.value(f"sub {kind} {places}, <{numbers}>")
    rest = fn.value(f"bitcast {flags} {valid} to {bits}")
    parts: list[tuple[IndexValue, str]] = []
    are_all: list[Value] = []
    for _ in range(MOST_PIECES):
        lane = fn.call(bits, f"@llvm.cttz.{bits}", (bits, rest), ("i1", "false"))
        wide = Value(S64, lane if size == 64 else fn.value(f"zext {bits} {lane} to i64"))
        number = math.minimum(wide, math.sub(count, 1))
        base = math.value(math.sub(w.offset(at, number), number))
        one = fn.value(f"insertelement {kind} poison, i64 {base.text}, i64 0")
        zeros = f"<{size} x i32> zeroinitializer"
        everywhere = fn.value(f"shufflevector {kind} {one}, {kind} poison, {zeros}")
        equal = fn.value(f"icmp eq {kind} {distances}, {everywhere}")
        left = fn.value(f"bitcast {bits} {rest} to {flags}")
        mask = fn.value(f"and {flags} {equal}, {left}")
        parts.append((base, mask))
        taken = fn.value(f"bitcast {flags} {mask} to {bits}")
        rest = fn.value(f"xor {bits} {rest}, {taken}")
        are_all.append(Value(PRED, fn.value(f"icmp eq {bits} {rest}, 0")))
    is_one, *_, are_few = are_all
    are_many = w.b.not_(are_few)
    more = w.b.not_(is_one)
    return GatherRuns(tuple(parts), is_one, w.b.and_(are_few, more), are_few, are_many)
