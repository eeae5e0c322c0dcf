"""The walk of the partitioner: turns each instruction on whole arrays into its local form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.sharding import LeafSharding
from hloc.ir.traversal import post_order
from hloc.ops.factors import factor_rule
from hloc.ops.rows.custom_call import batch_dims
from hloc.opt.spmd.annotations import (
    CONSTRAINTS,
    IDENTITIES,
    TO_GLOBAL,
    TO_LOCAL,
    shardings_of,
    target_of,
)
from hloc.opt.spmd.assignment import choose
from hloc.opt.spmd.called_computations import inlined, partition_conditional, partition_while
from hloc.opt.spmd.combine import combined, is_combinable
from hloc.opt.spmd.local import local_instruction
from hloc.opt.spmd.partitioners.table import PARTITIONERS
from hloc.opt.spmd.region import Maker, Region, Value
from hloc.opt.spmd.region_boundaries import into_region, out_of_region
from hloc.opt.spmd.region_instructions import (
    constrained,
    copied_unchanged,
    free_tiling,
    is_independent_of_free_axes,
    on_every_device,
)
from hloc.opt.spmd.reshard import reshard
from hloc.opt.spmd.tiling import Mesh, Tiling
from hloc.opt.spmd.trees import (
    Tree,
    leaf_shapes,
    manual_of,
    parameter_of,
    plain_tiling,
    tiling_at,
    tree_of,
    values_of,
)
from hloc.shapes import ArrayShape

_MOST_STEPS = 8
"""Longest chain of instructions recomputed instead of gathering their result."""


class Walk:
    """The partitioning of one computation."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.trees: dict[Instruction, Tree] = {}

    @property
    def mesh(self) -> Mesh:
        return self.region.mesh

    def run(self, computation: Computation) -> Tree:
        """Partition the instructions of `computation`, and return the value of its root."""
        for inst in post_order(computation):
            if inst not in self.trees:
                self.region.origin = inst
                self.trees[inst] = self._instruction(inst)
            found = self.trees[inst]
            if isinstance(found, Value):
                self.region.names.setdefault(found.inst, inst.name)
        self.region.origin = None
        return self.trees[computation.root]

    def parameter(self, inst: Instruction) -> Tree:
        """Add a parameter of the entry with the shapes of one device."""
        shapes = leaf_shapes(inst.shape)
        tilings = [
            tiling_at(self.region, s, a) for s, a in zip(shardings_of(inst), shapes, strict=True)
        ]
        return parameter_of(self.region, inst, tilings, annotate=True)

    # ---- instructions

    def _instruction(self, inst: Instruction) -> Tree:
        """Return the local value of `inst`; tuples are trees of the values of their elements.

        Instructions in a manual region (`shard_map`) are written for one device already. If they
        are manual over all axes they are copied; over some axes, the partitioner works on the
        others.
        """
        if inst.is_a("tuple"):
            return tuple(self.trees[operand] for operand in inst.operands)
        if inst.is_a("get-tuple-element"):
            source = self.trees[inst.operands[0]]
            assert isinstance(source, tuple)
            return source[int(inst.attributes.index)]
        operands = [self.trees[operand] for operand in inst.operands]
        target = target_of(inst)
        if target in TO_LOCAL:
            return into_region(self.region, inst, operands)
        if target in TO_GLOBAL:
            return out_of_region(self.region, inst, operands)
        if inst.is_a("call"):
            return inlined(partition_into, self.region, inst, operands)
        manual = manual_of(operands)
        if manual == frozenset(self.mesh.axes):
            return copied_unchanged(self.region, inst, operands)
        if inst.is_a("opt-barrier"):
            return operands[0]
        outside, self.region.manual = self.region.manual, manual
        found = self._partitioned(inst, operands)
        self.region.manual = outside
        for value in values_of([found]):
            value.manual |= manual
        return found

    def _partitioned(self, inst: Instruction, operands: Sequence[Tree]) -> Tree:
        target = target_of(inst)
        if target in CONSTRAINTS or target in IDENTITIES:
            return self._constrained(inst, operands)
        if inst.is_a("while"):
            return partition_while(partition_into, self.region, inst, operands)
        if inst.is_a("conditional"):
            return partition_conditional(partition_into, self.region, inst, operands)
        if inst.is_a("partition-id"):
            return self._whole(inst, operands)
        values = [tree for tree in operands if isinstance(tree, Value)]
        if len(values) == len(operands) and is_independent_of_free_axes(self.region, inst):
            return self._split(inst, values, None)
        if len(values) < len(operands) or not _is_partitionable(inst):
            return self._whole(inst, operands)
        return self._parts(inst, values)

    def _parts(self, inst: Instruction, values: list[Value]) -> Tree:
        """Compute `inst` in parts, as its factor rule allows."""
        arrays = [array for array in leaf_shapes(inst.shape) if isinstance(array, ArrayShape)]
        given = shardings_of(inst)[0]
        wanted = self._given(given, arrays[0].rank)
        special = PARTITIONERS.get(inst.opcode.name)
        if special is not None:
            found = special(self.region, inst, values, wanted)
            if found is not None:
                return found
        tree = self._split(inst, values, wanted)
        if isinstance(tree, Value):
            tree.make = self._maker(inst, values)
        return self._wanted(tree, wanted)

    def _maker(self, inst: Instruction, values: list[Value]) -> Maker | None:
        """Return a function that computes `inst` from replicated values; None if too expensive."""
        steps = 1 + max((value.make.steps for value in values if value.make), default=0)
        is_cheap = inst.opcode.elementwise or inst.is_a("broadcast", "iota", "reshape", "transpose")
        at_hand = all(value.make or value.tiling.is_replicated for value in values)
        if not is_cheap or not at_hand or steps > _MOST_STEPS:
            return None

        def make(target: Tiling) -> Value:
            origin, self.region.origin = self.region.origin, inst
            found = self._wanted(self._split(inst, values, target), target)
            self.region.origin = origin
            assert isinstance(found, Value)
            return found

        return Maker(make, steps)

    def _split(self, inst: Instruction, values: list[Value], wanted: Tiling | None) -> Tree:
        """Compute `inst` in parts by its factor rule, preferring `wanted`."""
        arrays = [array for array in leaf_shapes(inst.shape) if isinstance(array, ArrayShape)]
        rule = factor_rule(inst)
        if rule.reductions and not is_combinable(inst):
            rule = replace(rule, reductions=frozenset(), operands=tuple(
                tuple(-1 if f in rule.reductions else f for f in factors)
                for factors in rule.operands
            ))  # fmt: skip
        size = sum(array.size_bytes for array in arrays)
        assignment = choose(rule, values, wanted, size, arrays[0].dims, self.mesh)
        operands = [
            reshard(self.region, value, assignment.tiling(factors))
            for value, factors in zip(values, rule.operands, strict=True)
        ]
        if assignment.reduced(rule):
            return combined(self.region, inst, operands, rule, assignment, wanted)
        local = local_instruction(self.region, inst, [v.inst for v in operands], rule, assignment)
        tilings: list[Tiling | None] = [assignment.tiling(factors) for factors in rule.results]
        return tree_of(self.region, local, inst.shape, tilings)

    def _wanted(self, tree: Tree, wanted: Tiling | None) -> Tree:
        if wanted is not None and isinstance(tree, Value):
            return reshard(self.region, tree, wanted)
        return tree

    def _whole(self, inst: Instruction, operands: Sequence[Tree]) -> Tree:
        """Compute `inst` on every device from whole operands."""
        tree = on_every_device(self.region, inst, operands)
        given = shardings_of(inst)
        if isinstance(tree, Value) and given and given[0] is not None:
            return self._wanted(tree, self._given(given[0], tree.whole.rank))
        return tree

    def _given(self, sharding: LeafSharding | None, rank: int) -> Tiling | None:
        """Return the annotated tiling of an array; in a region, along its free axes."""
        if sharding is None:
            return None
        if not self.region.manual:
            return plain_tiling(sharding, self.mesh, rank)
        return free_tiling(self.region, sharding, rank)

    def _constrained(self, inst: Instruction, operands: Sequence[Tree]) -> Tree:
        if self.region.manual or any(target_of(user) in TO_LOCAL for user in inst.users):
            return constrained(self.region, inst, operands)
        wanted = list(shardings_of(inst))

        def change(tree: Tree) -> Tree:
            if isinstance(tree, tuple):
                return tuple(change(part) for part in tree)
            sharding = wanted.pop(0)
            if isinstance(tree, Instruction) or sharding is None:
                return tree
            found = plain_tiling(sharding, self.mesh, tree.whole.rank)
            return tree if found is None else reshard(self.region, tree, found)

        tree = operands[0] if len(operands) == 1 else tuple(operands)
        return change(tree)


def partition_into(
    region: Region, computation: Computation, values: Mapping[Instruction, Tree]
) -> Tree:
    """Partition `computation`, whose parameters have `values`, into `region`."""
    walk = Walk(region)
    walk.trees.update(values)
    return walk.run(computation)


def _is_partitionable(inst: Instruction) -> bool:
    """True if the instruction has arrays only, and depends only on its operands."""
    return not (
        inst.opcode.side_effect
        or inst.opcode.ended_by
        or (inst.is_a("custom-call") and not _works_on_batches(inst))
        or inst.is_a("rng", "rng-bit-generator", "fusion", "constant", "domain")
        or inst.opcode.exchange is not None
    )


def _works_on_batches(inst: Instruction) -> bool:
    return not inst.attributes.custom_call_has_side_effect and batch_dims(inst) > 0
