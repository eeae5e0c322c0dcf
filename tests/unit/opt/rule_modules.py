"""Random modules made from the pattern of a rule, so that the rule may fire in them.

Types, sizes, layouts, attributes and constants are drawn from the result down to the operands. Most
drawings break a shape rule or a guard somewhere; the test draws until enough fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from hloc.dtypes import DTYPES as TYPES
from hloc.dtypes import PRED, DType
from hloc.ir.attributes import PaddingDimension, SliceDimension
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.ops import OPCODES
from hloc.ops.builder import Builder
from hloc.opt.pattern import P
from hloc.opt.rule import Rule
from hloc.shapes import ArrayShape, Layout

Dims = tuple[int, ...]

F32, S32, C64 = TYPES["f32"], TYPES["s32"], TYPES["c64"]
DTYPES: tuple[DType, ...] = tuple(
    TYPES[name]
    for name in (
        *("f32", "f32", "f64", "f16", "bf16", "s32", "s32", "s8", "s4", "s64", "s16"),
        *("u32", "u8", "u16", "pred", "pred", "c64"),
    )
)
WIDTHS: dict[int, tuple[DType, ...]] = {
    bits: tuple(d for d in dict.fromkeys(DTYPES) if d.bits == bits) for bits in (8, 16, 32)
}
DIMS: tuple[Dims, ...] = (
    (),
    (1,),
    (4,),
    (6,),
    (2, 3),
    (3, 2),
    (1, 4),
    (4, 1),
    (1, 1),
    (2, 2),
    (2, 1, 3),
    (2, 2, 3),
    (0,),
    (0, 3),
)
REDUCERS = ("add", "multiply", "maximum", "minimum", "and", "or", "subtract")
ELEMENTWISE = tuple(
    name
    for name in sorted(OPCODES)
    if opcode_row(name).elementwise and not opcode_row(name).side_effect
)
SCALARS = (0.0, -0.0, 1.0, -1.0, 2.0, 3.0, 0.5, -0.5, -2.0, 4.0, 8.0, 1e30, np.inf, -np.inf, np.nan)
WHOLE = (0, 1, 2, 3, 4, -1, 16, 5)


class DoesNotFitError(Exception):
    """This drawing breaks off: another seed may do better."""


@dataclass(frozen=True)
class Hint:
    """What a rule needs that its pattern does not say.

    Attributes:
        opcodes: opcodes that the root is drawn from, if the pattern leaves it open.
        leaves: opcodes that open operands are often drawn from.
        dims: sizes of the result; () draws from all.
        dtypes: types of the result; () draws from all.
        operand_dtypes: types that a compare compares and a convert starts from; () draws from all.
        same: how often an open operand is one that is there already.
    """

    opcodes: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    dims: tuple[Dims, ...] = ()
    dtypes: tuple[DType, ...] = ()
    operand_dtypes: tuple[DType, ...] = ()
    same: float = 0.1


class RuleModule:
    """One drawing for `rule`; everything is decided by `seed`."""

    def __init__(self, rule: Rule, hint: Hint, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.hint = hint
        self.rule = rule
        self.finite = rule.exactness != "exact"
        self.module = Module("drawn")
        self.entry = self.module.add_computation("entry")
        self.b = Builder(self.entry)
        self.found: dict[str, Instruction] = {}
        self.leaves: list[Instruction] = []
        self.parameters = 0
        self.depth = 0

    def drawn(self) -> tuple[Module, Instruction]:
        """Return the module and the instruction that the rule may replace.

        Raises:
            DoesNotFitError: not this time.
            HloError: a shape rule is broken.
        """
        dims = self.one(self.hint.dims or DIMS)
        dtype = self.one(self.hint.dtypes or DTYPES)
        root = self.draw(self.rule.pattern, dtype, dims, root=True)
        self.entry.set_root(root)
        self.module.set_entry(self.entry)
        self.module.log.recording = True
        return self.module, root

    # ---- choosing

    def one(self, choices: Sequence[Any]) -> Any:
        if not choices:
            raise DoesNotFitError
        return choices[int(self.random.integers(len(choices)))]

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def layout(self, rank: int) -> Layout | None:
        """Row-major most of the time."""
        if rank < 2 or not self.chance(0.06):
            return None
        return Layout(tuple(int(d) for d in self.random.permutation(rank)))

    # ---- drawing a pattern

    def draw(self, pattern: P, dtype: DType, dims: Dims, *, root: bool = False) -> Instruction:
        """Return an instruction of `pattern`, `dtype` and `dims`."""
        if pattern.bind in self.found:
            known = self.found[pattern.bind]
            if known.shape.dtype is not dtype or known.array.dims != dims:  # type: ignore[union-attr]
                raise DoesNotFitError
            return known
        opcodes = pattern.opcodes or (self.hint.opcodes if root else ())
        if opcodes:
            inst = self.opcode(self.one(opcodes), pattern.operands, dtype, dims)
        elif root:
            raise DoesNotFitError
        else:
            inst = self.leaf(pattern.when, dtype, dims)
        if pattern.bind:
            self.found[pattern.bind] = inst
        return inst

    def leaf(
        self, when: Callable[[Instruction], bool] | None, dtype: DType, dims: Dims
    ) -> Instruction:
        for _ in range(12 if when is not None else 1):
            inst = self.value(dtype, dims, guarded=when is not None)
            if when is None or when(inst):
                self.leaves.append(inst)
                return inst
        raise DoesNotFitError

    def value(self, dtype: DType, dims: Dims, *, guarded: bool = False) -> Instruction:
        fitting = [i for i in self.leaves if (i.array.dtype, i.array.dims) == (dtype, dims)]
        if fitting and self.chance(self.hint.same):
            chosen: Instruction = self.one(fitting)
            return chosen
        if self.hint.leaves and self.depth < 2 and self.chance(0.75):
            self.depth += 1
            made = self.opcode(self.one(self.hint.leaves), None, dtype, dims)
            self.depth -= 1
            return made
        if self.chance(0.7 if guarded else 0.15):
            return self.splat(dtype, dims, negative=guarded or not self.finite)
        return self.parameter(dtype, dims)

    def parameter(self, dtype: DType, dims: Dims) -> Instruction:
        self.parameters += 1
        shape = ArrayShape(dtype, dims, self.layout(len(dims)))
        return self.b.parameter(self.parameters - 1, shape)

    def splat(self, dtype: DType, dims: Dims, *, negative: bool = True) -> Instruction:
        value = self.scalar(dtype)
        scalar = self.b.constant(value if negative else abs(value), dtype)
        return self.b.broadcast(scalar, dims, ()) if dims else scalar

    def scalar(self, dtype: DType) -> Any:
        """Return a number that rules look for."""
        with np.errstate(all="ignore"):
            if dtype.is_pred:
                return np.asarray(self.chance(0.5)).astype(dtype.numpy)
            if dtype.is_integer:
                low = -(2 ** (dtype.bits - 1)) if dtype.is_signed else 0
                high = low + 2**dtype.bits - 1
                value = self.one((*WHOLE, low, high))
                return np.asarray(min(max(value, low), high)).astype(dtype.numpy)
            value = self.one(SCALARS[:-4] if self.finite else SCALARS)
            return np.asarray(value).astype(dtype.numpy)

    # ---- one opcode

    def opcode(
        self, name: str, patterns: tuple[P, ...] | None, dtype: DType, dims: Dims
    ) -> Instruction:
        """Draw operands and attributes for `name` so that the result is `dtype` and `dims`."""
        special = getattr(self, "draw_" + name.replace("-", "_"), None)
        if special is not None:
            made: Instruction = special(patterns, dtype, dims)
        elif opcode_row(name).elementwise:
            made = self.elementwise(name, patterns, dtype, dims)
        else:
            raise DoesNotFitError
        if isinstance(made.shape, ArrayShape):
            if made.array.dims != dims or made.array.dtype is not dtype:
                raise DoesNotFitError
            if not opcode_row(name).elementwise or self.chance(0.3):
                self.entry.set_shape(made, made.array.with_layout(self.layout(len(dims))))
        return made

    def operands(
        self, patterns: tuple[P, ...] | None, wanted: Sequence[tuple[DType, Dims]]
    ) -> list[Instruction]:
        patterns = patterns or ()
        if len(patterns) > len(wanted):
            raise DoesNotFitError
        patterns += (P(),) * (len(wanted) - len(patterns))
        pairs = list(zip(patterns, wanted, strict=True))
        return [self.draw(p, dtype, dims) for p, (dtype, dims) in pairs]

    def elementwise(
        self, name: str, patterns: tuple[P, ...] | None, dtype: DType, dims: Dims
    ) -> Instruction:
        kind, count = dtype, opcode_row(name).arity
        assert isinstance(count, int), name
        if name in ("real", "imag"):
            kind = C64 if dtype is F32 and self.chance(0.8) else dtype
        elif name == "complex" or name == "is-finite":
            kind = F32
        return self.b.instruction(name, self.operands(patterns, [(kind, dims)] * count))

    def draw_convert(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        (x,) = self.operands(patterns, [(self.one(self.hint.operand_dtypes or DTYPES), dims)])
        return self.b.instruction("convert", (x,), shape=ArrayShape(dtype, dims))

    def draw_bitcast_convert(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        source = self.one(WIDTHS.get(dtype.bits, ()))
        (x,) = self.operands(patterns, [(source, dims)])
        return self.b.instruction("bitcast-convert", (x,), shape=ArrayShape(dtype, dims))

    def draw_compare(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        kind = self.one(self.hint.operand_dtypes or DTYPES)
        operands = self.operands(patterns, [(kind, dims)] * 2)
        order = "TOTALORDER" if kind.is_float and self.chance(0.3) else ""
        direction = self.one(("EQ", "NE", "LT", "LE", "GT", "GE"))
        return self.b.compare(operands[0], operands[1], direction, order)

    def draw_select(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        condition = dims if self.chance(0.7) else ()
        wanted = [(PRED, condition), (dtype, dims), (dtype, dims)]
        return self.b.instruction("select", self.operands(patterns, wanted))

    def draw_clamp(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        bound = dims if self.chance(0.5) else ()
        wanted = [(dtype, bound), (dtype, dims), (dtype, bound)]
        return self.b.instruction("clamp", self.operands(patterns, wanted))

    def draw_reduce_precision(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        operands = self.operands(patterns, [(dtype, dims)])
        return self.b.instruction(
            "reduce-precision",
            operands,
            exponent_bits=self.one((5, 8, 11)),
            mantissa_bits=self.one((7, 10, 23, 52)),
        )

    def draw_constant(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        if dtype.is_integer and dims and self.chance(0.2):
            rows = np.broadcast_to(np.arange(dims[-1]), dims)
            return self.b.constant(rows.astype(dtype.numpy), dtype)
        if self.chance(0.6):
            return self.b.constant(np.full(dims, self.scalar(dtype)), dtype)
        array = np.empty(dims, dtype.numpy)
        for place in np.ndindex(dims):
            array[place] = self.scalar(dtype)
        return self.b.constant(array, dtype)

    def draw_parameter(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        return self.parameter(dtype, dims)

    def draw_iota(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        if not dims:
            raise DoesNotFitError
        return self.b.iota(dtype, dims, int(self.random.integers(len(dims))))

    # ---- moves

    def draw_reshape(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        fitting = [d for d in DIMS if np.prod(d) == np.prod(dims)]
        place = int(self.random.integers(len(dims) + 1))
        more = ((*dims[:place], 1, *dims[place:]), tuple(d for d in dims if d != 1))
        (x,) = self.operands(patterns, [(dtype, self.one((*fitting, *more, *more)))])
        return self.b.instruction("reshape", (x,), shape=ArrayShape(dtype, dims))

    def draw_bitcast(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        (x,) = self.operands(patterns, [(dtype, dims[::-1])])
        return self.b.instruction("bitcast", (x,), shape=ArrayShape(dtype, dims))

    def draw_transpose(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        permutation = tuple(int(d) for d in self.random.permutation(len(dims)))
        source = tuple(dims[permutation.index(d)] for d in range(len(dims)))
        (x,) = self.operands(patterns, [(dtype, source)])
        return self.b.transpose(x, permutation)

    def draw_broadcast(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        kept = [d for d in range(len(dims)) if self.chance(0.6)]
        if self.chance(0.2):
            kept = [int(d) for d in self.random.permutation(kept)]
        (x,) = self.operands(patterns, [(dtype, tuple(dims[d] for d in kept))])
        return self.b.broadcast(x, dims, kept)

    def draw_reverse(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        (x,) = self.operands(patterns, [(dtype, dims)])
        return self.b.reverse(x, [d for d in range(len(dims)) if self.chance(0.5)])

    def draw_copy(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        (x,) = self.operands(patterns, [(dtype, dims)])
        return self.b.copy(x)

    def draw_slice(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        parts, sizes = [], []
        for size in dims:
            start, stride = (int(self.random.integers(0, n)) for n in (3, 3))
            stride = max(stride, 1)
            if self.chance(0.4):
                start, stride = 0, 1
            limit = start + (size - 1) * stride + 1 if size else start
            parts.append(SliceDimension(start, limit, stride))
            sizes.append(limit + (0 if self.chance(0.6) else int(self.random.integers(0, 3))))
        (x,) = self.operands(patterns, [(dtype, tuple(sizes))])
        return self.b.instruction("slice", (x,), slice=tuple(parts))

    def draw_pad(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        padding, sizes = [], []
        still = self.chance(0.2)
        for size in dims:
            source = size if still else int(self.random.integers(0, size + 4))
            interior = 0 if still else int(self.chance(0.2))
            low = 0 if still else int(self.random.integers(-2, 3))
            high = size - low - source - interior * max(source - 1, 0)
            padding.append(PaddingDimension(low, high, interior))
            sizes.append(source)
        x, value = self.operands(patterns, [(dtype, tuple(sizes)), (dtype, ())])
        return self.b.instruction("pad", (x, value), padding=tuple(padding))

    def draw_concatenate(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        if not dims:
            raise DoesNotFitError
        dim = int(self.random.integers(len(dims)))
        count = len(patterns) if patterns is not None else int(self.random.integers(1, 4))
        cuts = sorted(int(c) for c in self.random.integers(0, dims[dim] + 1, count - 1))
        edges = [0, *cuts, dims[dim]]
        sizes = [b - a for a, b in pairwise(edges)]
        if patterns is None and "slice" in self.hint.leaves:
            return self.b.concatenate(self.neighbours(dtype, dims, dim, sizes), dim)
        wanted = [(dtype, (*dims[:dim], size, *dims[dim + 1 :])) for size in sizes]
        return self.b.concatenate(self.operands(patterns, wanted), dim)

    def neighbours(
        self, dtype: DType, dims: Dims, dim: int, sizes: Sequence[int]
    ) -> list[Instruction]:
        """Return slices of one array, most of which follow each other along `dim`."""
        source = self.parameter(dtype, tuple(size + 2 for size in dims))
        made, start = [], 1
        for size in sizes:
            starts = [1] * len(dims)
            starts[dim] = start
            limits = [s + n for s, n in zip(starts, dims, strict=True)]
            limits[dim] = start + size
            made.append(self.b.slice(source, starts, limits))
            start += size if self.chance(0.9) else 0
        return made

    def draw_dynamic_slice(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        sizes = tuple(n if self.chance(0.5) else n + 2 for n in dims)
        wanted = [(dtype, sizes), *[(S32, ())] * len(dims)]
        x, *starts = self.operands(patterns, wanted)
        return self.b.dynamic_slice(x, starts, dims)

    def draw_dynamic_update_slice(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        sizes = dims
        if self.chance(0.7):
            sizes = tuple(int(self.random.integers(0, n + 1)) for n in dims)
        wanted = [(dtype, dims), (dtype, sizes), *[(S32, ())] * len(dims)]
        x, update, *starts = self.operands(patterns, wanted)
        return self.b.dynamic_update_slice(x, update, starts)

    # ---- contractions and reductions

    def draw_get_dimension_size(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        source = self.one([d for d in DIMS if d])
        (x,) = self.operands(patterns, [(F32, source)])
        return self.b.instruction(
            "get-dimension-size", (x,), dimensions=(int(self.random.integers(len(source))),)
        )

    def reducer(self, dtype: DType) -> Computation:
        made = [
            c
            for c in self.module.computations
            if c.has_root and c is not self.entry and c.root.shape == ArrayShape(dtype)
        ]
        if made and self.chance(0.7):
            known: Computation = self.one(made)
            return known
        name = self.one(("and", "or") if dtype.is_pred else REDUCERS)
        computation = self.module.add_computation(f"f{len(self.module.computations)}")
        b = Builder(computation)
        pair = [b.parameter(n, ArrayShape(dtype)) for n in (0, 1)]
        computation.set_root(b.instruction(name, pair[:: -1 if self.chance(0.3) else 1]))
        return computation

    def draw_reduce(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        sizes, places = list(dims), list[int]()
        for _ in range(int(self.random.integers(0, 3))):
            place = int(self.random.integers(len(sizes) + 1))
            sizes.insert(place, self.one((1, 1, 2, 3, 0)))
            places = [p + (p >= place) for p in places] + [place]
        operands = self.operands(patterns, [(dtype, tuple(sizes)), (dtype, ())])
        return self.b.reduce(operands[:1], operands[1:], sorted(places), self.reducer(dtype))

    def draw_dot(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        batch = int(self.random.integers(0, len(dims) + 1)) if self.chance(0.4) else 0
        cut = int(self.random.integers(batch, len(dims) + 1))
        contracted = tuple(self.one((1, 1, 2, 3, 0)) for _ in range(self.random.integers(0, 3)))
        lhs, lhs_attributes = self.side("lhs", dims[:batch], dims[batch:cut], contracted)
        rhs, rhs_attributes = self.side("rhs", dims[:batch], dims[cut:], contracted)
        x, y = self.operands(patterns, [(dtype, lhs), (dtype, rhs)])
        return self.b.dot(x, y, **lhs_attributes, **rhs_attributes)

    def side(
        self, side: str, batch: Dims, free: Dims, contracted: Dims
    ) -> tuple[Dims, dict[str, Dims]]:
        """Return the sizes of an operand whose batch and contracted dimensions lie anywhere."""
        sizes = (*batch, *contracted, *free)
        bound_count = len(batch) + len(contracted)
        order = [int(d) for d in self.random.permutation(len(sizes))]
        kept = iter([d for d in range(len(sizes)) if order[d] >= bound_count])
        place = {order[d]: d for d in range(len(sizes))}
        for dim in range(bound_count, len(sizes)):
            place[dim] = next(kept)  # free dimensions keep their order
        laid = [0] * len(sizes)
        for dim, size in enumerate(sizes):
            laid[place[dim]] = size
        bound = [place[dim] for dim in range(bound_count)]
        return tuple(laid), {
            f"{side}_batch_dims": tuple(bound[: len(batch)]),
            f"{side}_contracting_dims": tuple(bound[len(batch) :]),
        }

    # ---- tuples

    def draw_get_tuple_element(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        place = int(self.random.integers(2))
        values = [self.value(F32, (2,)), self.value(F32, (2,))]
        values[place] = self.value(dtype, dims)
        pair = self.b.tuple(values)
        return self.b.get_tuple_element(pair, place)

    def draw_tuple(self, patterns: Any, dtype: DType, dims: Dims) -> Instruction:
        source = self.b.tuple([self.value(dtype, dims), self.value(F32, (2,))])
        return self.b.tuple([self.b.get_tuple_element(source, place) for place in (0, 1)])
