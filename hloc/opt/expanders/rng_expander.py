"""Expand rng into random bits and arithmetic.

The stream is that of `hloc/ops/rng.py`.
"""

from __future__ import annotations

import numpy as np

from hloc.dtypes import F32, F64, PRED, S64, U32, U64, DType
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander
from hloc.shapes import ArrayShape, TupleShape


class RngExpander(Expander):
    """Replace `rng` by `rng-bit-generator` whose state is a constant: the instruction's id."""

    acts_on = frozenset({"rng"})

    def expand(self, inst: Instruction) -> Instruction:
        """Return `inst.array.dims` random elements of the distribution.

        - `pred`: the low bit of random bits; integers: low + bits modulo (high - low);
        - `rng_normal`: mean + deviation * normal;
        - `rng_uniform`: low + (high - low) * [0, 1); a result that rounds up to high becomes low.
        """
        b, dtype, dims = Builder(inst.computation), inst.array.dtype, inst.array.dims
        low, high = inst.operands
        if dtype.is_pred:
            one = _filled(b, 1, U32, dims)
            odd = b.logical_and(_bits(b, inst.uid, dims, U32), one)
            return b.convert(odd, PRED)
        if dtype.is_integer:
            return _integers(b, inst)
        wide = F64 if dtype.bits >= 64 else F32
        start, end = b.convert(low, wide), b.convert(high, wide)
        if inst.attributes.distribution == "rng_normal":
            spread = b.multiply(_normal(b, inst.uid, dims, wide), b.broadcast(end, dims))
            return b.convert(b.add(spread, b.broadcast(start, dims)), dtype)
        width = b.broadcast(b.subtract(end, start), dims)
        scaled = b.multiply(_unit(b, inst.uid, dims, wide), width)
        drawn = b.convert(b.add(scaled, b.broadcast(start, dims)), dtype)
        inside = b.compare(drawn, b.broadcast(high, dims), "LT")
        return b.select(inside, drawn, b.broadcast(low, dims))


def _bits(b: Builder, key: int, dims: tuple[int, ...], dtype: DType) -> Instruction:
    state = b.constant(np.array([key, 0], np.uint64), U64)
    shape = TupleShape((state.shape, ArrayShape(dtype, dims)))
    both = b.instruction("rng-bit-generator", (state,), shape=shape, algorithm="rng_three_fry")
    return b.get_tuple_element(both, 1)


def _filled(b: Builder, value: float, dtype: DType, dims: tuple[int, ...]) -> Instruction:
    return b.broadcast(b.constant(np.asarray(value, dtype.numpy), dtype), dims)


def _unit(b: Builder, key: int, dims: tuple[int, ...], wide: DType) -> Instruction:
    """Return numbers from [0, 1)."""
    bits, drop, kept = (U64, 11, 53) if wide is F64 else (U32, 8, 24)
    words = b.instruction(
        "shift-right-logical", (_bits(b, key, dims, bits), _filled(b, drop, bits, dims))
    )
    return b.multiply(b.convert(words, wide), _filled(b, 2.0**-kept, wide, dims))


def _normal(b: Builder, key: int, dims: tuple[int, ...], wide: DType) -> Instruction:
    """Return normal numbers: a random radius and a random angle."""
    pair = _unit(b, key, (2, *dims), wide)
    first, second = (_half(b, pair, i, dims) for i in range(2))
    logarithm = b.log(b.subtract(_filled(b, 1, wide, dims), first))
    radius = b.sqrt(b.multiply(_filled(b, -2, wide, dims), logarithm))
    angle = b.multiply(second, _filled(b, 2 * np.pi, wide, dims))
    return b.multiply(radius, b.instruction("cosine", (angle,)))


def _half(b: Builder, pair: Instruction, number: int, dims: tuple[int, ...]) -> Instruction:
    starts = [number, *(0 for _ in dims)]
    return b.reshape(b.slice(pair, starts, [number + 1, *dims]), dims)


def _integers(b: Builder, inst: Instruction) -> Instruction:
    dtype, dims = inst.array.dtype, inst.array.dims
    low, high = inst.operands
    through = S64 if dtype.is_signed else U64
    start, end = (b.convert(b.convert(x, through), U64) for x in (low, high))
    one = b.constant(1, U64)
    count = b.select(b.compare(low, high, "LT"), b.subtract(end, start), one)
    rest = b.remainder(_bits(b, inst.uid, dims, U64), b.broadcast(count, dims))
    drawn = b.add(rest, b.broadcast(start, dims))
    return b.convert(b.convert(drawn, through), dtype)
