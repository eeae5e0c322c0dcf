"""The walk of the partitioner: from each instruction of whole arrays to its local form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from hloc.errors import UnsupportedError
from hloc.ir.attributes import NO_COMMON
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.sharding import LeafSharding, TupleSharding
from hloc.ir.traversal import post_order
from hloc.ops.factors import factor_rule
from hloc.opt.spmd.annotations import (
    CONSTRAINTS,
    IDENTITIES,
    TO_GLOBAL,
    TO_LOCAL,
    shardings_of,
    target_of,
)
from hloc.opt.spmd.assignment import choose
from hloc.opt.spmd.combine import combined, is_combinable
from hloc.opt.spmd.families import FAMILIES
from hloc.opt.spmd.local import local_array, local_instruction
from hloc.opt.spmd.mesh_axes import tiling_of
from hloc.opt.spmd.region import Maker, Region, Value
from hloc.opt.spmd.reshard import reshard
from hloc.opt.spmd.tiling import Mesh, Tiling
from hloc.shapes import ArrayShape, Shape, TupleShape

Tree: TypeAlias = "Value | Instruction | tuple[Tree, ...]"
"""The value of an instruction: an array, a token, or a tuple of these."""


_MOST_STEPS = 8
"""How many instructions in a row are computed again instead of gathering their result."""

_ROUNDS = 3
"""How often the tilings of the state of a loop are tried."""


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

    # ---- parameters and results

    def parameter(self, inst: Instruction) -> Tree:
        """Add a parameter of the entry with the shapes of one device."""
        tilings = [
            self._tiling(s, a) for s, a in zip(shardings_of(inst), _arrays(inst.shape), strict=True)
        ]
        return self.parameter_of(inst, tilings, annotate=True)

    def parameter_of(
        self, inst: Instruction, tilings: Sequence[Tiling | None], *, annotate: bool = False
    ) -> Tree:
        """Add a parameter whose arrays have `tilings`; None is of an array on one device."""
        pending = list(tilings)
        shape = _local_shape(inst.shape, pending)
        common = NO_COMMON.with_metadata(inst.common.metadata)
        if annotate and tilings:
            leaves = tuple(t.sharding() if t else LeafSharding("replicated") for t in tilings)
            single = isinstance(inst.shape, ArrayShape)
            common = replace(common, sharding=leaves[0] if single else TupleSharding(leaves))
        added = self.region.computation.add(
            inst.opcode, shape, (), inst.attributes, name=inst.name, common=common, span=inst.span
        )
        return self.tree(added, inst.shape, list(tilings))

    def tree(
        self, inst: Instruction, whole: Shape, tilings: list[Tiling | None], depth: int = 1
    ) -> Tree:
        """Return the value of `inst`, taking a tiling from the front of the list per array."""
        if isinstance(whole, TupleShape):
            b = self.region.build
            return tuple(
                self.tree(b.get_tuple_element(inst, i), part, tilings, depth)
                for i, part in enumerate(whole.elements)
            )
        assert isinstance(whole, ArrayShape)
        tiling = tilings.pop(0)
        if whole.dtype.is_special:
            return inst
        if tiling is None:
            return Value(inst, whole, self.region.whole(whole.rank), depth)
        return Value(inst, whole, tiling)

    def local(
        self, tree: Tree, wanted: Sequence[LeafSharding | None]
    ) -> tuple[Instruction, list[Tiling | None]]:
        """Return `tree` as one instruction, and the tilings of its arrays.

        Args:
            tree: the value.
            wanted: the sharding of each array; None leaves it as it is, or whole.
        """
        pending, used = list(wanted), list[Tiling | None]()

        def build(part: Tree) -> Instruction:
            if isinstance(part, tuple):
                return self.region.build.tuple([build(inner) for inner in part])
            sharding = pending.pop(0) if pending else None
            if isinstance(part, Instruction):
                used.append(None)
                return part
            target = part.tiling if sharding is None else self._tiling(sharding, part.whole)
            assert target is not None
            found = reshard(self.region, part, target)
            used.append(None if found.is_manual else found.tiling)
            return found.inst

        return build(tree), used

    def fresh(self, inst: Instruction) -> Instruction:
        """Return a copy of `inst`, so that it can be annotated as the root."""
        if isinstance(inst.shape, TupleShape):
            b = self.region.build
            count = len(inst.shape.elements)
            return b.tuple([b.get_tuple_element(inst, i) for i in range(count)])
        return self.region.build.instruction("copy", (inst,))

    def _tiling(self, sharding: LeafSharding | None, shape: ArrayShape) -> Tiling | None:
        if shape.dtype.is_special:
            return None
        if sharding is None:
            return self.region.whole(shape.rank)
        found = plain_tiling(sharding, self.mesh, shape.rank)
        return self.region.whole(shape.rank) if found is None else found

    # ---- instructions

    def _instruction(self, inst: Instruction) -> Tree:
        if inst.is_a("tuple"):
            return tuple(self.trees[operand] for operand in inst.operands)
        if inst.is_a("get-tuple-element"):
            source = self.trees[inst.operands[0]]
            assert isinstance(source, tuple)
            return source[int(inst.attributes.index)]
        operands = [self.trees[operand] for operand in inst.operands]
        target = target_of(inst)
        if target in TO_LOCAL:
            return self._into_region(inst, operands)
        if target in TO_GLOBAL:
            return self._out_of_region(inst, operands)
        if any(_has_manual(tree) for tree in operands):
            is_call = inst.is_a("call")
            return self._called(inst, operands) if is_call else self._as_it_is(inst, operands)
        if target in CONSTRAINTS or target in IDENTITIES:
            return self._constrained(inst, operands)
        if inst.is_a("call"):
            return self._called(inst, operands)
        if inst.is_a("while"):
            return self._loop(inst, operands)
        if inst.is_a("conditional"):
            return self._branches(inst, operands)
        if inst.is_a("opt-barrier"):
            return operands[0]
        if inst.is_a("partition-id"):
            return self._whole(inst, operands)
        values = [tree for tree in operands if isinstance(tree, Value)]
        if len(values) < len(operands) or not _is_partitionable(inst):
            return self._whole(inst, operands)
        return self._parts(inst, values)

    def _parts(self, inst: Instruction, values: list[Value]) -> Tree:
        """Compute `inst` in parts, as its factor rule allows."""
        arrays = [array for array in _arrays(inst.shape) if isinstance(array, ArrayShape)]
        given = shardings_of(inst)[0]
        wanted = plain_tiling(given, self.mesh, arrays[0].rank) if given is not None else None
        special = FAMILIES.get(inst.opcode.name)
        if special is not None:
            found = special(self.region, inst, values, wanted)
            if found is not None:
                return found
        tree = self._split(inst, values, wanted)
        if isinstance(tree, Value):
            tree.make = self._maker(inst, values)
        return self._wanted(tree, wanted)

    def _maker(self, inst: Instruction, values: list[Value]) -> Maker | None:
        """Return what computes `inst` from what every device has; None if that is too much."""
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
        """Compute `inst` in parts by its factor rule, best for `wanted`."""
        arrays = [array for array in _arrays(inst.shape) if isinstance(array, ArrayShape)]
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
        return self.tree(local, inst.shape, tilings)

    def _wanted(self, tree: Tree, wanted: Tiling | None) -> Tree:
        if wanted is not None and isinstance(tree, Value):
            return reshard(self.region, tree, wanted)
        return tree

    def _whole(self, inst: Instruction, operands: Sequence[Tree]) -> Tree:
        """Compute `inst` on every device from whole operands."""
        found = [self.local(tree, self._replicated(tree))[0] for tree in operands]
        added = self.region.computation.add(
            inst.opcode, inst.shape, found, inst.attributes, inst.called, name=inst.name,
            common=replace(inst.common, sharding=None, frontend_attributes=()), span=inst.span,
        )  # fmt: skip
        tilings: list[Tiling | None] = [
            None if a.dtype.is_special else self.region.whole(a.rank) for a in _arrays(inst.shape)
        ]
        tree = self.tree(added, inst.shape, tilings)
        given = shardings_of(inst)
        if isinstance(tree, Value) and given and given[0] is not None:
            return self._wanted(tree, plain_tiling(given[0], self.mesh, tree.whole.rank))
        return tree

    def _replicated(self, tree: Tree) -> list[LeafSharding]:
        return [LeafSharding("replicated")] * len(_values(tree))

    def _constrained(self, inst: Instruction, operands: Sequence[Tree]) -> Tree:
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

    # ---- manual regions

    def _into_region(self, inst: Instruction, operands: Sequence[Tree]) -> Tree:
        """Give each device its part, as the sharding of the region's operands says."""
        wanted = list(shardings_of(inst))
        trees = operands if len(operands) > 1 else [operands[0]]
        shapes = list(_arrays(inst.shape))
        if target_of(inst) == "SPMDFullToShardShape":
            wanted = [_annotation_before(inst)]
        found: list[Tree] = []
        for tree, sharding, shape in zip(trees, wanted, shapes, strict=True):
            if not isinstance(tree, Value):  # a token
                found.append(tree)
                continue
            target = self._tiling(sharding, tree.whole)
            assert target is not None
            part = reshard(self.region, tree, target).inst
            if tree.is_manual:  # a region in a region: along its axes copies are equal so far
                for dim, axes in enumerate(target.dims):
                    part = self.region.sliced(part, dim, axes) if axes else part
            self._check_part(inst, part, shape.dims)
            found.append(Value(part, shape, self.region.whole(shape.rank), tree.depth + 1))
        return found[0] if isinstance(inst.shape, ArrayShape) else tuple(found)

    def _out_of_region(self, inst: Instruction, operands: Sequence[Tree]) -> Tree:
        """Take each device's part as a tile of the whole."""
        found: list[Tree] = []
        shardings, shapes = shardings_of(inst), list(_arrays(inst.shape))
        for tree, sharding, shape in zip(operands, shardings, shapes, strict=True):
            if not isinstance(tree, Value):
                found.append(tree)
                continue
            tiling = self._tiling(sharding, shape)
            assert tiling is not None
            whole, made = tree.inst, _prefix(tiling, shape.dims, tree.inst.array.dims)
            self._check_part(inst, whole, made.local_dims(shape.dims))
            if tree.depth > 1:
                for dim, axes in enumerate(made.dims):
                    whole = self.region.all_gather(whole, dim, axes) if axes else whole
                found.append(Value(whole, shape, self.region.whole(shape.rank), tree.depth - 1))
            else:
                found.append(reshard(self.region, Value(whole, shape, made), tiling))
        return found[0] if isinstance(inst.shape, ArrayShape) else tuple(found)

    def _check_part(self, inst: Instruction, part: Instruction, dims: Sequence[int]) -> None:
        """Raise UnsupportedError unless the sharding at an edge of a region gives such parts."""
        if part.array.dims != tuple(dims):
            raise UnsupportedError(
                f"{inst.name}: the part of each device in the manual region is "
                f"{part.array.text_without_layout}, but the sharding gives sizes {list(dims)}",
                inst.span,
            )

    def _as_it_is(self, inst: Instruction, operands: Sequence[Tree]) -> Tree:
        """Copy an instruction of a manual region, which is written for one device already."""
        found = [self.local(tree, self._replicated(tree))[0] for tree in operands]
        added = self.region.computation.add(
            inst.opcode, inst.shape, found, inst.attributes, inst.called, name=inst.name,
            common=replace(inst.common, sharding=None, frontend_attributes=()), span=inst.span,
        )  # fmt: skip
        depth = max(v.depth for tree in operands for v in values_of([tree]))
        return self.tree(added, inst.shape, [None for _ in _arrays(inst.shape)], depth)

    # ---- called computations

    def _called(self, inst: Instruction, operands: Sequence[Tree]) -> Tree:
        """Inline a call."""
        (body,) = inst.called
        inner = Walk(self.region)
        inner.trees.update(zip(body.parameters, operands, strict=True))
        return inner.run(body)

    def _loop(self, inst: Instruction, operands: Sequence[Tree]) -> Tree:
        """Keep the state of a loop split as is wanted, or as its body makes it."""
        (initial,) = operands
        wanted = list(shardings_of(inst))
        condition, body = inst.called
        for _ in range(_ROUNDS):
            state, tilings = self.local(initial, wanted)
            made, results = self._state_computation(body, tilings, None)
            self.region.shared.module.remove_computation(made)
            finer = [_finer(old, new) for old, new in zip(tilings, results, strict=True)]
            if finer == tilings:
                break
            wanted = [tiling.sharding() if tiling else None for tiling in finer]
        state, tilings = self.local(initial, wanted)
        kept = [tiling.sharding() if tiling else None for tiling in tilings]
        called = (
            self._state_computation(condition, tilings, [LeafSharding("replicated")])[0],
            self._state_computation(body, tilings, kept)[0],
        )
        added = self.region.computation.add(
            inst.opcode, state.shape, (state,), inst.attributes, called, name=inst.name,
            common=replace(inst.common, sharding=None, frontend_attributes=()), span=inst.span,
        )  # fmt: skip
        return self.tree(added, inst.shape, list(tilings))

    def _state_computation(
        self,
        computation: Computation,
        tilings: Sequence[Tiling | None],
        wanted: Sequence[LeafSharding | None] | None,
    ) -> tuple[Computation, list[Tiling | None]]:
        """Partition a computation of one parameter, whose arrays have `tilings`.

        Args:
            computation: a body, a condition or a branch.
            tilings: of the arrays of the parameter; None in a manual region.
            wanted: the shardings of the results, None for as they come.

        Returns:
            The computation, and the tilings of its results.
        """
        region = Region(self.region.shared, self._new(computation))
        walk = Walk(region)
        (parameter,) = computation.parameters
        walk.trees[parameter] = walk.parameter_of(parameter, tilings)
        root, used = walk.local(walk.run(computation), wanted or [])
        region.computation.set_root(root)
        return region.computation, used

    def _branches(self, inst: Instruction, operands: Sequence[Tree]) -> Tree:
        """Branches take their operands as they are and return whole arrays, or as is wanted."""
        selector, _ = self.local(operands[0], self._replicated(operands[0]))
        given = shardings_of(inst)
        arrays = list(_arrays(inst.shape))
        tilings = [self._tiling(s, a) for s, a in zip(given, arrays, strict=True)]
        shardings = [t.sharding() if t else None for t in tilings]
        called, arguments = [], []
        for computation, tree in zip(inst.called, operands[1:], strict=True):
            argument, used = self.local(tree, [])
            arguments.append(argument)
            called.append(self._state_computation(computation, used, shardings)[0])
        pending = list(tilings)
        added = self.region.computation.add(
            inst.opcode, _local_shape(inst.shape, pending), (selector, *arguments),
            inst.attributes, called, name=inst.name,
            common=replace(inst.common, sharding=None, frontend_attributes=()), span=inst.span,
        )  # fmt: skip
        return self.tree(added, inst.shape, list(tilings))

    def _new(self, computation: Computation) -> Computation:
        return self.region.computation.module.add_computation(f"{computation.name}_spmd")


