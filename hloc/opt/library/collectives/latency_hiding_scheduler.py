"""Order instructions to overlap started collectives with independent work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.compute_time import ComputeTime, compute_times, find_device
from hloc.analysis.network.collective_cost import exchange_of, seconds_of
from hloc.analysis.network.links import Network, parse_links
from hloc.analysis.network.module_mesh import module_mesh
from hloc.analysis.network.overlap import run_in_order, started_by, step_seconds
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.print_order import instruction_order
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.options import DEFAULT_LINK


@dataclass(frozen=True)
class LatencyHidingScheduler(RewritingPass):
    """Schedule starts of collectives as early and dones as late as the model finds useful.

    A list scheduler: a start runs as soon as its operands exist, a done when its
    collective has ended or nothing else is ready; other instructions keep their order. Uses the new
    order only if the model says that the computation gets faster. Leaves a module with a schedule,
    so it runs last. Arrays live longer: a later done keeps the results before it in memory. `links`
    and `chip` are the model's. Cost: O(n log n) in the instructions.
    """

    links: str = DEFAULT_LINK
    chip: str = "H100"

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Reorder every computation that has started collectives."""
        mesh = module_mesh(module)
        network = Network(mesh, parse_links(self.links, mesh))
        compute = compute_times(module, find_device(self.chip))
        lasting: dict[Computation, float] = {}
        orders: dict[Computation, Sequence[Instruction]] = {}
        for computation in control_flow_computations(module):
            base = instruction_order(computation)
            _, before = run_in_order(base, compute, network, lasting)
            lasting[computation] = before
            if context.spent or not any(map(_is_start, base)):
                continue
            order = _scheduled(base, compute, network, lasting)
            _, after = run_in_order(order, compute, network, lasting)
            if after < before:
                orders[computation], lasting[computation] = order, after
        if not orders:
            return
        with context.rewriting(module, self.name):
            for computation in module.computations:
                found = orders.get(computation)
                computation.reorder(instruction_order(computation) if found is None else found)
            module.set_config(replace(module.config, is_scheduled=True))


def _is_start(inst: Instruction) -> bool:
    return bool(inst.opcode.ended_by) and exchange_of(inst) is not None


def _scheduled(
    base: Sequence[Instruction],
    compute: ComputeTime,
    network: Network,
    lasting: Mapping[Computation, float],
) -> list[Instruction]:
    """Return `base` in an order that hides collectives; ties keep the order of `base`."""
    missing = {inst: len(_needed(inst)) for inst in base}
    users: dict[Instruction, list[Instruction]] = {inst: [] for inst in base}
    for inst in base:
        for needed in _needed(inst):
            users[needed].append(inst)
    place = {inst: i for i, inst in enumerate(base)}
    ends: dict[Instruction, float] = {}
    starts: list[int] = []
    others: list[int] = []
    dones: list[tuple[float, int]] = []

    def make_ready(insts: Iterable[Instruction]) -> None:
        for inst in insts:
            start = started_by(inst)
            if _is_start(inst):
                heappush(starts, place[inst])
            elif start in ends and not inst.opcode.ended_by:
                assert start is not None
                heappush(dones, (ends[start], place[inst]))
            else:
                heappush(others, place[inst])

    now = free = 0.0
    order: list[Instruction] = []
    make_ready(inst for inst in base if not missing[inst])
    while starts or others or dones:
        if starts:
            inst = base[heappop(starts)]
            collective = exchange_of(inst)
            assert collective is not None
            free = ends[inst] = max(now, free) + seconds_of(collective, network)
        elif dones and (not others or dones[0][0] <= now):
            end, number = heappop(dones)
            inst, now = base[number], max(now, end)
        else:
            inst = base[heappop(others)]
            now += _seconds(inst, compute, network, lasting)
        order.append(inst)
        freed = []
        for user in users[inst]:
            missing[user] -= 1
            if not missing[user]:
                freed.append(user)
        make_ready(freed)
    return order


def _needed(inst: Instruction) -> set[Instruction]:
    return {*inst.operands, *inst.control_predecessors}


def _seconds(
    inst: Instruction,
    compute: ComputeTime,
    network: Network,
    lasting: Mapping[Computation, float],
) -> float:
    """Return the time of an instruction; a collective that is not split counts in full."""
    collective = exchange_of(inst)
    if collective is not None:
        return seconds_of(collective, network)
    return step_seconds(inst, compute, lasting)
