"""Index arithmetic: folds constants and never computes the same value twice.

Indices are non-negative unless a caller subtracts; divisions assume non-negative operands.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.lane_builder import LaneBuilder
from hloc.codegen.builder.loops import Body, IndexValue
from hloc.codegen.builder.values import VARYING, LaneIndex, Lanes, Value, lane_stride
from hloc.dtypes import PRED, S64, U32, U64
from hloc.shapes import ArrayShape, dense_strides

Index = tuple[IndexValue, ...]
"""One position per dimension of an array."""


class IndexMath:
    """Index arithmetic in `body`; equal expressions give the same value within a region.

    Attributes:
        joins: `linear` joins what `delinear` divided; not so on GPUs, where the parts show which
            elements lie side by side.
    """

    def __init__(self, body: Body) -> None:
        self.body = body
        self.fn = body.fn
        self.joins = True
        self._ranges: dict[str, range] = {}
        self._divisions: dict[str, tuple[IndexValue, int]] = {}

    def bound(self, x: IndexValue, values: range) -> None:
        """Record the range of `x`: comparisons that it decides become constants."""
        if not isinstance(x, int):
            self._ranges[x.text] = values

    def value(self, x: IndexValue) -> Value:
        """Return `x` as a value in a register."""
        return Value(S64, str(x)) if isinstance(x, int) else x

    def _emit(self, op: str, x: IndexValue, y: IndexValue) -> Value:
        key = (op, x, y)
        cached = self.body.values.get(key)
        if cached is None:
            left = x if isinstance(x, int) else x.text
            right = y if isinstance(y, int) else y.text
            if self._is_computed(op, x, y):
                cached = self._computed(op, x, y)
            elif isinstance(x, VARYING) or isinstance(y, VARYING):
                stride = lane_stride(op, x, y)
                text = self.fn.index_arithmetic(op, str(left), str(right))
                cached = LaneIndex(S64, text, stride=stride)
            else:
                cached = Value(S64, self.fn.index_arithmetic(op, str(left), str(right)))
            self.body.keep(key, cached)
        assert isinstance(cached, Value)
        return cached

    def _is_computed(self, op: str, x: IndexValue, y: IndexValue) -> bool:
        """True if `x op y` is computed for each lane, as the lanes are not evenly spaced."""
        b = self.body.b
        if not isinstance(b, LaneBuilder) or b.positions is None:
            return False
        return any(
            isinstance(z, Lanes) or (isinstance(z, LaneIndex) and op in ("div", "rem"))
            for z in (x, y)
        )

    def _computed(self, op: str, x: IndexValue, y: IndexValue) -> Value:
        b = self.body.b
        assert isinstance(b, LaneBuilder)
        operations = {"add": b.iadd, "sub": b.isub, "mul": b.imul, "div": b.idiv, "rem": b.irem}
        return operations[op](b.position(self.value(x)), b.position(self.value(y)))

    def _alike(self, x: IndexValue, y: IndexValue) -> tuple[Value, Value]:
        """Return both as values of one type: that of computed positions if one is one."""
        b, left, right = self.body.b, self.value(x), self.value(y)
        if isinstance(b, LaneBuilder) and (isinstance(x, Lanes) or isinstance(y, Lanes)):
            return b.position(left), b.position(right)
        return left, right

    def add(self, x: IndexValue, y: IndexValue) -> IndexValue:
        if isinstance(x, int):
            if isinstance(y, int):
                return x + y
            x, y = y, x
        if y == 0:
            return x
        total = self._emit("add", x, y)
        known = self._ranges.get(x.text)
        if known is not None and isinstance(y, int):
            self._ranges[total.text] = range(known.start + y, known.stop + y)
        return total

    def sub(self, x: IndexValue, y: IndexValue) -> IndexValue:
        if isinstance(y, int):
            return self.add(x, -y)
        return self._emit("sub", x, y)

    def mul(self, x: IndexValue, y: IndexValue) -> IndexValue:
        if isinstance(x, int):
            if isinstance(y, int):
                return x * y
            x, y = y, x
        if y == 0:
            return 0
        return x if y == 1 else self._emit("mul", x, y)

    def div(self, x: IndexValue, y: int) -> IndexValue:
        if isinstance(x, int):
            return x // y
        if y == 1:
            return x
        quotient = self._emit("div", x, y)
        self._divisions[quotient.text] = x, y
        return quotient

    def ceiling_div(self, x: IndexValue, y: IndexValue) -> IndexValue:
        """Return `x / y`, rounded up."""
        raised = self.sub(self.add(x, y), 1)
        return self.div(raised, y) if isinstance(y, int) else self._emit("div", raised, y)

    def rem(self, x: IndexValue, y: int) -> IndexValue:
        if isinstance(x, int):
            return x % y
        return 0 if y == 1 else self._emit("rem", x, y)

    def minimum(self, x: IndexValue, y: IndexValue) -> IndexValue:
        return self._extreme("smin", x, y)

    def maximum(self, x: IndexValue, y: IndexValue) -> IndexValue:
        return self._extreme("smax", x, y)

    def _extreme(self, name: str, x: IndexValue, y: IndexValue) -> IndexValue:
        if isinstance(x, int) and isinstance(y, int):
            return min(x, y) if name == "smin" else max(x, y)
        return self.body.b.intrinsic(name, *self._alike(x, y))

    def clamp(self, x: IndexValue, highest: int) -> IndexValue:
        """Return `x` moved into [0, highest]."""
        return self.maximum(self.minimum(x, highest), 0)

    def compare(self, direction: str, x: IndexValue, y: IndexValue) -> Value:
        if isinstance(y, int):
            answers = {_holds(direction, end, y) for end in self._ends(x)}
            inside = direction in ("EQ", "NE") and y in self._ranges.get(_text(x), ())
            if len(answers) == 1 and not inside:
                return Value(PRED, "true" if answers.pop() else "false")
        key = (direction, x, y)
        cached = self.body.values.get(key)
        if cached is None:
            cached = self.body.b.compare(direction, *self._alike(x, y))
            self.body.keep(key, cached)
        assert isinstance(cached, Value)
        return cached

    def select(self, condition: Value, x: IndexValue, y: IndexValue) -> IndexValue:
        """Return `x` where the condition holds, else `y`."""
        return self.body.b.select(condition, *self._alike(x, y))

    def is_below(self, x: IndexValue, size: int) -> Value:
        """Return whether 0 <= x < size, where `x` may be negative."""
        ends = self._ends(x)
        if ends and (all(0 <= end < size for end in ends) or ends[-1] < 0 or ends[0] >= size):
            return Value(PRED, "true" if 0 <= ends[0] < size else "false")
        assert not isinstance(x, int)
        key = ("is_below", x, size)
        cached = self.body.values.get(key)
        if cached is None:
            b = self.body.b
            unsigned = U64 if x.dtype is S64 else U32
            cached = b.compare("LT", b.bitcast(x, unsigned), b.const(unsigned, size))
            self.body.keep(key, cached)
        assert isinstance(cached, Value)
        return cached

    def _ends(self, x: IndexValue) -> tuple[int, ...]:
        """Return the least and the largest value of `x`, () if they are not known."""
        if isinstance(x, int):
            return (x,)
        known = self._ranges.get(x.text)
        return () if known is None else (known[0], known[-1])

    def start_index(self, value: Value, highest: int) -> IndexValue:
        """Return an index operand as a position clamped to [0, highest], by its own sign."""
        b = self.body.b
        if value.dtype.is_unsigned and value.dtype.bits == 64:
            value = b.intrinsic("umin", value, b.const(value.dtype, highest))
        return self.clamp(b.convert(value, S64), highest)

    # ---- addresses

    def moved(self, pointer: str, offset_bytes: IndexValue) -> str:
        """Return `pointer` plus an offset in bytes."""
        if offset_bytes == 0:
            return pointer
        offset = self.value(offset_bytes).text
        return self.fn.value(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def aligned(self, pointer: str, alignment: int) -> str:
        """Return `pointer` rounded up to a multiple of `alignment` bytes."""
        address = self.fn.value(f"ptrtoint ptr {pointer} to i64")
        below = self.fn.value(f"sub i64 0, {address}")
        missing = self.fn.value(f"and i64 {below}, {alignment - 1}")
        return self.fn.value(f"getelementptr i8, ptr {pointer}, i64 {missing}")

    # ---- many dimensions

    def linear(self, index: Sequence[IndexValue], strides: Sequence[int]) -> IndexValue:
        """Return the sum of index times stride.

        A position that `delinear` divided, and that is whole again with these strides, is not put
        together: LLVM would not see that a kernel writes where it reads, and not vectorise it.
        """
        terms: list[tuple[IndexValue, int]] = []
        for position, stride in zip(index, strides, strict=True):
            whole = self._whole(*terms[-1], position, stride) if terms and self.joins else None
            if whole is not None:
                terms[-1] = whole, stride
            elif position != 0:
                terms.append((position, stride))
        total: IndexValue = 0
        for position, stride in terms:
            total = self.add(total, self.mul(position, stride))
        return total

    def _whole(
        self, quotient: IndexValue, step: int, remainder: IndexValue, stride: int
    ) -> IndexValue | None:
        """Return the position that was divided into two if it is whole with these strides."""
        if isinstance(quotient, int) or isinstance(remainder, int):
            return None
        x, size = self._divisions.get(quotient.text, (0, 0))
        is_whole = self.body.values.get(("rem", x, size)) == remainder and step == size * stride
        return x if is_whole else None

    def delinear(self, position: IndexValue, dims: Sequence[int]) -> list[IndexValue]:
        """Return the index of element number `position` of a row-major array of `dims`."""
        index: list[IndexValue] = [0] * len(dims)
        large = [dim for dim, size in enumerate(dims) if size != 1]
        remaining = position
        for dim in reversed(large[1:]):
            index[dim] = self.rem(remaining, dims[dim])
            remaining = self.div(remaining, dims[dim])
        if large:
            index[large[0]] = remaining
        return index

    def along(
        self, number: IndexValue, dims: Sequence[int], order: Sequence[int]
    ) -> list[IndexValue]:
        """Return the index in iteration `number` of a loop nest over dimensions `order` of `dims`.

        The first of them is the outermost; the index of other dimensions is 0.
        """
        index: list[IndexValue] = [0] * len(dims)
        sizes = [dims[dim] for dim in order]
        for dim, position in zip(order, self.delinear(number, sizes), strict=True):
            index[dim] = position
        return index

    def in_memory(self, number: IndexValue, shape: ArrayShape) -> list[IndexValue]:
        """Return the index of element `number` of an array in the order of its memory."""
        return self.along(number, shape.dims, physical_order(shape))

    def reshape(self, index: Index, dims: Sequence[int], new_dims: Sequence[int]) -> Index:
        """Return the index in `new_dims` of element `index` of `dims`, both row-major.

        Dimensions that the reshape leaves alone keep their index, without a division.
        """
        result: list[IndexValue] = []
        for old, new in reshape_groups(dims, new_dims):
            sizes = [new_dims[d] for d in new]
            if [dims[d] for d in old] == sizes:
                result.extend(index[d] for d in old)
                continue
            position = self.linear(
                [index[d] for d in old], row_major_strides([dims[d] for d in old])
            )
            result.extend(self.delinear(position, sizes))
        return tuple(result)


def _holds(direction: str, x: int, y: int) -> bool:
    return {
        "EQ": x == y, "NE": x != y, "LT": x < y, "LE": x <= y, "GT": x > y, "GE": x >= y
    }[direction]  # fmt: skip


def _text(x: IndexValue) -> str:
    return str(x) if isinstance(x, int) else x.text


def reshape_groups(
    dims: Sequence[int], new_dims: Sequence[int]
) -> list[tuple[list[int], list[int]]]:
    """Return the finest split of both lists into runs with equal products, in order.

    `[6,4] -> [2,3,4]` gives `[([0], [0,1]), ([1], [2])]`. Sizes are not zero.
    """
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(dims) or j < len(new_dims):
        old, new = [], []
        left = right = 1
        if i < len(dims):
            old, left, i = [i], dims[i], i + 1
        if j < len(new_dims) and (not old or left != 1 or new_dims[j] == 1):
            new, right, j = [j], new_dims[j], j + 1
        while left != right:
            if left < right:
                old.append(i)
                left *= dims[i]
                i += 1
            else:
                new.append(j)
                right *= new_dims[j]
                j += 1
        groups.append((old, new))
    return groups


def row_major_strides(dims: Sequence[int]) -> list[int]:
    """Return the stride, in elements, of every dimension of a dense row-major array."""
    strides = [1] * len(dims)
    for dim in range(len(dims) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * dims[dim + 1]
    return strides


def layout_strides(shape: ArrayShape) -> tuple[int, ...]:
    """Return the stride, in elements, of every dimension of `shape` in its layout."""
    return dense_strides(shape.dims, shape.minor_to_major)


def physical_order(shape: ArrayShape) -> tuple[int, ...]:
    """Return the dimensions from the slowest to the fastest in memory."""
    return tuple(reversed(shape.minor_to_major))


def loop_order(shape: ArrayShape) -> list[int]:
    """Return the dimensions that need a loop, slowest first: those larger than 1."""
    return [dim for dim in physical_order(shape) if shape.dims[dim] != 1]


def same_physical_order(a: ArrayShape, b: ArrayShape) -> bool:
    """True if element n in memory has the same index in `a` and `b`, which have equal dimensions.

    The layouts may differ in dimensions of size 1.
    """
    return a.layout == b.layout or loop_order(a) == loop_order(b)


def reshape_keeps_order(a: ArrayShape, b: ArrayShape) -> bool:
    """True if reshaping `a` to `b` moves no bytes, as both are row-major."""
    return a.elements == 0 or (_is_row_major(a) and _is_row_major(b))


def _is_row_major(shape: ArrayShape) -> bool:
    order = loop_order(shape)
    return order == sorted(order)
