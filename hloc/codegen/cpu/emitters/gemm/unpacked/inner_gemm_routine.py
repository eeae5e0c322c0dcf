"""The routines of inner products: accumulators of several rows and columns in registers.

    inner(lhs, rhs, out, columns, depth, lhs_row, rhs_row, out_row_bytes, out_column_bytes)

Both sides are contiguous along k; `rows` copies rows that are not. Integers are widened to s16, and
an instruction multiplies a vector of them and sums the products in pairs, as s32.
"""

from __future__ import annotations

from functools import cache

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.carried_loop import CarriedLoop, rows_of
from hloc.codegen.cpu.emitters.gemm.micro_kernels.multiply_accumulate import multiply_pairs
from hloc.codegen.cpu.emitters.routine_writer import (
    RoutineWriter,
    argument,
    named_parameters,
    routine_unit,
)
from hloc.codegen.cpu.emitters.vector_loads import (
    first_lanes,
    load_as,
    prefetch_ahead,
    vector_type,
)
from hloc.codegen.kernels.lanes import has_many_registers
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, F64, S16, S32, DType

TILE_ROWS, TILE_SUMS = 8, 24
"""Rows that are multiplied at a time, and rows times columns."""

TILE_COLUMNS = (4, 3, 2)
"""Columns of a tile: the most that fit."""

SMALL_TILE_ROWS = 4
"""Rows that are multiplied at a time if sums of integers have to fit 16 registers."""

LONG_DEPTH = 1 << 14
"""Most steps of k that are summed in one register; longer sums consist of blocks of this many, so
that no lane is the sum of more than a few thousand terms."""

_SUMS_OF_MANY = 16
"""Vectors of sums at most where an iteration multiplies several vectors along k."""

SUMMED_TOGETHER = 4
"""Vectors whose lanes are reduced at the same time."""

_PARAMETERS = named_parameters(
    "lhs rhs", "out", "columns depth lhs_row rhs_row out_row_bytes out_column_bytes"
)
_COPY_PARAMETERS = named_parameters("from", "to", "depth from_row from_step to_row")


@cache
def copy_routine(rows: int, source: DType, total: DType, target: Target) -> Routines:
    """Return the function that copies `rows` rows so that they are contiguous along k."""

    def write(w: RoutineWriter) -> None:
        math = w.math
        with w.body.loop(0, argument("%depth")) as step:
            first = math.mul(argument("%from_step"), step)
            for row in range(rows):
                place = math.add(first, math.mul(argument("%from_row"), row))
                value = w.b.load(pointer_value("%from"), source, math.value(place))
                to = math.add(math.mul(argument("%to_row"), row), step)
                w.b.store(pointer_value("%to"), to, w.b.convert(value, total))

    name = f"rows_{source.name}_{total.name}_{rows}"
    return routine_unit(name, _COPY_PARAMETERS, write, target)


def operand_type(total: DType) -> DType:
    """Return the type in which elements are multiplied, if sums are `total`."""
    return S16 if total is S32 else total


