"""Quantities for goals: instruction counts, cost including trip counts, peak memory."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.cost import Cost, instruction_cost
from hloc.analysis.dataflow import analyse_dataflow
from hloc.analysis.memory_peak import memory_facts, peak_of
from hloc.analysis.trip_count import trip_count
from hloc.errors import HloError
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import all_instructions, reachable_computations

_TRANSCENDENTAL_UNITS = 10


def quantity(name: str, module: Module) -> int:
    """Return the quantity called `name`.

    `instrs`, `ops.NAME`, `computations`, `cost.flops`, `cost.bytes`, `cost.transcendentals`,
    `cost.units`, `constants.bytes`, `constants.largest`,
    `loop.bytes` (the state that the loops carry), `peak`.

    Raises:
        HloError: there is no such quantity.
    """
    if name.startswith("ops."):
        opcode = name.removeprefix("ops.")
        return sum(inst.is_a(opcode) for inst in all_instructions(module))
    if name.startswith("cost."):
        cost = total_cost(module)
        parts = {
            "flops": cost.flops,
            "bytes": cost.bytes,
            "transcendentals": cost.transcendentals,
            "units": units(cost),
        }
        if name[5:] in parts:
            return parts[name[5:]]
    if name == "instrs":
        return module.instruction_count
    if name == "computations":
        return len(module.computations)
    if name == "loop.bytes":
        return sum(i.shape.size_bytes for i in all_instructions(module) if i.is_a("while"))
    if name == "peak":
        return peak(module.entry, module.entry.instructions)
    if name.startswith("constants."):
        sizes = [i.shape.size_bytes for i in all_instructions(module) if i.is_a("constant")]
        return sum(sizes) if name == "constants.bytes" else max(sizes, default=0)
    raise HloError(f"unknown quantity {name!r}")


def total_cost(module: Module) -> Cost:
    """Return the cost of one run, with loop bodies times known trip counts."""
    done: dict[Computation, Cost] = {}
    for computation in reachable_computations(module.entry):
        total = Cost()
        for inst in computation.instructions:
            total += _cost(inst, done)
        done[computation] = total
    return done[module.entry]


def _cost(inst: Instruction, done: dict[Computation, Cost]) -> Cost:
    once = instruction_cost(inst, done.__getitem__)
    trips = trip_count(inst) if inst.is_a("while") else None
    return once if trips is None else once.times(trips.count)


def units(cost: Cost) -> int:
    """Return one number for a cost: bytes and operations, a transcendental function as ten."""
    return cost.bytes + cost.flops + _TRANSCENDENTAL_UNITS * cost.transcendentals


def peak(computation: Computation, order: Sequence[Instruction]) -> int:
    """Return the peak of live bytes if `computation` runs in `order`.

    Parameters, constants and outputs are not counted; there are no in-place updates.
    """
    module = computation.module
    dataflow = analyse_dataflow(module)
    peaks: dict[Computation, int] = {}
    for called in control_flow_computations(module):
        facts = memory_facts(called, dataflow, peaks)
        if called is computation:
            return peak_of(order, facts).size_bytes
        peaks[called] = peak_of(called.instructions, facts).size_bytes
    raise HloError(f"computation {computation.name} does not run")
