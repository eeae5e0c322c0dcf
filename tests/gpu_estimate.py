"""Estimates of the time that the kernels of a module take on a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.cost import Cost, computation_cost, elements_of, instruction_cost
from hloc.analysis.epilogue import PRODUCTS
from hloc.analysis.gpu_devices import DeviceSpec
from hloc.analysis.gpu_performance import (
    LAUNCH_SECONDS,
    ArrayRead,
    Pattern,
    Threads,
    overlapped,
)
from hloc.analysis.kernel_count import is_kernel
from hloc.analysis.rows import row_work
from hloc.dtypes import DType
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order, post_order_from
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.draft import Draft, Setting
from hloc.opt.fusion.fusible import Role, role_of

_PER_THREAD = 4
"""Elements of the largest array that one thread of an unknown kernel has."""

_BYTES_PER_RESULT = 4
"""Most that the fusion of a product reads of a bias or a residual."""

_TRANSCENDENTAL = 10
"""Instructions of an exponential or the like."""

_PRODUCT_SHARE = 0.6
"""Fraction of the peak that matrix products reach."""


@dataclass(frozen=True, slots=True)
class KernelWork:
    """The total work of a kernel.

    Attributes:
        operations: f32 instructions, or the equivalent number of others.
        written: bytes of results.
        products: floating-point operations of matrix products, on elements of `product_type`.
        launches: functions that run one after another.
    """

    threads: Threads
    operations: float = 0.0
    reads: tuple[ArrayRead, ...] = ()
    written: float = 0.0
    products: float = 0.0
    product_type: DType | None = None
    launches: int = 1


def kernel_seconds(work: KernelWork, device: DeviceSpec) -> float:
    """Return the time of a kernel, launches included."""
    bandwidth = work.threads.bandwidth(device)
    memory = work.written / bandwidth + sum(r.seconds(device, bandwidth) for r in work.reads)
    compute = work.operations / work.threads.operations_per_second(device)
    if work.product_type is not None:
        compute += work.products / (_PRODUCT_SHARE * device.peak_flops(work.product_type))
    return overlapped(compute, memory) + work.launches * LAUNCH_SECONDS


def module_seconds(module: Module, device: DeviceSpec) -> float:
    """Return the time of all kernels, one after another, the bodies of loops counted once."""
    return sum(
        instruction_seconds(inst, device)
        for computation in control_flow_computations(module)
        for inst in computation.instructions
        if is_kernel(inst)
    )


def instruction_seconds(inst: Instruction, device: DeviceSpec) -> float:
    """Return the time of the kernel that one instruction or fusion is."""
    members: Sequence[Instruction] = (inst,)
    results: Sequence[Instruction] = (inst,)
    if inst.opcode.name == "fusion":
        (body,) = inst.called
        members = [m for m in post_order(body) if not m.is_a("tuple", "parameter")]
        results = body.root.operands if body.root.is_a("tuple") else (body.root,)
    product = next((member for member in members if member.is_a(*PRODUCTS)), None)
    known = {*members}
    if product is not None or not all(_is_known(member) for member in known):
        return kernel_seconds(_work(inst, product), device)
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


def _work(inst: Instruction, product: Instruction | None) -> KernelWork:
    """Return the work of what is not made element by element: bytes once, and arithmetic."""
    cost = instruction_cost(inst, _cost_of)
    products = 0
    dtype = None
    factors = {*inst.operands}
    if product is not None:
        products = instruction_cost(product, _cost_of).flops
        dtype = product.operands[0].array.dtype
        if product is not inst:
            below = post_order_from(product.operands)
            factors = {inst.operands[m.attributes.number] for m in below if m.is_a("parameter")}
    results = elements_of(inst.shape)
    beside = _BYTES_PER_RESULT * results
    reads = tuple(
        _read_once(operand, operand.shape.size_bytes if operand in factors else beside)
        for operand in dict.fromkeys(inst.operands)
    )
    operations = cost.flops - products + _TRANSCENDENTAL * cost.transcendentals
    largest = max([results, *(elements_of(operand.shape) for operand in factors)])
    threads = Threads(max(largest / _PER_THREAD, 1.0))
    return KernelWork(threads, operations, reads, inst.shape.size_bytes, products, dtype)


def _cost_of(computation: Computation) -> Cost:
    return computation_cost(computation, _cost_of)


def _read_once(operand: Instruction, most_bytes: int) -> ArrayRead:
    size = min(operand.shape.size_bytes, most_bytes)
    return ArrayRead(size, 1, size, Pattern.NEIGHBOURS)
