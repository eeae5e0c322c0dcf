"""Estimates of the time that the kernels of a module take on a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.cost import Cost, computation_cost, elements_of, instruction_cost
from hloc.analysis.gpu_devices import DeviceSpec, spec_of_chip
from hloc.analysis.gpu_performance import (
    LAUNCH_SECONDS,
    ArrayRead,
    Pattern,
    Threads,
    overlapped,
)
from hloc.analysis.kernel_count import is_kernel
from hloc.analysis.rows import row_work
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.draft import Draft, Setting
from hloc.opt.fusion.fusible import Role, role_of
from hloc.opt.fusion.product_kernel import ProductKernel

_PER_THREAD = 4
"""Elements of the largest array that one thread of an unknown kernel has."""

_TRANSCENDENTAL = 10
"""Instructions of an exponential or the like."""


@dataclass(frozen=True, slots=True)
class KernelWork:
    """The total work of a kernel.

    Attributes:
        operations: f32 instructions, or the equivalent number of others.
        written: bytes of results.
        launches: functions that run one after another.
    """

    threads: Threads
    operations: float = 0.0
    reads: tuple[ArrayRead, ...] = ()
    written: float = 0.0
    launches: int = 1


def kernel_seconds(work: KernelWork, device: DeviceSpec) -> float:
    """Return the time of a kernel, launches included."""
    bandwidth = work.threads.bandwidth(device)
    memory = work.written / bandwidth + sum(r.seconds(device, bandwidth) for r in work.reads)
    compute = work.operations / work.threads.operations_per_second(device)
    return overlapped(compute, memory) + work.launches * LAUNCH_SECONDS


def module_seconds(module: Module, chip: str) -> float:
    """Return the time of all kernels, one after another, the bodies of loops counted once."""
    return sum(
        instruction_seconds(inst, chip)
        for computation in control_flow_computations(module)
        for inst in computation.instructions
        if is_kernel(inst)
    )


def instruction_seconds(inst: Instruction, chip: str) -> float:
    """Return the time of the kernel that one instruction or fusion is."""
    product = ProductKernel.of(inst)
    if product is not None:
        return product.seconds(chip)
    device = spec_of_chip(chip)
    members: Sequence[Instruction] = (inst,)
    results: Sequence[Instruction] = (inst,)
    if inst.opcode.name == "fusion":
        (body,) = inst.called
        members = [m for m in post_order(body) if not m.is_a("tuple", "parameter")]
        results = body.root.operands if body.root.is_a("tuple") else (body.root,)
    known = {*members}
    if not all(_is_known(member) for member in known):
        return kernel_seconds(_work(inst), device)
    root = _leader(results, members)
    order = post_order(root.computation)
    setting = Setting(device, {member: place for place, member in enumerate(order)})
    work = row_work(inst.called[0]) if inst.opcode.name == "fusion" else None
    rows = None if work is None else work.rows
    unique = list(dict.fromkeys(results))
    return Draft.of_results(unique, root, rows, setting, known.__contains__).seconds()


def _is_known(member: Instruction) -> bool:
    row = member.opcode
    return row.nop or row.data_movement or role_of(member) is not Role.NONE


def _leader(results: Sequence[Instruction], members: Sequence[Instruction]) -> Instruction:
    """Return the member that decides the threads: a reduction if there is one."""
    reduces = [member for member in members if member.is_a("reduce")]
    if reduces:
        return max(reduces, key=lambda inst: elements_of(inst.operands[0].shape))
    return max(results, key=lambda inst: elements_of(inst.shape))


def _work(inst: Instruction) -> KernelWork:
    """Return the work of what is not made element by element: bytes once, and arithmetic."""
    cost = instruction_cost(inst, _cost_of)
    sizes = [elements_of(operand.shape) for operand in inst.operands]
    reads = tuple(_read_once(operand) for operand in dict.fromkeys(inst.operands))
    operations = cost.flops + _TRANSCENDENTAL * cost.transcendentals
    threads = Threads(max(max([elements_of(inst.shape), *sizes]) / _PER_THREAD, 1.0))
    return KernelWork(threads, operations, reads, inst.shape.size_bytes)


def _cost_of(computation: Computation) -> Cost:
    return computation_cost(computation, _cost_of)


def _read_once(operand: Instruction) -> ArrayRead:
    size = operand.shape.size_bytes
    return ArrayRead(size, 1, size, Pattern.NEIGHBOURS)
