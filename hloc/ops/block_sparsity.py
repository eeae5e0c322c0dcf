"""Sparse operands of convolutions: of each block of elements one is stored, with its position.

    sparsity_config={rhs={sparsity=1x4 dimension=0 stride=1 idx=2}}

Operand 2 holds the positions in blocks of 4 of the values in operand 1, along dimension 0.
Text before August 2026 has no `idx`; there the operand is a tuple of values and positions, which
the parser splits.
Source: `MaterializeSparseOperand` in XLA's `literal_util.cc`.
"""

from __future__ import annotations

import re
from functools import cache
from math import prod

import numpy as np

from hloc.dtypes import Array
from hloc.ir.attributes import RawText
from hloc.ir.opcode import Operands, ShapeRequest
from hloc.lazy_dataclass import dataclass
from hloc.ops.checks import require
from hloc.shapes import ArrayShape, Shape

SIDES = ("lhs", "rhs")
_MOST_ELEMENTS = 2**40
_SIDE = re.compile(r"(lhs|rhs)\s*=\s*\{([^{}]*)\}")
_FIELD = re.compile(r"(sparsity|dimension|stride|idx)\s*=\s*(-?[0-9]{1,18})(?:x([0-9]{1,18}))?")


@dataclass(frozen=True, slots=True)
class BlockSparsity:
    """One of `block` elements along `dimension` is stored; `places` is their operand."""

    stored: int
    block: int
    dimension: int
    stride: int
    places: int

    def dense_dims(self, dims: tuple[int, ...]) -> tuple[int, ...]:
        """Return the dimensions of the whole array, of which `dims` are stored."""
        return tuple(d * self.block if i == self.dimension else d for i, d in enumerate(dims))


def with_places(config: RawText, side: str, places: int) -> RawText:
    """Return the text with `idx=` for a side that has none."""
    return RawText(
        _SIDE.sub(
            lambda m: f"{m[1]}={{{m[2].strip()} idx={places}}}" if m[1] == side else m[0],
            config.text,
        )
    )


def sparsities(config: RawText | None) -> dict[str, BlockSparsity]:
    """Return the sparsity of each side; `places` is 0 without `idx`."""
    return _sparsities(config.text) if config is not None else {}


@cache
def _sparsities(text: str) -> dict[str, BlockSparsity]:
    found = {}
    for side, fields in _SIDE.findall(text):
        values = {name: (int(a), int(b or 0)) for name, a, b in _FIELD.findall(fields)}
        stored, block = values.get("sparsity", (0, 0))
        rest = (values.get(name, (0, 0))[0] for name in ("dimension", "stride", "idx"))
        found[side] = BlockSparsity(stored, block, *rest)
    return found


def dense_operands(name: str, request: ShapeRequest) -> tuple[Shape, ...]:
    """Return the shapes of both sides as whole arrays; HloError for positions that do not match."""
    operands, found = request.operands, sparsities(request.attributes.sparsity_config)
    require(len(operands) >= 2, f"{name}: expected at least 2 operands, but found {len(operands)}")
    used = [s.places for s in found.values() if s.places]
    require(
        len(set(used)) == len(used), f"{name}: both sides take their places from operand {used[:1]}"
    )
    require(
        set(range(2, len(operands))) == set(used),
        f"{name}: operands {list(range(2, len(operands)))} behind the first two do not match idx= "
        f"of the sparsity_config, {sorted(used)}",
    )
    return tuple(
        _dense(name, side, operands[number], operands, found[side]) if side in found else shape
        for number, (side, shape) in enumerate(zip(SIDES, operands, strict=False))
    )


def _dense(
    name: str, side: str, shape: Shape, operands: tuple[Shape, ...], sparsity: BlockSparsity
) -> Shape:
    """Return the shape of the operand named `side` with all elements, stored and omitted.

    Raises:
        HloError: the operand of positions or the configuration is not one that XLA takes.
    """
    known = 2 <= sparsity.places < len(operands)
    require(known, f"{name}: no operand idx={sparsity.places} has the places of the {side}")
    values, places = shape, operands[sparsity.places]
    fits = (
        isinstance(values, ArrayShape)
        and isinstance(places, ArrayShape)
        and places.dims == values.dims
        and places.dtype.is_integer
    )
    require(
        fits,
        f"{name}: the {side} is sparse, so its places are integers of the dimensions of "
        f"{values.text_without_layout}, not {places.text_without_layout}",
    )
    assert isinstance(values, ArrayShape)
    require(
        sparsity.stored == 1 and sparsity.stride == 1 and sparsity.block > 0,
        f"{name}: one element of each block can be stored, with stride 1, not "
        f"{sparsity.stored} of {sparsity.block} with stride {sparsity.stride}",
    )
    require(
        0 <= sparsity.dimension < values.rank,
        f"{name}: the sparse dimension {sparsity.dimension} of {values.text_without_layout} is not "
        "there",
    )
    dims = sparsity.dense_dims(values.dims)
    require(prod(dims) < _MOST_ELEMENTS, f"{name}: the whole {side} has too many elements")
    return ArrayShape(values.dtype, dims)


def whole_arrays(config: RawText | None, operands: Operands) -> tuple[Array, Array]:
    """Return both sides as whole arrays.

    A position outside of its block stores nothing.
    """
    found = sparsities(config)
    lhs, rhs = (
        _whole(operand, operands, found[side]) if side in found else operand
        for side, operand in zip(SIDES, operands, strict=False)
    )
    return lhs, rhs


def _whole(operand: Array, operands: Operands, sparsity: BlockSparsity) -> Array:
    values, places = operand, operands[sparsity.places]
    dim = sparsity.dimension + 1
    block = np.arange(sparsity.block).reshape(-1, *[1] * (values.ndim - dim))
    is_here = np.expand_dims(places.astype(np.int64), dim) == block
    dense = np.where(is_here, np.expand_dims(values, dim), np.zeros((), values.dtype))
    return np.asarray(dense.reshape(sparsity.dense_dims(values.shape)))