def _is_partitionable(inst: Instruction) -> bool:
    """True if the instruction has arrays only, and all it does depends on its operands."""
    return not (
        inst.opcode.side_effect
        or inst.is_a("custom-call", "rng", "rng-bit-generator", "fusion", "constant", "domain")
        or inst.opcode.exchange is not None
    )


def _annotation_before(inst: Instruction) -> LeafSharding | None:
    """Return the sharding that the `Sharding` call in front of SPMDFullToShardShape asks for."""
    return shardings_of(inst.operands[0])[0]


def _finer(old: Tiling | None, new: Tiling | None) -> Tiling | None:
    """Return the tiling for a part of the state of a loop that enters as `old`, ends as `new`."""
    return new if old is not None and new is not None and old.is_replicated else old


def _prefix(tiling: Tiling, whole: Sequence[int], part: Sequence[int]) -> Tiling:
    """Return the major axes of `tiling` that split `whole` into parts of the size of `part`.

    A region that is manual along some axes has equal copies along the others.
    """
    for dim, (full, size) in enumerate(zip(whole, part, strict=True)):
        axes = tiling.dims[dim]
        for count in range(len(axes) + 1):
            if size * tiling.mesh.size(axes[:count]) == full:
                tiling = tiling.with_dim(dim, axes[:count])
                break
    return tiling


