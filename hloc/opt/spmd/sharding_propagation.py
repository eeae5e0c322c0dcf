"""The pass `sharding-propagation`: derives a sharding of every instruction from annotations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field, replace

from hloc.ir.attributes import CommonAttributes
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.sharding import REPLICATED, LeafSharding, Sharding, TupleSharding
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.spmd.annotations import (
    CONSTRAINTS,
    IDENTITIES,
    SHARDY,
    TO_GLOBAL,
    TO_LOCAL,
    all_shardings,
    partitions_of,
    target_of,
)
from hloc.opt.spmd.array_classes import (
    Leaf,
    array_classes,
    control_flow_instructions,
    result_leaves,
)
from hloc.opt.spmd.checks import check_custom_calls
from hloc.opt.spmd.manual_regions import manual_instructions
from hloc.opt.spmd.mesh_axes import mesh_of, prime_mesh
from hloc.opt.spmd.propagation import ArrayState, Propagation
from hloc.opt.spmd.propagation_rules import PropagationRule, identity_rule, propagation_rule
from hloc.opt.spmd.starting_points import (
    Start,
    annotations_of,
    is_annotated,
    starts_of,
    whole_of,
)
from hloc.opt.spmd.tiling import Tiling
from hloc.shapes import ArrayShape, ShapeIndex, TupleShape, leaves

_FORWARD, _BACKWARD, _BOTH = 1, 2, 3
_DIRECTION = re.compile(r'"?([0-3])\b')
"""The value of `xla.sdy.allowed_direction`, `2` or `2 : i32`; 0 is neither direction."""


class ShardingPropagation(RewritingPass):
    """Give every instruction outside of manual regions a `sharding`.

    The exceptions are elementwise users of a region's result with open dimensions: the partitioner
    shards them like that result, along free axes that the propagation does not see.
    Annotations are kept: `sharding`, constraints, and Shardy's frontend attributes, where open
    dimensions may be sharded further. Results and parameters without one are replicated unless the
    header allows another sharding. Cost: a few walks, O(instructions) each.
    """

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Propagate and write the shardings down."""
        if partitions_of(module) == 1 or context.spent:
            return
        check_custom_calls(module)
        found = _Shardings(module)
        found.propagate()
        left_open = found.left_open()
        changes = [
            (inst, common)
            for inst in control_flow_instructions(module)
            if inst not in left_open and (common := found.common_of(inst)) != inst.common
        ]
        if changes:
            with context.rewriting(module, self.name):
                for inst, common in changes:
                    inst.computation.set_common(inst, common)


