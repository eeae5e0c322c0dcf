"""A counted while loop, for passes that expand an instruction into a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from hloc.dtypes import S32
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder

Step: TypeAlias = Callable[[Builder, Instruction, list[Instruction]], list[Instruction]]
"""Adds one round, given the counter and the present state; returns the next state."""


def counted_loop(
    b: Builder, name: str, rounds: int, state: Sequence[Instruction], step: Step
) -> list[Instruction]:
    """Add a while loop of `rounds` rounds and return the state after the last, row-major arrays."""
    module = b.computation.module
    first = b.tuple([b.constant(0, S32), *(_row_major(b, x) for x in state)])
    c = Builder(module.add_computation(name + ".condition"))
    counter = c.get_tuple_element(c.parameter(0, first.shape), 0)
    c.computation.set_root(c.compare(counter, c.constant(rounds, S32), "LT"))
    d = Builder(module.add_computation(name + ".body"))
    before = d.parameter(0, first.shape)
    counter = d.get_tuple_element(before, 0)
    parts = [d.get_tuple_element(before, 1 + i) for i in range(len(state))]
    after = step(d, counter, parts)
    d.computation.set_root(d.tuple([d.add(counter, d.constant(1, S32)), *after]))
    loop = b.instruction("while", (first,), called=(c.computation, d.computation))
    return [b.get_tuple_element(loop, 1 + i) for i in range(len(state))]


def _row_major(b: Builder, x: Instruction) -> Instruction:
    shape = x.array.with_layout(None)
    return x if x.shape == shape else b.instruction("copy", (x,), shape=shape)


def row_of(b: Builder, array: Instruction, counter: Instruction) -> Instruction:
    """Return `array[counter]`, without the first dimension."""
    dims = array.array.dims
    zero = b.constant(0, S32)
    starts = [counter, *[zero] * (len(dims) - 1)]
    return b.reshape(b.dynamic_slice(array, starts, (1, *dims[1:])), dims[1:])


def scalars_of(b: Builder, vector: Instruction) -> list[Instruction]:
    """Return the elements of a vector."""
    (size,) = vector.array.dims
    return [b.reshape(b.slice(vector, [i], [i + 1]), ()) for i in range(size)]
