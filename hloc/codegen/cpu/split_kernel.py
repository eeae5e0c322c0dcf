"""Which kernels run on several threads, and in what parts.

Parts are ranges of a kernel's outermost loop, whose iterations are independent. The result of an
iteration depends neither on the part it lies in nor on the thread that computes it, so results have
the same bits for every number of threads. `split_routine` is the code that claims the parts.
"""

from __future__ import annotations

from typing import Any

from hloc.analysis.cost import Cost, computation_cost, instruction_cost
from hloc.analysis.epilogue import PRODUCTS
from hloc.codegen.kernels.context import root_of
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import CACHE_LINE_BYTES

MIN_NANOSECONDS = 80_000
"""Kernels with at least this estimated time are split: twice the time to wake a thread."""

_COMPUTING_WEIGHT = 4
"""Arithmetic counts this much more than memory there: small arrays lie in the cache of the core
that wrote them, and would have to move to the other cores."""

_LEAST_NANOSECONDS = 5_000
"""The estimated time of the smallest parts."""

_TILE, _MANY_TILES = 16, 256
"""Parts of many steps begin at multiples of the tiles of transposes, which vectors divide; so do
all parts where there are that many tiles: steps of 4 would leave the vectors empty."""

_CACHED_BYTES = 2 << 20
_CACHED_BYTES_PER_NANOSECOND = 32
_BYTES_PER_NANOSECOND = 12
"""What one core moves: of arrays that fit its cache, and of what is beyond."""

_MOST_REPEATED = 2
"""The work that every thread repeats is at most 1 / this of the total.

Time on two threads relative to one, for products that a limit of a quarter left to one thread: 0.61
for 100x1000x100 and 49x960x160, 0.65 for 64x4096x64, 0.7 for 64x4000x16 (AVX2).
"""

_COPIED_BYTES_PER_NANOSECOND = 12
_MOST_COPIED = 16
"""Where a thread takes several parts, what all parts repeat is at most 1 / this of the total.

Measured, by the time of 1, 2, 4, 8 and 16 parts on one thread: gemms of 512 and 1024 rows pack 20
bytes per nanosecond, convolutions 8 (AVX2).
"""

_FLOPS_PER_NANOSECOND = 32
_PRODUCT_FLOPS_PER_NANOSECOND = 100
_FUNCTIONS_PER_NANOSECOND = 1
"""What one core computes. Elementary functions of f32, AVX2: exponential, tanh and log 1.0 to 1.2
per nanosecond, erf 0.6, sine and power 0.3, sqrt 1.8; with AVX-512 about twice as many."""

_GRAIN_NANOSECONDS = 2000
_SHORT_STEP_NANOSECONDS = 200
_SHORT_STEP_GRAIN = 64
"""Short steps may be lanes of LLVM's vectors, which should be aligned alike in all parts."""


