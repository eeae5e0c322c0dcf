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
    """Write the row of `source` along `dim` at `at`, several elements at a time if possible.

    The last elements of a row that is no whole number of vectors are computed first, in a vector
    that overlaps the one before, and written last: the source may read elements that it overwrites.
    """
    lanes = lanes_of(k)
    size, index, rest = source.array.dims[dim], list(at), list(at)
    if lanes is None or size < lanes.count:
        k.is_final = False
        with k.body.loop(0, size) as index[dim]:
            store(index, k.read(source, tuple(index)))
        return
    whole = size - size % lanes.count
    with lanes.inside():
        if whole < size:
            rest[dim] = lanes.at(size - lanes.count)
            value = k.read(source, tuple(rest))
    with lanes.loop(0, whole, whole) as index[dim]:
        store(index, k.read(source, tuple(index)))
    with lanes.inside():
        if whole < size:
            store(rest, value)
