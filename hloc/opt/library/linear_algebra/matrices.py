"""Small steps on stacks of matrices, `[..., rows, columns]`."""

from __future__ import annotations

from typing import Any

from hloc.dtypes import S32, component_of
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.shapes import ArrayShape


def conjugated(b: Builder, x: Instruction) -> Instruction:
    """Return the complex conjugate; `x` itself if it is real."""
    if not x.array.dtype.is_complex:
        return x
    real, imaginary = real_part(b, x), b.instruction("imag", (x,))
    return b.instruction("complex", (real, b.negate(imaginary)))


def real_part(b: Builder, x: Instruction) -> Instruction:
    """Return the real part; `x` itself if it is real."""
    return b.instruction("real", (x,)) if x.array.dtype.is_complex else x


def swapped(b: Builder, x: Instruction) -> Instruction:
    """Return every matrix transposed."""
    rank = x.array.rank
    return b.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def filled(b: Builder, like: Instruction, value: Any) -> Instruction:
    """Return an array of the sizes and type of `like`, full of `value`."""
    return b.broadcast(b.constant(value, like.array.dtype), like.array.dims)


def place(b: Builder, dims: tuple[int, ...], dim: int) -> Instruction:
    """Return the s32 index along `dim`."""
    return b.iota(S32, dims, dim)


def spread(b: Builder, scalar: Instruction, dims: tuple[int, ...]) -> Instruction:
    """Return a scalar as an array."""
    return b.broadcast(scalar, dims)


def starts_at(
    b: Builder, rank: int, *, row: Instruction | None = None, column: Instruction | None = None
) -> list[Instruction]:
    """Return start indices of a slice at a row or a column of every matrix."""
    zero = b.constant(0, S32)
    return [*[zero] * (rank - 2), row or zero, column or zero]


def products(b: Builder, x: Instruction, y: Instruction) -> Instruction:
    """Return the products of matrices `[..., m, k]` and `[..., k, n]`."""
    rank = x.array.rank
    batch = tuple(range(rank - 2))
    return b.dot(
        x,
        y,
        lhs_batch_dims=batch,
        rhs_batch_dims=batch,
        lhs_contracting_dims=(rank - 1,),
        rhs_contracting_dims=(rank - 2,),
    )


def as_complex(b: Builder, real: Instruction, like: Instruction) -> Instruction:
    """Return `real` in the type of `like`, which is real or complex."""
    dtype = like.array.dtype
    if not dtype.is_complex:
        return real
    shape = ArrayShape(component_of(dtype), real.array.dims)
    zero = b.broadcast(b.constant(0, shape.dtype), shape.dims)
    return b.instruction("complex", (real, zero))
