"""Expand scan into a while loop over slices of the inputs and outputs."""

from __future__ import annotations

import numpy as np

from hloc.dtypes import S32
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander, tuple_like
from hloc.shapes import ArrayShape, TupleShape


class ScanExpander(Expander):
    """Replace `scan` by `while`; the state is (step, carries, outputs, inputs)."""

    acts_on = frozenset({"scan"})

    def expand(self, inst: Instruction) -> Instruction:
        """Loop over the scanned dimension; outputs begin as zeros and are filled step by step."""
        b = Builder(inst.computation)
        split = len(inst.operands) - inst.attributes.num_carries
        inputs, carries = inst.operands[:split], inst.operands[split:]
        assert isinstance(inst.shape, TupleShape)
        shapes = inst.shape.elements[: len(inst.shape.elements) - len(carries)]
        outputs = []
        for shape in shapes:
            assert isinstance(shape, ArrayShape)
            outputs.append(
                b.broadcast(b.constant(np.zeros((), shape.dtype.numpy), shape.dtype), shape.dims)
            )
        (dim,) = inst.attributes.dimensions
        steps = inputs[0].array.dims[dim]
        if not steps:
            return tuple_like(b, inst, [*outputs, *carries])
        first = b.tuple([b.constant(0, S32), *carries, *outputs, *inputs])
        condition = inst.computation.module.add_computation(inst.name + ".condition")
        c = Builder(condition)
        state = c.parameter(0, first.shape)
        condition.set_root(c.compare(c.get_tuple_element(state, 0), c.constant(steps, S32), "LT"))
        body = inst.computation.module.add_computation(inst.name + ".body")
        assert isinstance(first.shape, TupleShape)
        _write_step(Builder(body), inst, first.shape, len(outputs), steps)
        loop = b.instruction("while", (first,), called=(condition, body))
        carried = [b.get_tuple_element(loop, 1 + i) for i in range(len(carries))]
        stacked = [b.get_tuple_element(loop, 1 + len(carries) + i) for i in range(len(outputs))]
        return tuple_like(b, inst, [*stacked, *carried])


def _write_step(
    b: Builder, inst: Instruction, state_shape: TupleShape, outputs: int, steps: int
) -> None:
    """Write the loop's body."""
    (dim,) = inst.attributes.dimensions
    carries = inst.attributes.num_carries
    state = b.parameter(0, state_shape)
    step = b.get_tuple_element(state, 0)
    parts = [b.get_tuple_element(state, i) for i in range(1, len(state_shape.elements))]
    carried, stacked, inputs = (
        parts[:carries],
        parts[carries : carries + outputs],
        parts[carries + outputs :],
    )
    place = step
    if inst.attributes.is_reverse:
        place = b.subtract(b.constant(steps - 1, S32), step)
    zero = b.constant(0, S32)
    slices = []
    for array in inputs:
        dims = array.array.dims
        starts = [place if d == dim else zero for d in range(len(dims))]
        sizes = [1 if d == dim else n for d, n in enumerate(dims)]
        part = b.dynamic_slice(array, starts, sizes)
        slices.append(b.reshape(part, [n for d, n in enumerate(dims) if d != dim]))
    result = b.call([*carried, *slices], inst.called[0])
    values = [result]
    if isinstance(result.shape, TupleShape):
        values = [b.get_tuple_element(result, i) for i in range(len(result.shape.elements))]
    written = []
    for array, value in zip(stacked, values, strict=False):
        dims = array.array.dims
        wide = b.reshape(value, [1 if d == dim else n for d, n in enumerate(dims)])
        starts = [place if d == dim else zero for d in range(len(dims))]
        written.append(b.dynamic_update_slice(array, wide, starts))
    after = b.add(step, b.constant(1, S32))
    b.computation.set_root(b.tuple([after, *values[outputs:], *written, *inputs]))
