"""Element rules of reduce and reduce-window as producers: loops inside the element.

Roots have faster emitters of their own (`cpu/emitters/reduction/`); these work anywhere.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import product
from math import inf, prod
from typing import Any

from hloc.codegen.builder.element_builder import ElementBuilder
from hloc.codegen.builder.index import Index, physical_order
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value, is_narrow_float
from hloc.codegen.elements.elemental import ElementGenerator, Frame, Request, Rule, leaf_rule
from hloc.dtypes import C128, F32, F64, DType
from hloc.ir.attributes import Window, WindowDimension
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ops.folding import LONG_SUM, reducer_rows
from hloc.shapes import ArrayShape, ShapeIndex, leaves

MOST_UNROLLED = 7
"""Sums of at most this many elements are unrolled, with constant indices."""

FEWEST_ROWS = 8
"""With at least this many rows of so few elements, loops over the results are vectorised."""


def result_number(path: ShapeIndex) -> int:
    """Return the number of the result of a variadic operation at a leaf path."""
    return path[0] if path else 0


def plain_reducer(computation: Computation) -> str:
    """Return the opcode if `computation` is only `opcode(parameter 0, parameter 1)`, else ""."""
    names = plain_results(computation)
    return names[0] if len(names) == 1 else ""


def plain_results(computation: Computation) -> tuple[str, ...]:
    """Return for each result the opcode if it is only `opcode(its sum, its element)`, else "".

    The reducer `(add(p0, p2), subtract(p1, p3))` has `("add", "")`.
    """
    rows = reducer_rows(computation)
    return tuple("" if row is None else _plain(row[0], {*row[1:]}) for row in rows)


def _plain(result: Instruction, pair: set[Instruction]) -> str:
    is_plain = len(result.operands) == 2 and set(result.operands) == pair
    return result.opcode.name if is_plain and result.opcode.associative else ""


def identity_of(name: str, dtype: DType) -> Any:
    """Return the identity element of the plain reducer `name`."""
    if name == "multiply":
        return 1
    if name in ("maximum", "minimum") and dtype.is_float:
        return -inf if name == "maximum" else inf
    if name in ("maximum", "minimum"):
        smallest = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
        return smallest if name == "maximum" else smallest + (1 << dtype.bits) - 1
    if name == "and":
        return 1 if dtype.is_pred else -1
    return -0.0 if dtype.is_float else 0


def is_float_sum(reduce: Instruction) -> bool:
    """True for a plain sum of one array of floats."""
    return (
        len(reduce.operands) == 2
        and reduce.array.dtype.is_float
        and plain_reducer(reduce.called[0]) == "add"
    )


def sum_dtype(computation: Computation, dtype: DType) -> DType:
    """Return the type to accumulate in, whatever the length of sums: f32 for narrow floats.

    Products of narrow floats need it, too: partial products may overflow the type. Minima and
    maxima of narrow floats are the same in f32, and vectors of f32 are faster.
    """
    return _sum_dtype(plain_reducer(computation), dtype, 0)


def sum_dtypes(
    computation: Computation, starts: Sequence[Instruction], addends: int = 0
) -> list[DType]:
    """Return the type to accumulate in for each result; `starts` are the initial values."""
    names = plain_results(computation)
    return [
        _sum_dtype(name, start.array.dtype, addends)
        for name, start in zip(names, starts, strict=True)
    ]


def _sum_dtype(name: str, dtype: DType, addends: int) -> DType:
    if not name or not (dtype.is_float or dtype.is_complex):
        return dtype
    if name == "add" and addends > LONG_SUM:
        return C128 if dtype.is_complex else F64
    return F32 if is_narrow_float(dtype) else dtype


def combine(
    g: ElementGenerator, computation: Computation, left: Sequence[Value], right: Sequence[Value]
) -> list[Value]:
    """Return `computation(left, right)`; a plain sum or product may be reassociated.

    Plain results of floats, and sums of complex numbers, are combined in the type of `left`, which
    may be wider than theirs (`sum_dtypes`).
    """
    names = plain_results(computation)
    free = [_is_free(name, x.dtype) for name, x in zip(names, left, strict=True)]
    given = [] if all(free) else _narrowed(g.b, computation, [*left, *right])
    inlined = g.inline(computation, given) if given else left
    return [
        combined(g.b, name, x, y) if is_free else value
        for name, is_free, x, y, value in zip(names, free, left, right, inlined, strict=True)
    ]


def _is_free(name: str, dtype: DType) -> bool:
    """True if a plain result may be combined in a wider type."""
    return bool(name) and (dtype.is_float or (dtype.is_complex and name == "add"))


def _narrowed(b: ElementBuilder, computation: Computation, values: Sequence[Value]) -> list[Value]:
    """Return `values` in the types of the parameters."""
    types = [parameter.array.dtype for parameter in computation.parameters]
    return [b.convert(x, dtype) for x, dtype in zip(values, types, strict=True)]


def combined(b: ElementBuilder, name: str, left: Value, right: Value) -> Value:
    """Return the plain reducer `name` of two numbers, which may be reassociated.

    Of complex numbers it is "add".
    """
    dtype = left.dtype
    if dtype.is_float or dtype.is_complex:
        saved, b.float_flags = b.float_flags, "reassoc contract"
        operate = {"add": b.fadd, "multiply": b.fmul}.get(name)
        value = operate(left, right) if operate else b.intrinsic(name, left, right)
        b.float_flags = saved
        return value
    operate = {"add": b.iadd, "multiply": b.imul, "and": b.and_, "or": b.or_, "xor": b.xor}.get(
        name
    )
    if operate:
        return operate(left, right)
    return b.intrinsic(("s" if dtype.is_signed else "u") + name[:3], left, right)


class Accumulators:
    """The accumulators of a reduction in stack slots, for one element or for `count`."""

    def __init__(
        self, g: ElementGenerator, inst: Instruction, addends: int = 0, count: int = 1
    ) -> None:
        inputs = len(inst.operands) // 2
        self.g, self.inst = g, inst
        (self.computation,) = inst.called
        self.inputs, self.starts = inst.operands[:inputs], inst.operands[inputs:]
        self.dtypes = sum_dtypes(self.computation, self.starts, addends)
        self.slots = [g.b.allocate(dtype, count) for dtype in self.dtypes]

    def start(self, number: int, value: Value, at: IndexValue = 0) -> None:
        """Set result `number` of element `at` to its initial value."""
        self.g.b.store(self.slots[number], at, self.g.b.convert(value, self.dtypes[number]))

    def clear(self) -> None:
        """Set the results to zero, so that they are defined."""
        self.store([self.g.b.const(dtype, 0) for dtype in self.dtypes])

    def load(self, at: IndexValue = 0) -> list[Value]:
        """Return the results of element `at`."""
        return [self.g.b.load(s, d, at) for s, d in zip(self.slots, self.dtypes, strict=True)]

    def store(self, values: Sequence[Value], at: IndexValue = 0) -> None:
        """Replace the results of element `at`."""
        for slot, value in zip(self.slots, values, strict=True):
            self.g.b.store(slot, at, value)

    def converted(self, values: Sequence[Value]) -> list[Value]:
        """Return `values` in the types of the results."""
        return [self.g.b.convert(x, d) for x, d in zip(values, self.dtypes, strict=True)]

    def combine(self, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        """Return the combination of two lists of results."""
        return self.converted(combine(self.g, self.computation, left, right))

    def add(self, elements: Sequence[Value]) -> None:
        """Combine one element of every input with the results."""
        new = self.converted(elements)
        self.store(self.combine(self.load(), new))

    def finish(self) -> list[Value]:
        """Return the results in their own types."""
        results = [shape for _, shape in leaves(self.inst.shape)]
        return [
            self.g.b.convert(value, result.dtype)  # type: ignore[union-attr]
            for value, result in zip(self.load(), results, strict=True)
        ]


@leaf_rule("reduce")
def _reduce(
    g: ElementGenerator, frame: Frame, inst: Instruction, path: ShapeIndex, index: Index
) -> Rule:
    """Fold the reduced dimensions in one loop nest; unrolled if there are few elements.

    The results of a variadic reduce are computed together and kept: `path` names the one wanted.
    """
    key = ("reduce", frame, inst, index)
    cached = g.body.values.get(key)
    if cached is None:
        shape = inst.operands[0].array
        reduced = set(inst.attributes.dimensions)
        count = prod(shape.dims[d] for d in reduced)
        sums = Accumulators(g, inst, count)
        for number, start in enumerate(sums.starts):
            sums.start(number, (yield frame, start, (), ()))
        kept = [d for d in range(shape.rank) if d not in reduced]
        order = [d for d in physical_order(shape) if d in reduced]
        at: list[IndexValue] = [0] * shape.rank
        for dim, position in zip(kept, index, strict=True):
            at[dim] = position
        if count <= MOST_UNROLLED:
            for numbers in product(*(range(shape.dims[d]) for d in order)):
                for dim, number in zip(order, numbers, strict=True):
                    at[dim] = number
                yield from _add(frame, sums, tuple(at))
        else:
            with g.body.nest(shape.dims, order) as within:
                for dim in order:
                    at[dim] = within[dim]
                yield from _add(frame, sums, tuple(at))
        cached = sums.finish()
        g.body.keep(key, cached)
    return cached[result_number(path)]


def _add(frame: Frame, sums: Accumulators, at: Index) -> Generator[Request, Value, None]:
    """Combine the elements at `at` with the sums."""
    elements = []
    for operand in sums.inputs:
        elements.append((yield frame, operand, (), at))
    sums.add(elements)


@leaf_rule("reduce-window")
def _reduce_window(
    g: ElementGenerator, frame: Frame, inst: Instruction, path: ShapeIndex, index: Index
) -> Rule:
    """Fold the elements of one window; positions in the padding are skipped by a branch."""
    key = ("reduce-window", frame, inst, index)
    cached = g.body.values.get(key)
    if cached is None:
        window = (inst.attributes.window or Window()).dimensions
        sizes = [d.size for d in window]
        sums = Accumulators(g, inst, prod(sizes))
        for number, start in enumerate(sums.starts):
            sums.start(number, (yield frame, start, (), ()))
        shape = sums.inputs[0].array
        order = [d for d in physical_order(shape) if sizes[d] != 1]
        with g.body.nest(sizes, order) as within:
            at, inside = window_position(g, shape, window, index, within)
            with g.body.when(inside):
                elements = []
                for operand in sums.inputs:
                    elements.append((yield frame, operand, (), at))
                sums.add(elements)
        cached = sums.finish()
        g.body.keep(key, cached)
    return cached[result_number(path)]


def window_position(
    g: ElementGenerator,
    shape: ArrayShape,
    window: Sequence[WindowDimension],
    index: Sequence[IndexValue],
    within: Sequence[IndexValue],
) -> tuple[Index, Value]:
    """Return the array index of element `within` of window `index`, and whether it is inside.

    The array has `shape`, its elements `base_dilation` apart; padding and holes are outside.
    """
    position: list[IndexValue] = []
    conditions: list[Value] = []
    for d, size, i, w in zip(window, shape.dims, index, within, strict=True):
        inside, at = window_step(g, d, size, i, w)
        position.append(at)
        conditions.extend(inside)
    return tuple(position), g.body.all_of(conditions)


def window_step(
    g: ElementGenerator, d: WindowDimension, size: int, i: IndexValue, w: IndexValue
) -> tuple[list[Value], IndexValue]:
    """Return the conditions and the position of one dimension of a window."""
    m = g.math
    if d.reversal:
        w = m.sub(d.size - 1, w)
    at = m.add(m.mul(i, d.stride), m.mul(w, d.window_dilation))
    at = m.sub(at, d.pad_low)
    conditions: list[Value] = []
    last = (size - 1) * d.base_dilation
    may_end = d.pad_high > 0 or size == 0 or d.base_dilation > 1 or d.pad_low < 0
    if d.pad_low > 0 and may_end and size:
        conditions.append(m.is_below(at, last + 1))
    else:
        if d.pad_low > 0:
            conditions.append(m.compare("GE", at, 0))
        if may_end:
            conditions.append(m.compare("LE", at, last))
    if d.base_dilation > 1:
        conditions.append(m.compare("EQ", m.rem(at, d.base_dilation), 0))
        at = m.div(at, d.base_dilation)
    return conditions, at
