"""Builders that read and write rows of an array by their numbers, for passes about sparse data."""

from __future__ import annotations

from hloc.ir.attributes import Window, WindowDimension
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder


def gather_rows(b: Builder, table: Instruction, rows: Instruction) -> Instruction:
    """Add the rows of `table` with the numbers `rows[n]`; numbers beyond it are clamped."""
    dims = table.array.dims
    return b.gather(
        table,
        rows,
        offset_dims=tuple(range(1, len(dims))),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=1,
        slice_sizes=(1, *dims[1:]),
    )


def scatter_rows(
    b: Builder,
    table: Instruction,
    rows: Instruction,
    updates: Instruction,
    combiner: Computation,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> Instruction:
    """Add `table` with rows combined with updates; numbers of rows beyond it have no effect."""
    return b.scatter(
        table,
        rows,
        updates,
        called=(combiner,),
        update_window_dims=tuple(range(1, table.array.rank)),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
    )


def running(b: Builder, opcode: str, x: Instruction, start: Instruction) -> Instruction:
    """Add the cumulative fold of `x[n]`: sums for `add`, the largest so far for `maximum`."""
    (size,) = x.array.dims
    window = Window((WindowDimension(size=size, pad_low=size - 1),))
    fold = b.scalar_function(opcode, x.array.dtype)
    return b.reduce_window(x, start, window=window, called=(fold,))