def plain_tiling(sharding: LeafSharding, mesh: Mesh, rank: int) -> Tiling | None:
    """Return the tiling of an array that no device has made part of already, None for others."""
    found = tiling_of(sharding, mesh, rank)
    return None if found is None or found.manual or found.unreduced else found


def arrays_of(shapes: Sequence[Shape]) -> list[ArrayShape]:
    """Return the arrays of some shapes, depth first, without tokens."""
    found = [array for shape in shapes for array in _arrays(shape)]
    return [array for array in found if not array.dtype.is_special]


def values_of(trees: Sequence[Tree]) -> list[Value]:
    """Return the arrays of some values, depth first, without tokens."""
    return [v for tree in trees for v in _values(tree) if isinstance(v, Value)]


def _arrays(shape: Shape) -> list[ArrayShape]:
    """Return the arrays and tokens of a shape, depth first."""
    if isinstance(shape, TupleShape):
        return [array for element in shape.elements for array in _arrays(element)]
    assert isinstance(shape, ArrayShape), shape
    return [shape]


def _local_shape(shape: Shape, tilings: list[Tiling | None]) -> Shape:
    """Return the shape on one device, taking a tiling from the front of the list per array."""
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(_local_shape(element, tilings) for element in shape.elements))
    assert isinstance(shape, ArrayShape)
    tiling = tilings.pop(0)
    return shape if tiling is None else local_array(shape, tiling.local_dims(shape.dims))


def _values(tree: Tree) -> list[Value | Instruction]:
    if isinstance(tree, tuple):
        return [value for part in tree for value in _values(part)]
    return [tree]


def _has_manual(tree: Tree) -> bool:
    return any(isinstance(value, Value) and value.is_manual for value in _values(tree))
