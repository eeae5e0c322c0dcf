"""Remove batching dimensions from gathers and scatters."""

from __future__ import annotations

from dataclasses import replace

from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander, is_static
from hloc.opt.library.indexing.gather_simplifier import gather_places
from hloc.opt.library.indexing.index_vectors import without_batching
from hloc.opt.library.indexing.scatter_simplifier import scatter_places


class BatchedGatherScatterNormalizer(Expander):
    """Put the positions along batching dimensions into the index vectors, as an iota.

    Exact. Indices that are too narrow for the positions are converted. Cost: O(instructions) and a
    copy of the indices. Not in -O2: hloc's kernels take batching dimensions. Source: XLA's pass of
    this name.
    """

    acts_on = frozenset({"gather", "scatter"})

    def when(self, inst: Instruction) -> bool:
        a = inst.attributes
        batching = a.operand_batching_dims if inst.is_a("gather") else a.input_batching_dims
        return is_static(inst) and bool(batching)

    def expand(self, inst: Instruction) -> Instruction:
        """Turn each batching dimension into an ordinary one whose index is the batch's position."""
        b, a = Builder(inst.computation), inst.attributes
        if inst.is_a("gather"):
            old = gather_places(inst)
            new = without_batching(b, old)
            attributes = replace(
                a,
                collapsed_slice_dims=tuple(sorted((*a.collapsed_slice_dims, *old.batching))),
                start_index_map=new.index_map,
                operand_batching_dims=(),
                start_indices_batching_dims=(),
                index_vector_dim=new.vector_dim,
                indices_are_sorted=False,
            )
        else:
            old = scatter_places(inst)
            new = without_batching(b, old)
            attributes = replace(
                a,
                inserted_window_dims=tuple(sorted((*a.inserted_window_dims, *old.batching))),
                scatter_dims_to_operand_dims=new.index_map,
                input_batching_dims=(),
                scatter_indices_batching_dims=(),
                index_vector_dim=new.vector_dim,
                indices_are_sorted=False,
            )
        operands = [new.indices if x is old.indices else x for x in inst.operands]
        return inst.computation.add(
            inst.opcode, inst.shape, operands, attributes, inst.called, common=inst.common
        )
