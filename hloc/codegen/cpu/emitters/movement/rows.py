"""Loops over the elements of an array whose results go to another place of the output."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.lanes import lanes_of
from hloc.ir.instruction import Instruction

Store = Callable[[Sequence[IndexValue], Value], None]
"""Writes the value, or the vector of values, of the element at an index of the source."""


def write_row(
    k: KernelContext, source: Instruction, dim: int, at: Sequence[IndexValue], store: Store
) -> None:
    """Write the row of `source` along `dim` at `at`, several elements at a time if possible."""
    write_rows(k, [(source, store)], dim, at)


def write_rows(
    k: KernelContext,
    rows: Sequence[tuple[Instruction, Store]],
    dim: int,
    at: Sequence[IndexValue],
) -> None:
    """Write rows of equal length in one loop, which computes what they have in common once.

    The last elements of rows that are no whole number of vectors are computed first, in a vector
    that overlaps the one before, and written last: the sources may read elements that they
    overwrite.
    """
    lanes = lanes_of(k)
    size, index, rest = rows[0][0].array.dims[dim], list(at), list(at)
    if lanes is None or size < lanes.count:
        k.is_final = False
        with k.body.loop(0, size) as index[dim]:
            for source, store in rows:
                store(index, k.read(source, tuple(index)))
        return
    whole = size - size % lanes.count
    with lanes.inside():
        if whole < size:
            rest[dim] = lanes.at(size - lanes.count)
            values = [k.read(source, tuple(rest)) for source, _ in rows]
    with lanes.loop(0, whole, whole) as index[dim]:
        for source, store in rows:
            store(index, k.read(source, tuple(index)))
    with lanes.inside():
        if whole < size:
            for (_, store), value in zip(rows, values, strict=True):
                store(rest, value)
