"""Expand select-and-scatter into a reduce-window of indices and a scatter."""

from __future__ import annotations

from math import prod

import numpy as np

from hloc.dtypes import PRED, S32, S64, DType
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander, is_static
from hloc.shapes import ArrayShape


class SelectAndScatterExpander(Expander):
    """Replace `select-and-scatter` by a reduce-window of (value, index) and a scatter.

    An index is the row-major position of the element, -1 for an empty window, which the scatter
    skips. Ties go to the first element in the window, as without the pass. Cost: O(1) instructions
    each. Not in -O2: hloc has a kernel that needs no array of indices. Source: XLA's pass of this
    name.
    """

    acts_on = frozenset({"select-and-scatter"})

    def when(self, inst: Instruction) -> bool:
        return is_static(inst)

    def expand(self, inst: Instruction) -> Instruction:
        """Find the index of the element that each window selects; scatter the sources there.

        The operand is flattened: one index per window, `s32[windows,1]` (`s64` from 2^31 elements
        on).
        """
        b = Builder(inst.computation)
        operand, source, init = inst.operands
        dims, dtype = operand.array.dims, operand.array.dtype
        total = prod(dims)
        place_type = S32 if total < 2**31 else S64
        flat = b.reshape(b.iota(place_type, (total,)), dims) if dims else b.constant(0, place_type)
        inits = (b.constant(np.zeros((), dtype.numpy), dtype), b.constant(-1, place_type))
        chooser = _chooser(inst.called[0], dtype, place_type)
        found = b.instruction(
            "reduce-window",
            (operand, flat, *inits),
            called=(chooser,),
            window=inst.attributes.window,
        )
        places = b.get_tuple_element(found, 1)
        windows = source.array.elements
        filled = b.broadcast(b.convert(init, dtype), (total,))
        updates = b.convert(b.reshape(source, (windows,)), dtype)
        indices = b.reshape(places, (windows, 1))
        combiner = _swapped(inst.called[1])
        result = b.instruction(
            "scatter",
            (filled, indices, updates),
            called=(combiner,),
            update_window_dims=(),
            inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0,),
            index_vector_dim=1,
        )
        return b.reshape(result, dims)


def _chooser(select: Computation, dtype: DType, place_type: DType) -> Computation:
    """Return the reducer of (value, place) pairs; place -1 stands for nothing found yet."""
    b = Builder(select.module.add_computation(select.name + ".place"))
    value, place = ArrayShape(dtype), ArrayShape(place_type)
    x, i, y, j = (b.parameter(n, s) for n, s in enumerate((value, place, value, place)))
    none = b.constant(-1, place_type)
    some, other_none = b.compare(i, none, "NE"), b.compare(j, none, "EQ")
    keeps = b.call((x, y), select)
    assert keeps.array.dtype is PRED
    first = b.logical_or(b.logical_and(some, keeps), other_none)
    b.computation.set_root(b.tuple([b.select(first, x, y), b.select(first, i, j)]))
    return b.computation


def _swapped(scatter: Computation) -> Computation:
    """Return the combiner of a scatter, which takes the current value first."""
    b = Builder(scatter.module.add_computation(scatter.name + ".swapped"))
    source, current = scatter.parameters
    here, update = b.parameter(0, current.shape), b.parameter(1, source.shape)
    b.computation.set_root(b.call((update, here), scatter))
    return b.computation
