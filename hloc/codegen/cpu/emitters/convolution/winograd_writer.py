"""What all routines of Winograd convolutions share: their numbers, tiles, and vectors of features.

The transforms are those of F(2x2, 3x3); `winograd_routines` explains them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument, routine_unit
from hloc.codegen.cpu.emitters.vector_loads import load_lanes, store_lanes, vector_type
from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS, Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, PRED, S64
from hloc.lazy_dataclass import dataclass

RESULTS, WINDOW = 2, 3
"""Positions of a tile, and elements of the window, along each of two dimensions."""

SIZE = RESULTS + WINDOW - 1
"""Elements of a transformed tile along each dimension."""

NUMBERS = "ptr noalias readonly %numbers"

Block = list[list[str]]
"""Vectors of features by line and column."""


@dataclass(frozen=True, slots=True)
class WinogradNumbers:
    """Sizes and strides, in elements.

    Attributes:
        inputs: input features.
        outputs: output features of a call.
        lines, columns: spatial sizes of the result.
        rows, tiles: rows of tiles of an image, and tiles of a row.
        lhs_lines, lhs_columns: spatial sizes of the input.
        low_lines, low_columns: padding before it.
        lhs_image, lhs_line, lhs_column, lhs_feature: strides of the input.
        out_image, out_line, out_column, out_feature: strides of the result.
        rhs_line, rhs_column, rhs_input, rhs_output: strides of the kernel.
        patch_lines: lines from the patches of a row of tiles to those of the next, where these are
            copied (`winograd_planes`).
        panel, steps, step, width: the transformed kernel is panels of `steps` times `width`
            elements; panels are `panel` and steps `step` features apart in the kernel.
        kernel_matrix, input_matrix, sums_matrix: distances of transformed elements of a tile.
        height, deep: tiles and input features that a micro-kernel multiplies at a time, if the
            transformed kernel is in panels of its width.
    """

    inputs: int
    outputs: int
    lines: int
    columns: int
    rows: int
    tiles: int
    lhs_lines: int
    lhs_columns: int
    low_lines: int
    low_columns: int
    lhs_image: int
    lhs_line: int
    lhs_column: int
    lhs_feature: int
    out_image: int
    out_line: int
    out_column: int
    out_feature: int
    rhs_line: int
    rhs_column: int
    rhs_input: int
    rhs_output: int
    patch_lines: int
    panel: int
    steps: int
    step: int
    width: int
    kernel_matrix: int
    input_matrix: int
    sums_matrix: int
    height: int = 0
    deep: int = 0


_FIELDS = tuple(field.name for field in fields(WinogradNumbers))


def winograd_routine(
    name: str, parameters: tuple[str, ...], write: Callable[[WinogradWriter], None], target: Target
) -> Routines:
    """Return a routine of some `parameters`, whose body `write` emits."""
    return routine_unit(
        name, parameters, lambda w: write(WinogradWriter(w)), target, FINAL_WITH_SLOTS
    )


class WinogradWriter:
    """Writes one routine: loops over rows of tiles, and vectors of features."""

    def __init__(self, w: RoutineWriter) -> None:
        self.w, self.fn, self.body, self.math = w, w.fn, w.body, w.math
        self.n = {name: w.offset("%numbers", place) for place, name in enumerate(_FIELDS)}
        self.lanes = w.b.target.vector_bits // F32.bits
        self.kind = vector_type(F32, self.lanes)

    @contextmanager
    def rows_of_tiles(self) -> Iterator[tuple[IndexValue, IndexValue, IndexValue]]:
        """Run the region for rows of tiles; yield image, row in the image, row in the call."""
        math, fn, rows = self.math, self.fn, self.n["rows"].text
        begin = argument("%begin")
        with self.body.loop(begin, argument("%end")) as number:
            text = math.value(number).text
            image, row = (Value(S64, fn.index_arithmetic(x, text, rows)) for x in ("div", "rem"))
            yield image, row, math.sub(number, begin)

    def start(self, array: str, image: IndexValue, row: IndexValue) -> IndexValue:
        """Return where a row of tiles begins in `lhs` or `out`."""
        math = self.math
        line = math.mul(math.mul(row, RESULTS), self.n[f"{array}_line"])
        return math.add(math.mul(image, self.n[f"{array}_image"]), line)

    def finish(
        self, start: IndexValue, lines: IndexValue, sizes: tuple[IndexValue, IndexValue]
    ) -> None:
        """Call the epilogue, if any, for some lines; `sizes` are their rows and columns."""
        math, fn = self.math, self.fn
        is_finished = Value(PRED, fn.value("icmp ne ptr %finish, null"))
        with self.body.when(is_finished), self.body.loop(0, lines) as line:
            place = math.add(start, math.mul(line, self.n["out_line"]))
            texts = ", ".join([f"i64 {math.value(x).text}" for x in (place, *sizes)])
            fn.line(f"call void %finish(ptr %context, {texts})")

    def are_inside(self, place: IndexValue, size: IndexValue, count: int) -> Value:
        """Return whether `count` places from `place` on are within `size`."""
        math = self.math
        is_before_end = math.compare("LE", place, math.sub(size, count))
        return self.w.b.and_(math.compare("GE", place, 0), is_before_end)

    def lines_of(self, row: IndexValue) -> IndexValue:
        """Return how many lines of the result a row of tiles has."""
        return self.math.minimum(
            self.math.sub(self.n["lines"], self.math.mul(row, RESULTS)), RESULTS
        )

    def steps(self, pointer: str, step: IndexValue, count: int) -> list[str]:
        """Return addresses that are `step` elements apart, each an origin of its own to LLVM."""
        places = [self.math.value(self.math.mul(step, i)) for i in range(count)]
        return [self.w.b.moved(pointer_value(pointer), F32, place).text for place in places]

    def load_block(
        self, lines: Sequence[str], place: IndexValue, step: IndexValue, apart: int = 1
    ) -> Block:
        """Load a vector of features of each column of some lines, as many columns as lines."""
        places = self._along(self.math.mul(place, apart), step, len(lines))
        return [[self.load(self.address(line, x), apart) for x in places] for line in lines]

    def store_block(
        self, block: Block, lines: Sequence[str], place: IndexValue, step: IndexValue
    ) -> None:
        """Store such vectors."""
        places = self._along(place, step, len(lines))
        for line, values in zip(lines, block, strict=True):
            for x, value in zip(places, values, strict=True):
                self.store(self.address(line, x), value)

    def _along(self, place: IndexValue, step: IndexValue, count: int) -> list[IndexValue]:
        return [self.math.add(place, self.math.mul(step, i)) for i in range(count)]

    def address(self, pointer: str, place: IndexValue) -> str:
        return self.w.b.address(pointer_value(pointer), F32, self.math.value(place))

    def load(self, address: str, apart: int = 1) -> str:
        """Load a vector of elements that are `apart` elements from each other."""
        if apart == 1:
            return load_lanes(self.w, address, F32, self.lanes, "")
        fn, vector = self.fn, "poison"
        for lane in range(self.lanes):
            element = fn.value(f"load float, ptr {self.address(address, lane * apart)}")
            text = f"insertelement {self.kind} {vector}, float {element}, i64 {lane}"
            vector = fn.value(text)
        return vector

    def store(self, address: str, value: str) -> None:
        store_lanes(self.w, address, F32, self.lanes, "", value)

    def add(self, x: str, y: str) -> str:
        return self.fn.value(f"fadd {self.kind} {x}, {y}")

    def sub(self, x: str, y: str) -> str:
        return self.fn.value(f"fsub {self.kind} {x}, {y}")

    def times(self, x: str, factor: float) -> str:
        numbers = ", ".join([f"float {factor}"] * self.lanes)
        return self.fn.value(f"fmul {self.kind} {x}, <{numbers}>")

    def kernel(self, g: Sequence[str]) -> list[str]:
        """Return G g: four elements for three of the kernel."""
        ends = self.add(g[0], g[2])
        middle = self.add(ends, g[1]), self.sub(ends, g[1])
        return [g[0], *(self.times(x, 0.5) for x in middle), g[2]]

    def input(self, d: Sequence[str]) -> list[str]:
        """Return B' d: four elements for four of the input."""
        middle = self.add(d[1], d[2]), self.sub(d[2], d[1])
        return [self.sub(d[0], d[2]), *middle, self.sub(d[1], d[3])]

    def output(self, m: Sequence[str]) -> list[str]:
        """Return A' m: two elements for four sums."""
        return [self.add(self.add(m[0], m[1]), m[2]), self.sub(self.sub(m[1], m[2]), m[3])]
