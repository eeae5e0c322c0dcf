"""How instructions with attributes are drawn: all their attributes within small numbers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, permutations, product
from math import prod
from typing import Any

import numpy as np

from hloc.dtypes import DTYPES, PRED, S32, DType
from hloc.ir.attributes import PaddingDimension, SliceDimension
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ops.builder import Builder
from hloc.opt.pattern import P
from hloc.opt.rule import Rule
from hloc.shapes import ArrayShape
from tests.prove.bounds import Bound, Dims, constants
from tests.prove.choices import Choices, DoesNotFitError
from tests.prove.drawing import Drawer, Drawing, Patterns
from tests.prove.hints import Hint

_DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")
_SOURCES = tuple(
    DTYPES[name]
    for name in (
        *("pred", "s4", "u4", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"),
        *("f8e5m2", "bf16", "f16", "f32"),
    )
)


def draw(
    rule: Rule, hint: Hint, kind: DType, bound: Bound, choices: Choices
) -> tuple[Module, Instruction]:
    """Return a module and the instruction in it that `rule` may replace.

    Raises:
        DoesNotFitError: these picks break a shape rule, or nothing has the type `kind`.
    """
    return Drawing(rule, hint, kind, bound, choices, DRAWERS).drawn()


def _subsets(items: Iterable[int]) -> tuple[Dims, ...]:
    known = tuple(items)
    return tuple(s for size in range(len(known) + 1) for s in combinations(known, size))


def _most(d: Drawing, small: tuple[Any, ...], large: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return few options where several dimensions multiply them."""
    return large if d.bound.rank <= 1 else small


# ---------------------------------------------------------------- values


def _compare(d: Drawing, patterns: Patterns, _dtype: DType, dims: Dims) -> Instruction:
    if d.hint.against_constants:
        (x,) = d.operands(patterns, [(d.kind, dims)])
        y = d.known(d.kind, dims)
    else:
        x, y = d.operands(patterns, [(d.kind, dims)] * 2)
    order = d.pick(("", "TOTALORDER")) if d.kind.is_float else ""
    return d.b.compare(x, y, d.pick(_DIRECTIONS), order)


