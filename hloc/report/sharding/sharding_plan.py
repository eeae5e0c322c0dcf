"""The explanation of a sharded module on a modelled machine; partitions it if necessary."""

from __future__ import annotations

from dataclasses import replace

from hloc.analysis.compute_time import compute_times, find_device
from hloc.analysis.gpu_devices import DeviceSpec
from hloc.analysis.network.links import Network, parse_links
from hloc.analysis.network.module_mesh import module_mesh
from hloc.analysis.network.sharding_explanation import (
    CollectiveRow,
    DeviceMemory,
    ShardingExplanation,
    explain_partitioned,
)
from hloc.driver import AFTER_PARTITION, PARTITION
from hloc.errors import HloError
from hloc.ir.clone import clone_module
from hloc.ir.device_groups import module_devices
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.replica_groups import DeviceMesh
from hloc.ir.sharded_signature import is_per_device
from hloc.ir.traversal import all_instructions
from hloc.lazy_dataclass import dataclass
from hloc.memory.assigned_buffers import BufferAssignment
from hloc.memory.memory_plan import plan_memory
from hloc.memory.schedule import Schedule
from hloc.opt.calls.flatten_call_graph import FlattenCallGraph
from hloc.opt.copy_insertion import CopyInsertion
from hloc.opt.library.control_flow.while_loop_trip_count_annotator import (
    WhileLoopTripCountAnnotator,
)
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline, run_pass
from hloc.options import DEFAULT_LINK
from hloc.report.sharding.mesh_scaling import scaled, scaled_axes
from hloc.report.sharding.sharding_advice import advice_for

DEFAULT_CHIP = "H100"
HOST = "host"


@dataclass(frozen=True, slots=True)
class Machine:
    """The modelled machine.

    Attributes:
        links: `--links=`: one link for all axes, or links by axis.
        chip: a product, a chip, or `host` for the measured peaks of this machine.
        mesh: axes and sizes; () takes those of the module.
        devices: number of devices; 0 takes that of the mesh or the module.
    """

    links: str = DEFAULT_LINK
    chip: str = DEFAULT_CHIP
    mesh: tuple[tuple[str, int], ...] = ()
    devices: int = 0


def explain_sharding(module: Module, machine: Machine) -> ShardingExplanation:
    """Return the cost of the collectives of a module on a machine; `module` is not changed.

    An annotated module is partitioned, for the machine's mesh if that has other sizes than the
    module's, and single annotations are tried.

    Raises:
        HloError: the module has one device, its groups or the mesh do not fit, or a link or chip
            is not known.
    """
    device = host_device() if machine.chip == HOST else find_device(machine.chip)
    local = partitioned(module)
    total = module_devices(local).total
    wanted = DeviceMesh(machine.mesh).count if machine.mesh else machine.devices or total
    if local is not module and wanted != total:
        own = module_mesh(module, total)
        module = scaled(module, own, scaled_axes(own.axes, machine.mesh, machine.devices))
        local, total = partitioned(module), wanted
    mesh = _mesh(module, total, machine)
    network = Network(mesh, parse_links(machine.links, mesh))
    lowered, schedule, memory = _scheduled(clone_module(local))
    compute = compute_times(lowered, device)
    found = explain_partitioned(lowered, network, compute, schedule.order, machine.chip)
    rows = tuple(_with_line(row, module) for row in found.collectives)
    found = replace(found, collectives=rows, memory=memory)
    if local is module or not rows:
        return found
    trials = advice_for(module, found, mesh, PARTITION)
    return replace(found, advice=trials.advice, tried=trials.tried)


def partitioned(module: Module) -> Module:
    """Return the program of one device: `module` itself, or the result of hloc's partitioner.

    Raises:
        HloError: the module is for one device.
    """
    if is_per_device(module) and module_devices(module).total > 1:
        return module
    local = clone_module(module)
    Pipeline.parse(f"{PARTITION},{AFTER_PARTITION}").run(local, PassContext())
    if module_devices(local).total == 1:
        raise HloError(
            "the module is for one device: nothing is sharded",
            notes=("annotate its arguments, or give the text that a partitioner has made",),
        )
    return local


def _with_line(row: CollectiveRow, module: Module) -> CollectiveRow:
    """Give a collective from a partitioner the source line of the instruction that needed it."""
    if row.text_line:
        return row
    inst = module.derived(_by_name).get(row.needed_by)
    if inst is None or inst.span is None:
        return row
    return replace(row, text_line=inst.span.source.line_column(inst.span.start)[0])


def _by_name(module: Module) -> dict[str, Instruction]:
    return {inst.name: inst for inst in all_instructions(module)}


def _mesh(module: Module, total: int, machine: Machine) -> DeviceMesh:
    """Return the given mesh, or that of `module` before it is partitioned."""
    given = machine.mesh
    if machine.devices not in (0, total):
        raise HloError(
            f"the module is for {total} devices, not {machine.devices}",
            notes=("a partitioned program has the shapes of its mesh; give the annotated text",),
        )
    if not given:
        return module_mesh(module, total)
    mesh = DeviceMesh(given)
    if mesh.count != total:
        raise HloError(
            f"the mesh {','.join(f'{n}={s}' for n, s in given)} has {mesh.count} devices, but the "
            f"module is for {total}",
            notes=("a partitioned program has the shapes of its mesh; give the annotated text",),
        )
    return mesh


def _scheduled(module: Module) -> tuple[Module, Schedule, DeviceMemory]:
    """Return `module` with copies, a schedule and its memory."""
    context = PassContext()
    run_pass(WhileLoopTripCountAnnotator(), module, context)  # copies hide the pattern
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
    """Measure this machine with one thread, as each device of a process has."""
    from hloc.runtime.machine_peaks import measure_peaks

    peaks = measure_peaks()
    return DeviceSpec(1, peaks.memories[-1][1], peaks.flops, peaks.flops)