@dataclass(frozen=True, slots=True)
class Split:
    """The partition of the outermost loop of a kernel.

    Attributes:
        grain: parts begin at multiples of it, a power of two.
        least: iterations of the smallest part.
        most: the most threads that take part.
        nanoseconds: estimated time of the kernel on one thread.
        is_ordered: iterations begin in their order: all threads share one range.
        repeated_nanoseconds: estimated time of the work that every part repeats.
    """

    grain: int
    least: int
    most: int
    nanoseconds: int
    is_ordered: bool = False
    repeated_nanoseconds: int = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated nanoseconds of a kernel on one thread: for its memory, and its arithmetic.

    `measured` is for other work, whose time the emitter knows.
    """

    moving: int
    computing: int
    measured: int = 0

    @property
    def nanoseconds(self) -> int:
        """All of it."""
        return self.moving + self.computing + self.measured

    def slowed(self, factor: float) -> float:
        """Return all of it where memory takes `factor` times as long."""
        return self.nanoseconds + (factor - 1) * self.moving

    @property
    def weight(self) -> int:
        """What decides whether threads share the kernel, in nanoseconds."""
        return self.moving + _COMPUTING_WEIGHT * self.computing + self.measured


def split_of(plan: KernelPlan[Any], estimate: Estimate) -> Split | None:
    """Return the partition of a kernel; None if it should run on one thread.

    Args:
        plan: that of the kernel.
        estimate: of its time.
    """
    extent, nanoseconds = plan.extent, estimate.nanoseconds
    if extent < 2 or estimate.weight < MIN_NANOSECONDS:
        return None
    grain = _grain(extent, nanoseconds)
    if extent <= grain:
        return None
    if plan.repeated_bytes:
        copied = plan.repeated_bytes // _COPIED_BYTES_PER_NANOSECOND
        if copied * _MOST_REPEATED >= nanoseconds:
            return None
        parts = nanoseconds // max(copied * _MOST_COPIED, _LEAST_NANOSECONDS)
        least = _multiple(-(-extent // max(parts, 1)), grain)
        most = -(-extent // grain)
        return Split(grain, least, most, nanoseconds, repeated_nanoseconds=copied)
    least = _multiple(-(-extent * _LEAST_NANOSECONDS // nanoseconds), grain)
    if least > _TILE > grain:
        grain, least = _TILE, _multiple(least, _TILE)
    return Split(grain, least, -(-extent // least), nanoseconds)


def estimate_of(inst: Instruction, *, in_place: bool = False) -> Estimate:
    """Estimate the time of one thread for the kernel of `inst`.

    The constants do not depend on the machine, so that parts are the same on all machines.
    `in_place` says that a result shares the memory of an operand.
    """

    def called(computation: Computation) -> Cost:
        return computation_cost(computation, called)

    cost = instruction_cost(inst, called)
    members = inst.called[0].instructions if inst.opcode.name == "fusion" else (inst,)
    is_product = any(member.is_a(*PRODUCTS) for member in members)
    flops_per_nanosecond = _PRODUCT_FLOPS_PER_NANOSECOND if is_product else _FLOPS_PER_NANOSECOND
    moved = min(cost.bytes, cost.bytes_written + _read_bytes(inst))
    root = root_of(inst)
    if in_place and root.is_a("dynamic-update-slice"):
        moved = min(moved, 2 * root.operands[1].array.size_bytes)
    return Estimate(
        moved_nanoseconds(moved),
        cost.flops // flops_per_nanosecond + cost.transcendentals // _FUNCTIONS_PER_NANOSECOND,
    )


def moved_nanoseconds(size_bytes: int) -> int:
    """Estimate the time in which one thread reads or writes `size_bytes`."""
    return (
        min(size_bytes, _CACHED_BYTES) // _CACHED_BYTES_PER_NANOSECOND
        + max(size_bytes - _CACHED_BYTES, 0) // _BYTES_PER_NANOSECOND
    )


def _read_bytes(inst: Instruction) -> int:
    """Return the bytes read of the operands; of sliced operands, the size of the slices."""
    if inst.opcode.name != "fusion":
        return sum(operand.shape.size_bytes for operand in inst.operands)
    total = 0
    for parameter in inst.called[0].parameters:
        size = parameter.shape.size_bytes
        taken = sum(
            user.shape.size_bytes if _takes_part(user) and user.operands[0] is parameter else size
            for user in parameter.users
        )
        total += min(size, taken)
    return total


def _takes_part(inst: Instruction) -> bool:
    """True if `inst` reads at most as many elements of its operand as its result has."""
    return inst.opcode.data_movement and inst.array.elements < inst.operands[0].array.elements


def _multiple(size: int, of: int) -> int:
    return -(-size // of) * of


def _grain(extent: int, nanoseconds: int) -> int:
    """Return the granularity of parts in steps, a power of two."""
    step_nanoseconds = nanoseconds / extent
    grain = _SHORT_STEP_GRAIN if step_nanoseconds < _SHORT_STEP_NANOSECONDS else 1
    while grain * step_nanoseconds < _GRAIN_NANOSECONDS:
        grain *= 2
    return max(grain, _TILE) if extent >= _TILE * _MANY_TILES else grain


def worker_bytes(scratch_bytes: int) -> int:
    """Return the bytes that each worker but the first needs for this much scratch memory."""
    return _multiple(scratch_bytes, CACHE_LINE_BYTES)
