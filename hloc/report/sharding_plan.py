"""The explanation of a sharded module: partitioned if it must be, on a modelled machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hloc.analysis.compute_time import compute_times, find_device
from hloc.analysis.gpu_devices import DeviceSpec
from hloc.analysis.links import DEFAULT, Network, parse_links
from hloc.analysis.module_mesh import module_mesh
from hloc.analysis.sharding_explanation import (
    DeviceMemory,
    ShardingExplanation,
    explain_partitioned,
)
from hloc.errors import HloError
from hloc.ir.clone import clone_module
from hloc.ir.computation import Computation
from hloc.ir.device_groups import module_devices
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.print_order import instruction_order
from hloc.ir.replica_groups import DeviceMesh
from hloc.memory.buffer_assignment import BufferAssignment
from hloc.memory.memory_plan import plan_memory
from hloc.memory.schedule import Schedule
from hloc.opt.copy_insertion import CopyInsertion
from hloc.opt.flatten_call_graph import FlattenCallGraph
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import run_pass

DEFAULT_CHIP = "H100"
HOST = "host"


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine of the model.

    Attributes:
        links: `--links=`: one for all axes, or by axis.
        chip: a product, a chip, or `host` for this machine's measured peaks.
        mesh: axes and sizes; () takes the module's own.
    """

    links: str = DEFAULT
    chip: str = DEFAULT_CHIP
    mesh: tuple[tuple[str, int], ...] = ()


def explain_sharding(module: Module, machine: Machine) -> ShardingExplanation:
    """Return what the collectives of a partitioned module cost; `module` is not changed.

    Raises:
        HloError: the module has one device, its groups or the mesh do not fit, or a link or chip
            is not known.
    """
    device = host_device() if machine.chip == HOST else find_device(machine.chip)
    if module_devices(module).total == 1:
        raise HloError(
            "the module is for one device: nothing is sharded",
            notes=("annotate its arguments, or give the text that a partitioner has made",),
        )
    mesh = _mesh(module, machine.mesh)
    network = Network(mesh, parse_links(machine.links, mesh))
    lowered, schedule, memory = _scheduled(clone_module(module))

    def order_of(computation: Computation) -> Sequence[Instruction]:
        return instruction_order(computation) if schedule is None else schedule.order(computation)

    compute = compute_times(lowered, device)
    found = explain_partitioned(lowered, network, compute, order_of, machine.chip)
    return replace(found, memory=memory)


def _mesh(module: Module, given: tuple[tuple[str, int], ...]) -> DeviceMesh:
    total = module_devices(module).total
    own = module_mesh(module)
    if not given:
        return own
    mesh = DeviceMesh(given)
    if mesh.count != total:
        raise HloError(
            f"the mesh {','.join(f'{n}={s}' for n, s in given)} has {mesh.count} devices, but the "
            f"module is for {total}"
        )
    return mesh


def _scheduled(module: Module) -> tuple[Module, Schedule | None, DeviceMemory | None]:
    """Return `module` with copies and its schedule and memory; both None if it has no such plan."""
    context = PassContext()
    run_pass(FlattenCallGraph(), module, context)
    run_pass(CopyInsertion(), module, context)
    schedule, assignment = plan_memory(module)
    return module, schedule, _memory(assignment)


def _memory(assignment: BufferAssignment) -> DeviceMemory:
    report = assignment.report
    return DeviceMemory(
        report.parameter_bytes,
        report.output_bytes,
        report.constant_bytes,
        report.arena_bytes,
    )


def host_device() -> DeviceSpec:
    """Measure this machine: one thread, as a device of a process has."""
    from hloc.runtime.machine_peaks import measure_peaks

    peaks = measure_peaks()
    return DeviceSpec((), 1, peaks.memories[-1][1], peaks.flops, peaks.flops)
