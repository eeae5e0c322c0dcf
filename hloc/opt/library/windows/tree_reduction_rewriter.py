"""Split long reductions in two stages: blocks, then their results."""

from __future__ import annotations

from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander, is_static
from hloc.opt.windows.regrouping import Regrouping, is_regroupable, regrouping_of
from hloc.shapes import ArrayShape, TupleShape


@dataclass(frozen=True)
class TreeReductionRewriter(Expander):
    """Split every reduced dimension longer than `window_size` into blocks that are reduced first.

    Reassociates sums of floats, with a smaller error. Needs an associative reducer (regrouping.py).
    Cost: O(instructions). Not in -O2: hloc's kernels already sum in blocks, and the partial results
    would go through memory. Source: XLA's pass of this name.
    """

    acts_on = frozenset({"reduce"})
    window_size: int = 32

    def when(self, inst: Instruction) -> bool:
        dims = inst.operands[0].array.dims
        longest = max((dims[d] for d in inst.attributes.dimensions), default=0)
        return is_static(inst) and 0 not in dims and longest > self._size and is_regroupable(inst)

    @property
    def _size(self) -> int:
        return max(2, self.window_size)

    def expand(self, inst: Instruction) -> Instruction:
        b, regrouping = Builder(inst.computation), regrouping_of(inst.called[0])
        assert regrouping is not None
        count = len(inst.operands) // 2
        neutral = regrouping.identities(b, inst.operands[count:])
        arrays = list(inst.operands[:count])
        for dim in inst.attributes.dimensions:
            if arrays[0].array.dims[dim] > self._size:
                arrays = _pieces(b, inst, regrouping, arrays, neutral, dim, self._size)
        dims, reducer = inst.attributes.dimensions, inst.called[0]
        return _restored(b, inst, b.reduce(arrays, inst.operands[count:], dims, reducer))


def _pieces(
    b: Builder,
    inst: Instruction,
    regrouping: Regrouping,
    arrays: list[Instruction],
    neutral: list[Instruction],
    dim: int,
    size: int,
) -> list[Instruction]:
    """Return the arrays with each piece of `size` elements along `dim` reduced to one."""
    dims = arrays[0].array.dims
    pieces = -(-dims[dim] // size)
    low, high = [0] * len(dims), [0] * len(dims)
    high[dim] = pieces * size - dims[dim]
    cut = (*dims[:dim], pieces, size, *dims[dim + 1 :])
    parts = []
    for x, fill in zip(arrays, neutral, strict=True):
        whole = b.pad(x, fill, low, high) if high[dim] else x
        parts.append(b.reshape(whole, cut))
    found = b.reduce(parts, neutral, [dim + 1], inst.called[0])
    if not isinstance(found.shape, TupleShape):
        return [found]
    return [b.get_tuple_element(found, i) for i in range(len(regrouping.types))]


def _restored(b: Builder, inst: Instruction, found: Instruction) -> Instruction:
    """Return `found` with the layouts of `inst`."""
    if not isinstance(inst.shape, TupleShape) or found.shape == inst.shape:
        return found
    parts = []
    for i, shape in enumerate(inst.shape.elements):
        assert isinstance(shape, ArrayShape)
        parts.append(b.instruction("copy", (b.get_tuple_element(found, i),), shape=shape))
    return b.tuple(parts)
