"""Expand topk into a stable sort of values and indices, and slices."""

from __future__ import annotations

from hloc.dtypes import S32
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander, is_static, tuple_like
from hloc.shapes import ArrayShape


class TopkDecomposer(Expander):
    """Replace `topk` by iota, a stable sort by total order and slices.

    Exact, ties and NaN too. Cost: O(1) instructions each. Not in -O2: hloc has a kernel for topk.
    Source: XLA's pass of this name.
    """

    acts_on = frozenset({"topk"})

    def when(self, inst: Instruction) -> bool:
        return is_static(inst)

    def expand(self, inst: Instruction) -> Instruction:
        b = Builder(inst.computation)
        (x,) = inst.operands
        dims = x.array.dims
        last = len(dims) - 1
        places = b.iota(S32, dims, last)
        comparator = _comparator(inst)
        found = b.instruction(
            "sort", (x, places), called=(comparator,), dimensions=(last,), is_stable=True
        )
        limits = (*dims[:last], inst.attributes.k)
        starts = [0] * len(dims)
        parts = [b.slice(b.get_tuple_element(found, i), starts, limits) for i in range(2)]
        return tuple_like(b, inst, parts)


def _comparator(inst: Instruction) -> Computation:
    """Return the order of the results: larger, or smaller, values first."""
    dtype = inst.operands[0].array.dtype
    b = Builder(inst.computation.module.add_computation(inst.name + ".order"))
    value, place = ArrayShape(dtype), ArrayShape(S32)
    x, y, *_ = (b.parameter(n, s) for n, s in enumerate((value, value, place, place)))
    kind = "TOTALORDER" if dtype.is_float else ""
    direction = "GT" if inst.attributes.largest else "LT"
    b.computation.set_root(b.compare(x, y, direction, kind))
    return b.computation