def tile_of(rows: int, total: DType, target: Target) -> tuple[int, int]:
    """Return rows and columns of a tile; the columns divide what is multiplied at a time.

    Floats wait for memory, integers for arithmetic: registers have to hold all their sums.
    """
    if total is not S32:
        tile = -(-rows // -(-rows // TILE_ROWS))
        return tile, next(width for width in TILE_COLUMNS if width * tile <= TILE_SUMS)
    tile = rows if has_many_registers(target) else -(-rows // -(-rows // SMALL_TILE_ROWS))
    return tile, 4 if tile <= SMALL_TILE_ROWS // 2 else 2


@cache
def inner_routines(
    rows: int,
    has_rests: tuple[bool, bool],
    sources: tuple[DType, DType],
    result: DType,
    target: Target,
    is_long: bool = False,
    is_short: bool = False,
) -> Routines:
    """Return the function for some number of rows.

    Args:
        rows: of the left-hand side.
        has_rests: whether columns remain after whole tiles, and steps of k after whole vectors.
        sources: element types of the operands.
        result: that of the result.
        target: the machine.
        is_long: whether there are more steps of k than `LONG_DEPTH`.
        is_short: whether there are fewer than a vector has lanes; needs masks.
    """
    types = "_".join(dtype.name for dtype in (*sources, result))
    rests = "".join(
        name
        for name, is_there in zip("ckbs", (*has_rests, is_long, is_short), strict=True)
        if is_there
    )
    name = f"inner_{types}_{rows}{rests}"
    return routine_unit(
        name,
        _PARAMETERS,
        lambda w: _Inner(w, rows, sources, result, target, is_long, is_short).write(*has_rests),
        target,
    )


class _Inner:
    """Writes one routine."""

    def __init__(
        self,
        w: RoutineWriter,
        rows: int,
        sources: tuple[DType, DType],
        result: DType,
        target: Target,
        is_long: bool,
        is_short: bool,
    ) -> None:
        """Take the writer and the sizes; sums are f32, f64 if the result is, s32 of integers."""
        self.is_long, self.is_short = is_long, is_short
        self.w, self.fn, self.b, self.body, self.math = w, w.fn, w.b, w.body, w.math
        self.rows, self.sources, self.result = rows, sources, result
        self.total = S32 if result.is_integer else F64 if result is F64 else F32
        self.operand = operand_type(self.total)
        self.lanes, self.sums = (target.vector_bits // x.bits for x in (self.operand, self.total))
        self.add = "fadd" if self.total.is_float else "add"
        self.factor, self.vector = (
            vector_type(dtype, lanes)
            for dtype, lanes in ((self.operand, self.lanes), (self.total, self.sums))
        )
        self.rest_of_depth = True
        self.has_masks = target.has("avx512bw")

    def write(self, rest_of_columns: bool, rest_of_depth: bool) -> None:
        """Emit the loops over tiles of columns and rows."""
        math = self.math
        self.rest_of_depth = rest_of_depth
        tile, width = tile_of(self.rows, self.total, self.b.target)
        columns = argument("%columns")
        whole: IndexValue = columns
        if rest_of_columns:
            whole = math.mul(math.div(columns, width), width)
        parts: list[tuple[IndexValue, IndexValue, int]] = [(0, whole, width)]
        if rest_of_columns:
            parts.append((whole, columns, 1))
        for first, end, count in parts:
            with self.body.loop(first, end, count) as column:
                for row in range(0, self.rows, tile):
                    self._tile(row, min(tile, self.rows - row), column, count)

    def _tile(self, row: int, rows: int, column: IndexValue, count: int) -> None:
        """Multiply and write `rows` by `count` elements of the result."""
        math = self.math
        lefts = [math.mul(argument("%lhs_row"), row + i) for i in range(rows)]
        rights = [math.mul(argument("%rhs_row"), math.add(column, j)) for j in range(count)]
        slots = [[self.b.allocate(self.total) for _ in rights] for _ in lefts]
        totals = [["zeroinitializer"] * count for _ in lefts]
        if not self.is_short:
            totals = self._blocks(lefts, rights) if self.is_long else self._whole(lefts, rights)
        if self.rest_of_depth:
            totals = self._with_rest(lefts, rights, totals)
        flat = [slot for row_slots in slots for slot in row_slots]
        sums = self._summed([vector for part in totals for vector in part])
        for slot, value in zip(flat, sums, strict=True):
            self.b.store(slot, 0, value)
        for i in range(rows):
            for j in range(count):
                offset = math.add(
                    math.mul(argument("%out_row_bytes"), row + i),
                    math.mul(argument("%out_column_bytes"), math.add(column, j)),
                )
                at = math.moved("%out", offset)
                value = self.b.convert(self.b.load(slots[i][j], self.total, 0), self.result)
                self.b.store(pointer_value(at), 0, value)

    def _with_rest(
        self, lefts: list[IndexValue], rights: list[IndexValue], totals: list[list[str]]
    ) -> list[list[str]]:
        """Return the sums with the products after the last whole vector.

        Without masks, the last vector of k is read, and zeros replace what was multiplied before.
        """
        math, depth, lanes = self.math, argument("%depth"), self.lanes
        rest = math.rem(depth, lanes)
        if self.has_masks:
            start, mask = math.sub(depth, rest), first_lanes(self.w, rest, lanes)
        else:
            start, mask = math.sub(depth, lanes), ""
            done = first_lanes(self.w, math.sub(lanes, rest), lanes)

        def load(side: int, place: IndexValue) -> str:
            vector = self._load(side, math.add(place, start), mask)
            if self.has_masks:
                return vector
            zeros = f"{self.factor} zeroinitializer"
            kind = f"<{lanes} x i1>"
            return self.fn.value(f"select {kind} {done}, {zeros}, {self.factor} {vector}")

        ys = [load(1, right) for right in rights]
        xs = [load(0, left) for left in lefts]
        return [
            [self._multiply_add(x, y, total) for y, total in zip(ys, part, strict=True)]
            for x, part in zip(xs, totals, strict=True)
        ]

    def _multiply_add(self, x: str, y: str, total: str) -> str:
        if self.operand is not self.total:
            return multiply_pairs(self.w, self.sums, x, y, total)
        product = self.fn.value(f"fmul contract {self.vector} {x}, {y}")
        return self.fn.value(f"fadd contract {self.vector} {total}, {product}")

    def _blocks(self, lefts: list[IndexValue], rights: list[IndexValue]) -> list[list[str]]:
        """Run over the whole vectors along k in blocks; return the sums by row."""
        fn, math = self.fn, self.math
        count = len(lefts) * len(rights)
        slots = [fn.allocate(self.vector) for _ in range(count)]
        for slot in slots:
            fn.line(f"store {self.vector} zeroinitializer, ptr {slot}")
        end = self._end_of_whole()
        with self.body.loop(0, end, LONG_DEPTH) as first:
            block = self._whole(
                lefts, rights, first, math.minimum(math.add(first, LONG_DEPTH), end)
            )
            for slot, part in zip(slots, (x for row in block for x in row), strict=True):
                total = fn.value(f"load {self.vector}, ptr {slot}")
                fn.line(f"store {self.vector} {self._sum(total, part)}, ptr {slot}")
        return rows_of([fn.value(f"load {self.vector}, ptr {x}") for x in slots], len(rights))

    def _sum(self, left: str, right: str) -> str:
        return self.fn.value(f"{self.add} {self.vector} {left}, {right}")

    def _end_of_whole(self) -> IndexValue:
        """Return the number of steps of k in whole vectors."""
        return self.math.mul(self.math.div(argument("%depth"), self.lanes), self.lanes)

    def _whole(
        self,
        lefts: list[IndexValue],
        rights: list[IndexValue],
        first: IndexValue = 0,
        end: IndexValue | None = None,
    ) -> list[list[str]]:
        """Run over the whole vectors along k, or those of a block; return the sums by row."""
        fn = self.fn
        end = self._end_of_whole() if end is None else end
        vectors = self._vectors_at_a_time(len(lefts) * len(rights))
        if vectors > 1:
            return self._several(lefts, rights, first, end, vectors)
        zeros = [(self.vector, "zeroinitializer")] * (len(lefts) * len(rights))
        loop = CarriedLoop(self.w, [("i64", self.math.value(first).text), *zeros])
        step, *sums = loop.values
        k = Value(argument("%depth").dtype, step)
        places = [self.math.add(right, k) for right in rights]
        ys = [self._load(1, place) for place in places]
        self._prefetch(places)
        new = []
        for left, row in zip(lefts, rows_of(sums, len(rights)), strict=True):
            x = self._load(0, self.math.add(left, k))
            new.append([self._multiply_add(x, y, s) for y, s in zip(ys, row, strict=True)])
        following = fn.value(f"add i64 {step}, {self.lanes}")
        again = fn.value(f"icmp slt i64 {following}, {self.math.value(end).text}")
        loop.close([following, *(total for row in new for total in row)], again)
        return new

    def _vectors_at_a_time(self, sums: int) -> int:
        """Return how many vectors along k an iteration loads, for this many elements of a tile.

        Short vectors are a part of a cache line each; with 32 registers there is room for more.
        """
        if not self.b.target.is_aarch64:
            return 1
        return next(v for v in (4, 2, 1) if v * sums <= _SUMS_OF_MANY or v == 1)

    def _several(
        self,
        lefts: list[IndexValue],
        rights: list[IndexValue],
        first: IndexValue,
        end: IndexValue,
        vectors: int,
    ) -> list[list[str]]:
        """Run over some vectors at a time, with sums for each, then over those that remain."""
        fn, math, step = self.fn, self.math, vectors * self.lanes
        count = len(lefts) * len(rights)
        slots = [fn.allocate(self.vector) for _ in range(vectors * count)]
        for slot in slots:
            fn.line(f"store {self.vector} zeroinitializer, ptr {slot}")
        whole = math.mul(math.div(math.sub(end, first), step), step)
        middle = math.add(first, whole)
        self._add_products(lefts, rights, (first, middle), slots)
        self._add_products(lefts, rights, (middle, end), slots[:count])
        parts = rows_of([fn.value(f"load {self.vector}, ptr {slot}") for slot in slots], count)
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [list(map(self._sum, *pair)) for pair in pairs]
        return rows_of(parts[0], len(rights))

    def _add_products(
        self,
        lefts: list[IndexValue],
        rights: list[IndexValue],
        steps: tuple[IndexValue, IndexValue],
        slots: list[str],
    ) -> None:
        """Add the products of a range of k to the sums in memory, of one vector or several."""
        fn, math, width = self.fn, self.math, len(rights)
        first, end = steps
        vectors = len(slots) // (len(lefts) * width)
        with self.body.when(math.compare("LT", first, end)):
            before = [(self.vector, fn.value(f"load {self.vector}, ptr {slot}")) for slot in slots]
            loop = CarriedLoop(self.w, [("i64", math.value(first).text), *before])
            step, *sums = loop.values
            k = Value(argument("%depth").dtype, step)
            if vectors > 1:
                self._prefetch([math.add(right, k) for right in rights])
            new = []
            for number, part in enumerate(rows_of(sums, len(lefts) * width)):
                at = math.add(k, number * self.lanes)
                ys = [self._load(1, math.add(right, at)) for right in rights]
                for left, row in zip(lefts, rows_of(part, width), strict=True):
                    x = self._load(0, math.add(left, at))
                    new += [self._multiply_add(x, y, s) for y, s in zip(ys, row, strict=True)]
            following = fn.value(f"add i64 {step}, {vectors * self.lanes}")
            loop.close(
                [following, *new], fn.value(f"icmp slt i64 {following}, {math.value(end).text}")
            )
            for slot, total in zip(slots, new, strict=True):
                fn.line(f"store {self.vector} {total}, ptr {slot}")

    def _prefetch(self, places: list[IndexValue]) -> None:
        """Prefetch the same steps of the next columns into the L1 cache.

        With prefetching, the gemm runs at the speed of memory.
        """
        ahead = self.math.mul(argument("%rhs_row"), len(places))
        prefetch_ahead(self.w, "%rhs", self.sources[1], places, ahead, cache_level=1)

    def _load(self, side: int, place: IndexValue, mask: str = "") -> str:
        return load_as(
            self.w,
            ("%lhs", "%rhs")[side],
            self.sources[side],
            self.operand,
            self.lanes,
            place,
            mask,
        )

    def _summed(self, vectors: list[str]) -> list[Value]:
        """Return the sum of the lanes of each vector: halves are added until one lane is left.

        Several vectors share the additions: after two steps, one vector has a part of each.
        """
        return [
            value
            for first in range(0, len(vectors), SUMMED_TOGETHER)
            for value in self._group_sums(vectors[first : first + SUMMED_TOGETHER])
        ]

    def _group_sums(self, group: list[str]) -> list[Value]:
        """Return the sum of the lanes of each vector in `group`.

        Vectors are folded in pairs: half of the lanes of the new vector belong to each. So several
        sums share the shuffles and adds, as in a tree; what remains is folded within the vector.
        """
        parts, owners = group, 1
        while owners < min(SUMMED_TOGETHER, self.sums):
            parts = [*parts, parts[-1]] if len(parts) % 2 else parts
            width, pairs = self.sums // owners, zip(parts[::2], parts[1::2], strict=True)
            firsts = range(0, 2 * self.sums, width)
            lanes = [first + lane for first in firsts for lane in range(width // 2)]
            parts = [self._folded(x, y, lanes, width // 2) for x, y in pairs]
            owners *= 2
        own = self.sums // owners
        width = own
        while width > 1:
            lanes = [lane // width * width + lane % (width // 2) for lane in range(self.sums)]
            parts = [self._folded(x, x, lanes, width // 2) for x in parts]
            width //= 2
        return [
            Value(
                self.total,
                self.fn.value(
                    f"extractelement {self.vector} {parts[i // owners]}, i64 {i % owners * own}"
                ),
            )
            for i in range(len(group))
        ]

    def _folded(self, x: str, y: str, lanes: list[int], shift: int) -> str:
        """Return `lanes` of two vectors plus the lanes `shift` after them."""

        def chosen(offset: int) -> str:
            mask = ", ".join(f"i32 {lane + offset}" for lane in lanes)
            return self.fn.value(
                f"shufflevector {self.vector} {x}, {self.vector} {y}, <{self.sums} x i32> <{mask}>"
            )

        return self._sum(chosen(0), chosen(shift))
