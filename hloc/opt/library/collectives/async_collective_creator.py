"""Split collectives into start and done to overlap them with independent work."""

from __future__ import annotations

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.compute_time import compute_times, find_device
from hloc.analysis.network.collective_cost import seconds_of
from hloc.analysis.network.links import Network, parse_links
from hloc.analysis.network.module_mesh import module_mesh
from hloc.analysis.network.overlap import slack_of
from hloc.ir.attributes import NO_COMMON
from hloc.ir.device_groups import device_groups
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.ops import OPCODES
from hloc.ops.reducers import one_or_tuple
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.options import DEFAULT_LINK
from hloc.shapes import Shape, TupleShape


@dataclass(frozen=True)
class AsyncCollectiveCreator(RewritingPass):
    """Split collectives into start and done, to overlap them with independent work.

    Applies to all-reduce, all-gather and collective-permute of several devices if
    the independent work in the computation takes at least `least-percent` of the collective's time.
    Times are modelled: `links` is a link of `--links` for every mesh axis, `chip` the device.
    `latency-hiding-scheduler` then moves start and done apart; by itself this pass gains nothing.
    Control dependencies keep a collective. Cost: O(collectives * instructions).
    """

    acts_on = frozenset(
        row.name.removesuffix("-start")
        for row in OPCODES.values()
        if row.exchange is not None and row.ended_by
    )
    links: str = DEFAULT_LINK
    chip: str = "H100"
    least_percent: int = 10

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Split in every computation that runs step by step."""
        mesh = module_mesh(module)
        network = Network(mesh, parse_links(self.links, mesh))
        compute = compute_times(module, find_device(self.chip))
        for computation in control_flow_computations(module):
            pinned = computation.awaited
            for inst in list(computation.instructions):
                if context.spent:
                    return
                if inst.opcode.name not in self.acts_on or inst in pinned:
                    continue
                if inst.control_predecessors or not _is_splittable(inst):
                    continue
                context.at = inst
                slack = slack_of(inst, compute)
                if slack <= 0 or 100 * slack < self.least_percent * seconds_of(inst, network):
                    text = f"independent work: {slack * 1e6:.1f} us"
                    context.remark("missed", self.name, inst, text)
                    continue
                with context.rewriting(module, self.name):
                    _split(inst)


def _is_splittable(inst: Instruction) -> bool:
    """True if several devices take part, and the start has a plain form."""
    if inst.is_a("collective-permute") and len(inst.operands) != 1:
        return False
    return any(len(group) > 1 for group in device_groups(inst))


def _split(inst: Instruction) -> None:
    """Replace `inst` by a `-start` instruction, and a `-done` that waits for it."""
    computation, name = inst.computation, inst.opcode.name
    start = computation.add(
        OPCODES[f"{name}-start"],
        _start_shape(inst),
        inst.operands,
        inst.attributes,
        inst.called,
        common=inst.common,
    )
    done = computation.add(
        OPCODES[f"{name}-done"],
        inst.shape,
        (start,),
        common=NO_COMMON.with_metadata(inst.common.metadata),
    )
    computation.replace(inst, done)
    computation.remove(inst)


def _start_shape(inst: Instruction) -> Shape:
    """Return the result's shape for an all-reduce, `(operands, results)` for others."""
    if inst.is_a("all-reduce"):
        return inst.shape
    operands = one_or_tuple(tuple(operand.shape for operand in inst.operands))
    return TupleShape((operands, inst.shape))