@dataclass
class _Shardings:
    """The shardings of one module."""

    module: Module
    kept: dict[Leaf, LeafSharding] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.manual = manual_instructions(self.module)
        self.mesh = prime_mesh(mesh_of(all_shardings(self.module), partitions_of(self.module)))
        self.insts = [
            inst for inst in control_flow_instructions(self.module) if inst not in self.manual
        ]
        self.classes = array_classes(self.module, is_annotated)
        followers = frozenset(self._followers())
        self.result = Propagation(self.mesh, self.classes, followers)

    def _shared(self) -> set[Leaf]:
        """Return the arrays that are in a class with others."""
        return {leaf for pair in self.classes.parents.items() for leaf in pair}

    def _followers(self) -> Iterator[Leaf]:
        """Yield arrays computed from constants alone, in a class of their own."""
        shared = self._shared()
        constant: set[Instruction] = set()
        for inst in self.insts:
            leaf: Leaf = (inst, ())
            if not _is_constant_like(inst) or leaf in shared or is_annotated(inst):
                continue
            if all(operand in constant for operand in inst.operands):
                constant.add(inst)
                yield leaf

    def propagate(self) -> None:
        """Propagate from the annotations, those of the first priority first."""
        cuts = [inst for inst in self.manual if target_of(inst) in TO_LOCAL]
        starts = [start for inst in (*self.insts, *cuts) for start in starts_of(inst, self.mesh)]
        for start in starts:
            self._hold(start)
        rules = list(self._rules())
        for priority in sorted({0, *(p for start in starts for p in start.priorities)}):
            for start in starts:
                self._release(start, priority)
            self.result.run(rules)

    def _hold(self, start: Start) -> None:
        """Close all dimensions of an annotated array."""
        shape = whole_of(start.leaf)
        self.result.states[self.classes.of(start.leaf)] = ArrayState(
            shape.dims, [()] * shape.rank, [False] * shape.rank, start.unusable, shape.size_bytes
        )
        if start.dims is None or (start.unusable and not start.priorities):
            self.kept[self.classes.of(start.leaf)] = start.sharding

    def _release(self, start: Start, priority: int) -> None:
        """Set the dimensions of an annotation with this priority; open those marked open."""
        state = self.result.state(start.leaf)
        for dim, axes in enumerate(start.dims or ()):
            own = start.priorities[dim] if dim < len(start.priorities) else 0
            if own == priority:
                state.dims[dim], state.is_open[dim] = axes, dim in start.open_dims

    def _rules(self) -> Iterator[PropagationRule]:
        """Yield the rules in post order, callees first."""
        linked: dict[Instruction, list[tuple[Leaf, Leaf]]] = {}
        for one, two in self.classes.links:
            if one[0] not in self.manual and two[0] not in self.manual:
                linked.setdefault(two[0], []).append((one, two))
        groups: dict[str, Leaf] = {}
        cuts = (
            inst for inst in control_flow_instructions(self.module) if target_of(inst) in TO_LOCAL
        )
        for inst in self.insts:
            target = target_of(inst)
            if target in CONSTRAINTS or target in IDENTITIES:
                yield from _identities(inst)
                yield from _grouped(inst, groups)
            elif target not in TO_GLOBAL and (rule := propagation_rule(inst)) is not None:
                yield rule
            for one, two in linked.get(inst, ()):
                yield identity_rule(one, two)
            for leaf in result_leaves(inst):
                yield from self._alike(leaf, groups)
        for inst in cuts:
            for i, operand in enumerate(inst.operands):
                index = (i,) if isinstance(inst.shape, TupleShape) else ()
                yield identity_rule((operand, ()), (inst, index), forward=False)

    def _alike(self, leaf: Leaf, groups: dict[str, Leaf]) -> Iterator[PropagationRule]:
        """Yield the link of an array with the others of its `shard_as` or `shard_like` group."""
        sharding = leaf[0].common.sharding
        if isinstance(sharding, LeafSharding) and sharding.group and leaf[1] == ():
            yield from _with_group(leaf, sharding.group.split()[-1], groups)

    def left_open(self) -> set[Instruction]:
        """Return elementwise users of regions' open results that are not sharded more finely."""
        edges: set[Instruction] = set()
        found: set[Instruction] = set()
        shared = self._shared()
        for inst in self.insts:
            if not isinstance(inst.shape, ArrayShape):
                continue
            if target_of(inst) in TO_GLOBAL:
                if any(start.open_dims for start in annotations_of(inst, self.mesh)):
                    edges.add(inst)
            elif inst.opcode.elementwise and not is_annotated(inst) and (inst, ()) not in shared:
                dims = self.result.state((inst, ())).dims
                sources = [
                    operand for operand in inst.operands if operand in edges or operand in found
                ]
                if any(self.result.state((operand, ())).dims == dims for operand in sources):
                    found.add(inst)
        return found

    def common_of(self, inst: Instruction) -> CommonAttributes:
        """Return the attributes of `inst` with its sharding."""
        if inst in self.manual:
            return inst.common
        elements = tuple(self._written(inst, index, s) for index, s in leaves(inst.shape))
        if not elements or (not isinstance(inst.shape, TupleShape | ArrayShape)):
            return inst.common
        sharding: Sharding = (
            TupleSharding(elements) if isinstance(inst.shape, TupleShape) else elements[0]
        )
        attributes = tuple(
            pair for pair in inst.common.frontend_attributes if pair[0] not in SHARDY
        )
        if target_of(inst) in TO_GLOBAL:
            attributes = inst.common.frontend_attributes
        return replace(inst.common, sharding=sharding, frontend_attributes=attributes)

    def _written(self, inst: Instruction, index: ShapeIndex, shape: object) -> LeafSharding:
        if not isinstance(shape, ArrayShape):
            return LeafSharding(REPLICATED)
        leaf = (inst, index)
        kept = self.kept.get(self.classes.of(leaf))
        if kept is not None:
            return kept
        found = Tiling(self.mesh, tuple(self.result.state(leaf).dims)).sharding()
        old = inst.common.sharding
        if isinstance(old, LeafSharding):
            return replace(found, metadata=old.metadata)
        return found


def _is_constant_like(inst: Instruction) -> bool:
    """True if an instruction computes a constant array, if its operands are constant."""
    return isinstance(inst.shape, ArrayShape) and (
        inst.opcode.elementwise
        or inst.is_a("constant", "iota", "broadcast", "reshape", "transpose", "slice")
    )


def _identities(inst: Instruction) -> Iterator[PropagationRule]:
    """Yield the link of a custom call that returns its operand, in the allowed directions."""
    attributes = dict(inst.common.frontend_attributes)
    text = attributes.get("xla.sdy.allowed_direction", "")
    number = _DIRECTION.match(text)
    allowed = int(number[1]) if number else _BOTH
    for leaf in result_leaves(inst):
        if inst.operands and isinstance(inst.operands[0].shape, ArrayShape):
            yield identity_rule(
                (inst.operands[0], ()),
                leaf,
                forward=bool(allowed & _FORWARD),
                backward=bool(allowed & _BACKWARD),
            )


def _grouped(inst: Instruction, groups: dict[str, Leaf]) -> Iterator[PropagationRule]:
    number = dict(inst.common.frontend_attributes).get("xla.sdy.sharding_group_id")
    if number is not None:
        yield from _with_group((inst.operands[0], ()), number, groups)


def _with_group(leaf: Leaf, number: str, groups: dict[str, Leaf]) -> Iterator[PropagationRule]:
    first = groups.setdefault(number, leaf)
    if first != leaf:
        yield identity_rule(first, leaf)
