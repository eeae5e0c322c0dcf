"""Make sparse operands of convolutions dense."""

from __future__ import annotations

from dataclasses import replace

from hloc.dtypes import S64
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.block_sparsity import SIDES, BlockSparsity, sparsities
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander
from hloc.shapes import ArrayShape


@dataclass(frozen=True)
class SparseConvolutionExpander(Expander):
    """Replace a convolution with sparse operands by one of dense operands.

    Each stored value is compared with the positions of its block. Cost: the memory of
    the dense operand, and the multiplications by its zeros.
    """

    acts_on = frozenset({"convolution"})

    def when(self, inst: Instruction) -> bool:
        """Replace those with a `sparsity_config`."""
        return bool(sparsities(inst.attributes.sparsity_config))

    def expand(self, inst: Instruction) -> Instruction:
        found, b = sparsities(inst.attributes.sparsity_config), Builder(inst.computation)
        sides = [
            _whole(b, inst, number, found[side]) if side in found else inst.operands[number]
            for number, side in enumerate(SIDES)
        ]
        attributes = replace(inst.attributes, sparsity_config=None)
        return inst.computation.add(
            inst.opcode, inst.shape, sides, attributes, common=inst.common, span=inst.span
        )


def _whole(b: Builder, inst: Instruction, number: int, sparsity: BlockSparsity) -> Instruction:
    values, places = inst.operands[number], inst.operands[sparsity.places]
    rank, dim = values.array.rank, sparsity.dimension + 1
    dims = (*values.array.dims[:dim], sparsity.block, *values.array.dims[dim:])
    kept = [d for d in range(rank + 1) if d != dim]
    spread = b.broadcast(b.convert(places, S64), dims, kept)
    is_here = b.compare(spread, b.iota(S64, dims, dim), "EQ")
    zero = b.splat(0, ArrayShape(values.array.dtype, dims))
    whole = b.select(is_here, b.broadcast(values, dims, kept), zero)
    return b.reshape(whole, sparsity.dense_dims(values.array.dims))
