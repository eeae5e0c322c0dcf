"""Base of the passes that combine collectives of one kind into one of several operands."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.divergence import divergent_collectives
from hloc.analysis.structures import Structures, without_channel
from hloc.ir.attributes import NO_COMMON
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order
from hloc.lazy_dataclass import dataclass
from hloc.ops.builder import Builder
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.shapes import ArrayShape, TupleShape


@dataclass(frozen=True)
class Combiner(RewritingPass):
    """Combines independent collectives of one opcode that all devices run.

    Attributes:
        combine_threshold_bytes: limit on the operands of one combined collective together.
        combine_threshold_count: limit on their number.
    """

    combine_threshold_bytes: int = 30 << 20
    combine_threshold_count: int = 256

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Combine in every computation that all devices run equally often."""
        divergent = divergent_collectives(module)
        structures = Structures()
        for computation in control_flow_computations(module):
            if computation in divergent:
                continue
            keys = dict.fromkeys(key for _, key in self._found(computation, structures))
            for key in keys:
                found = [c for c, other in self._found(computation, structures) if other == key]
                for members in self._sets(computation, found):
                    if context.spent:
                        return
                    context.at = members[0]
                    with context.rewriting(module, self.name):
                        combine(computation, members)

    def _found(
        self, computation: Computation, structures: Structures
    ) -> Iterator[tuple[Instruction, Hashable]]:
        """Yield the collectives that may be combined, with the key that sets must share."""
        order = post_order(computation)
        pinned = computation.awaited
        for inst in order:
            if not inst.is_a(*self.acts_on) or len(inst.operands) != 1 or inst in pinned:
                continue
            if inst.control_predecessors or not isinstance(inst.shape, ArrayShape):
                continue
            reducers = tuple(structures.structure(called) for called in inst.called)
            dtype = inst.array.dtype.name if reducers else ""
            yield inst, (without_channel(inst), reducers, dtype, inst.common.backend_config)

    def _sets(
        self, computation: Computation, found: Sequence[Instruction]
    ) -> Iterator[list[Instruction]]:
        """Yield sets of at least two, grouped by how many of `found` precede each."""
        depths = _depths(computation, set(found))
        for depth in sorted({depths[inst] for inst in found}):
            members: list[Instruction] = []
            size = 0
            for inst in (inst for inst in found if depths[inst] == depth):
                own = inst.operands[0].shape.size_bytes
                if members and (
                    size + own > self.combine_threshold_bytes
                    or len(members) == self.combine_threshold_count
                ):
                    yield from [members] if len(members) > 1 else []
                    members, size = [], 0
                members.append(inst)
                size += own
            yield from [members] if len(members) > 1 else []


def _depths(computation: Computation, counted: set[Instruction]) -> dict[Instruction, int]:
    """Return the length of the longest chain of `counted` before each instruction.

    Those of equal depth are independent, and stay so when others are combined.
    """
    found: dict[Instruction, int] = {}
    for inst in post_order(computation):
        needed = (*inst.operands, *inst.control_predecessors)
        found[inst] = max((found[n] + (n in counted) for n in needed), default=0)
    return found


def combine(computation: Computation, members: Sequence[Instruction]) -> Instruction:
    """Replace `members` by one collective of all operands, and return it."""
    first, b = members[0], Builder(computation)
    combined = computation.add(
        first.opcode,
        TupleShape(tuple(inst.shape for inst in members)),
        tuple(inst.operands[0] for inst in members),
        first.attributes,
        first.called,
        common=NO_COMMON.with_metadata(first.common.metadata),
    )
    get: Callable[[Instruction, int], Instruction] = b.get_tuple_element
    for i, inst in enumerate(members):
        computation.replace(inst, get(combined, i))
        computation.remove(inst)
    return combined