def _convert(d: Drawing, patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    source = d.pick(tuple(dict.fromkeys((dtype, *(d.hint.sources or _SOURCES)))))
    (x,) = d.operands(patterns, [(source, dims)])
    return d.b.instruction("convert", (x,), shape=ArrayShape(dtype, dims))


def _select(d: Drawing, patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    condition = d.pick((dims, ()) if dims else ((),))
    wanted = [(PRED, condition), (dtype, dims), (dtype, dims)]
    return d.b.instruction("select", d.operands(patterns, wanted))


def _clamp(d: Drawing, patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    bound = d.pick((dims, ()) if dims else ((),))
    wanted = [(dtype, bound), (dtype, dims), (dtype, bound)]
    return d.b.instruction("clamp", d.operands(patterns, wanted))


def _bitcast_convert(d: Drawing, patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    sources = [t for t in DTYPES.values() if t.bits == dtype.bits and not t.is_complex]
    (x,) = d.operands(patterns, [(d.pick(sources), dims)])
    return d.b.instruction("bitcast-convert", (x,), shape=ArrayShape(dtype, dims))


def _reduce_precision(d: Drawing, patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    exponent_bits, mantissa_bits = d.pick((2, 4, 5, 8)), d.pick((0, 2, 7, 10))
    return d.b.instruction(
        "reduce-precision",
        d.operands(patterns, [(dtype, dims)]),
        exponent_bits=exponent_bits,
        mantissa_bits=mantissa_bits,
    )


def _constant(d: Drawing, _patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    """Draw an array of one value, or one that counts along a dimension."""
    along = d.pick((-1, *range(len(dims))))
    if along < 0:
        value = np.asarray(d.pick(constants(dtype, d.places)))
        return d.b.constant(np.broadcast_to(value, dims), dtype)
    return d.b.constant(np.indices(dims)[along].astype(dtype.numpy), dtype)


def _iota(d: Drawing, _patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    return d.b.iota(dtype, dims, d.pick(range(len(dims))))


# ---------------------------------------------------------------- moves


def _reshape(d: Drawing, patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    wider = Bound(d.bound.rank + 1, d.bound.sizes).dims()
    (x,) = d.operands(patterns, [(dtype, d.pick([s for s in wider if prod(s) == prod(dims)]))])
    return d.b.reshape(x, dims)


def _bitcast(d: Drawing, patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    fitting = [source for source in d.bound.dims() if prod(source) == prod(dims)]
    (x,) = d.operands(patterns, [(dtype, d.pick(fitting))])
    return d.b.bitcast(x, ArrayShape(dtype, dims))


def _transpose(d: Drawing, patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    order = d.pick(tuple(permutations(range(len(dims)))))
    source = tuple(dims[order.index(dim)] for dim in range(len(dims)))
    (x,) = d.operands(patterns, [(dtype, source)])
    return d.b.transpose(x, order)


def _broadcast(d: Drawing, patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    kept = d.pick(tuple(p for s in _subsets(range(len(dims))) for p in permutations(s)))
    (x,) = d.operands(patterns, [(dtype, tuple(dims[dim] for dim in kept))])
    return d.b.broadcast(x, dims, kept)


def _reverse(d: Drawing, patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    chosen = d.pick(_subsets(range(len(dims))))
    (x,) = d.operands(patterns, [(dtype, dims)])
    return d.b.reverse(x, chosen)


def _copy(d: Drawing, patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    return d.b.copy(*d.operands(patterns, [(dtype, dims)]))


def _slice(d: Drawing, patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    parts, sizes = [], []
    for size in dims:
        start, stride, after = d.pick(
            _most(
                d,
                ((0, 1, 0), (1, 1, 0), (0, 2, 1)),
                tuple(product((0, 1, 2), (1, 2, 3), (0, 1))),
            )
        )
        limit = start + (size - 1) * stride + 1 if size else start
        parts.append(SliceDimension(start, limit, stride))
        sizes.append(limit + after)
    (x,) = d.operands(patterns, [(dtype, tuple(sizes))])
    return d.b.instruction("slice", (x,), slice=tuple(parts))


def _pad(d: Drawing, patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    padding, sizes = [], []
    for size in dims:
        source, low, interior = d.pick(
            _most(
                d,
                (
                    (size, 0, 0),
                    (max(size - 1, 0), 1, 0),
                    (size + 1, -1, 0),
                    (max(size - 1, 0), 0, 1),
                ),
                tuple(product(range(size + 2), (-1, 0, 2), (0, 1))),
            )
        )
        high = size - low - source - interior * max(source - 1, 0)
        padding.append(PaddingDimension(low, high, interior))
        sizes.append(source)
    x, value = d.operands(patterns, [(dtype, tuple(sizes)), (dtype, ())])
    return d.b.instruction("pad", (x, value), padding=tuple(padding))


def _concatenate(d: Drawing, patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    dim = d.pick(range(len(dims)))
    counts: tuple[int, ...] = (1, 2) if d.nested else (1, 2, 3)
    counts = counts if patterns is None else (len(patterns),)
    sizes = d.pick([s for n in counts for s in _parts(dims[dim], n)])
    wanted = [(dtype, (*dims[:dim], size, *dims[dim + 1 :])) for size in sizes]
    if "neighbours" in d.hint.leaves:
        return d.b.concatenate(_neighbours(d, dtype, dims, dim, sizes), dim)
    return d.b.concatenate(d.operands(patterns, wanted), dim)


def _parts(total: int, count: int) -> list[Dims]:
    if count == 1:
        return [(total,)]
    return [(n, *rest) for n in range(total + 1) for rest in _parts(total - n, count - 1)]


def _neighbours(d: Drawing, dtype: DType, dims: Dims, dim: int, sizes: Dims) -> list[Instruction]:
    """Return slices of one array, each of which follows the one before or repeats its place."""
    source = d.parameter(dtype, tuple(size + 1 for size in dims))
    made, start = [], d.pick((0, 1))
    for size in sizes:
        starts = [start if at == dim else 1 for at in range(len(dims))]
        limits = [s + n for s, n in zip(starts, dims, strict=True)]
        limits[dim] = start + size
        made.append(d.b.slice(source, starts, limits))
        start += size if d.pick((True, False)) else 0
    return made


# ---------------------------------------------------------------- computed places


def _dynamic_slice(d: Drawing, patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    sizes = tuple(size + d.pick((0, 1, 2)) for size in dims)
    wanted = [(dtype, sizes), *[(S32, ())] * len(dims)]
    x, *starts = d.operands(patterns, wanted)
    return d.b.dynamic_slice(x, starts, dims)


def _dynamic_update_slice(d: Drawing, patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    sizes = tuple(d.pick(range(size + 1)) for size in dims)
    wanted = [(dtype, dims), (dtype, sizes), *[(S32, ())] * len(dims)]
    x, update, *starts = d.operands(patterns, wanted)
    return d.b.dynamic_update_slice(x, update, starts)


# ---------------------------------------------------------------- contractions and reductions


def _get_dimension_size(d: Drawing, patterns: Patterns, _dtype: DType, _dims: Dims) -> Instruction:
    source = d.pick([dims for dims in d.bound.dims() if dims])
    (x,) = d.operands(patterns, [(S32, source)])
    dim = d.pick(range(len(source)))
    return d.b.instruction("get-dimension-size", (x,), dimensions=(dim,))


def _reducer(d: Drawing, dtype: DType) -> Computation:
    names: tuple[str, ...] = ("add", "multiply", "maximum", "and", "subtract", "or")
    if dtype.is_pred:
        names = ("and", "or", "xor", "maximum")
    elif not dtype.is_integer:
        names = ("add", "maximum", "subtract")
    name = d.pick(names)
    known = [c for c in d.module.computations if c.name == name]
    return known[0] if known else Builder(d.b.computation).scalar_function(name, dtype, name)


def _reduce(d: Drawing, patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    options: list[tuple[Dims, Dims]] = []  # sizes of the operand, reduced dimensions
    for count in range(3 if len(d.bound.sizes) == 2 and d.bound.rank <= 2 else 2):
        for places in combinations(range(len(dims) + count), count):
            few = (1, 2) if "init" in d.hint.leaves else d.bound.sizes
            for sizes in product(few, repeat=count):
                kept, gone = iter(dims), iter(sizes)
                rank = len(dims) + count
                whole = tuple(next(gone if dim in places else kept) for dim in range(rank))
                options.append((whole, places))
    whole, places = d.pick(options)
    if prod(whole) > 2 * d.bound.elements:
        raise DoesNotFitError
    reducer = _reducer(d, dtype)
    if "init" in d.hint.leaves:
        (x,) = d.operands((patterns or ())[:1], [(dtype, whole)])
        init = d.b.constant(d.pick((0, 1)), dtype)
        d.bind((patterns or (P(), P()))[1], init)
    else:
        x, init = d.operands(patterns, [(dtype, whole), (dtype, ())])
    return d.b.reduce((x,), (init,), places, reducer)


def _dot(d: Drawing, patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    cuts = [(b, c) for b in range(min(len(dims), 1) + 1) for c in range(b, len(dims) + 1)]
    batch, cut = d.pick(cuts)
    contracted = d.pick(((), (0,), (1,), (2,), (1, 2), (2, 2))[: 6 if d.bound.rank <= 1 else 4])
    lhs, lhs_attributes = _side(d, "lhs", dims[:batch], dims[batch:cut], contracted)
    rhs, rhs_attributes = _side(d, "rhs", dims[:batch], dims[cut:], contracted)
    x, y = d.operands(patterns, [(dtype, lhs), (dtype, rhs)])
    return d.b.dot(x, y, **lhs_attributes, **rhs_attributes)


def _side(
    d: Drawing, side: str, batch: Dims, free: Dims, contracted: Dims
) -> tuple[Dims, dict[str, Dims]]:
    """Return the sizes of an operand whose batch and contracted dimensions lie anywhere."""
    sizes = (*batch, *contracted, *free)
    bound = len(batch) + len(contracted)
    # order[i] is the place of dimension i; free dimensions keep their order
    orders = [o for o in permutations(range(len(sizes))) if list(o[bound:]) == sorted(o[bound:])]
    order = d.pick(orders)
    laid = [0] * len(sizes)
    for dim, size in enumerate(sizes):
        laid[order[dim]] = size
    return tuple(laid), {
        f"{side}_batch_dims": order[: len(batch)],
        f"{side}_contracting_dims": order[len(batch) : bound],
    }


# ---------------------------------------------------------------- tuples


def _get_tuple_element(d: Drawing, _patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    place = d.pick((0, 1))
    pair = [d.parameter(dtype, dims), d.parameter(S32, (2,))]
    return d.b.get_tuple_element(d.b.tuple(pair[:: -1 if place else 1]), place)


def _tuple(d: Drawing, _patterns: Patterns, dtype: DType, dims: Dims) -> Instruction:
    source = d.b.tuple([d.parameter(dtype, dims), d.parameter(S32, (2,))])
    return d.b.tuple([d.b.get_tuple_element(source, place) for place in (0, 1)])


DRAWERS: dict[str, Drawer] = {
    "compare": _compare,
    "convert": _convert,
    "select": _select,
    "clamp": _clamp,
    "bitcast-convert": _bitcast_convert,
    "reduce-precision": _reduce_precision,
    "constant": _constant,
    "iota": _iota,
    "reshape": _reshape,
    "bitcast": _bitcast,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "reverse": _reverse,
    "copy": _copy,
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "get-dimension-size": _get_dimension_size,
    "reduce": _reduce,
    "dot": _dot,
    "get-tuple-element": _get_tuple_element,
    "tuple": _tuple,
}
