"""Shared by gather and scatter passes: index vectors, batching dimensions, window order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from hloc.dtypes import S32, S64, DType
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.builder import Builder


@dataclass(frozen=True, slots=True)
class Places:
    """How index vectors define the starts of windows in an operand.

    Attributes:
        indices: integers `[batch...]` with the index vectors along `vector_dim`, or without such a
            dimension if that is the rank.
        index_map: the operand dimension of each entry of a vector.
        batching: operand dimensions that go along with those of the indices in `indices_batching`.
    """

    indices: Instruction
    vector_dim: int
    index_map: tuple[int, ...]
    batching: tuple[int, ...]
    indices_batching: tuple[int, ...]

    @property
    def batch_dims(self) -> tuple[int, ...]:
        """Sizes of the indices without the index vectors."""
        dims = self.indices.array.dims
        return dims[: self.vector_dim] + dims[self.vector_dim + 1 :]


def without_batching(b: Builder, places: Places) -> Places:
    """Return `places` with the positions along batching dimensions as entries of the vectors."""
    if not places.batching:
        return places
    indices, vector_dim = _explicit(b, places)
    sizes = [indices.array.dims[dim] for dim in places.indices_batching]
    indices = b.convert(indices, _wide_enough(indices.array.dtype, max(sizes)))
    dims = list(indices.array.dims)
    dims[vector_dim] = 1
    counts = [b.iota(indices.array.dtype, dims, dim) for dim in places.indices_batching]
    joined = b.concatenate([*counts, indices], vector_dim)
    return Places(joined, vector_dim, (*places.batching, *places.index_map), (), ())


def _explicit(b: Builder, places: Places) -> tuple[Instruction, int]:
    """Return the indices with a dimension for the vectors, and that dimension."""
    dims = places.indices.array.dims
    if places.vector_dim < len(dims):
        return places.indices, places.vector_dim
    return b.reshape(places.indices, (*dims, 1)), len(dims)


def _wide_enough(dtype: DType, size: int) -> DType:
    """Return an integer type for the values of `dtype` and those below `size`."""
    if size <= 2 ** (dtype.bits - int(dtype.is_signed)):
        return dtype
    return S32 if dtype.bits < 32 and size < 2**31 else S64


def flat_vectors(b: Builder, places: Places) -> Instruction:
    """Return the index vectors as rows, `[count, entries]`; batching dimensions must be gone."""
    assert not places.batching
    indices, vector_dim = _explicit(b, places)
    rank = indices.array.rank
    if vector_dim != rank - 1:
        order = [dim for dim in range(rank) if dim != vector_dim]
        indices = b.transpose(indices, [*order, vector_dim])
    rows = (prod(places.batch_dims), len(places.index_map))
    return indices if indices.array.dims == rows else b.reshape(indices, rows)


def operand_order(places: Places, rank: int) -> list[int]:
    """Return the dimensions of the operand, those named by the vectors first."""
    rest = [dim for dim in range(rank) if dim not in places.index_map]
    return [*places.index_map, *rest]


def moved(b: Builder, x: Instruction, order: Sequence[int]) -> Instruction:
    """Return `x` transposed; `x` itself if nothing moves."""
    return x if list(order) == sorted(order) else b.transpose(x, order)


def inverse(order: Sequence[int]) -> list[int]:
    """Return the permutation that undoes `order`."""
    return [list(order).index(dim) for dim in range(len(order))]


def with_expanded(
    result: Instruction, opcode: str, expand: Callable[[Instruction], Instruction]
) -> Instruction:
    """Expand the `opcode` below `result`, reached by first operands, and return the new result."""
    simple = result
    while not simple.is_a(opcode):
        simple = simple.operands[0]
    expanded = expand(simple)
    simple.computation.replace(simple, expanded)
    simple.computation.remove(simple)
    return expanded if result is simple else result
