"""A performance model of GPU kernels, to compare alternatives with the same results.

Computation and memory traffic overlap, so most of the shorter of the two is hidden. Bytes are read
from memory once; repeated reads hit the L2 cache. A kernel of few threads reaches neither the
bandwidth nor the arithmetic rate of the device. Estimates are right to a factor of two; comparisons
of two kernels over the same arrays are better than that.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

from hloc.analysis.gpu_devices import DeviceSpec
from hloc.dtypes import DType
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape

LAUNCH_SECONDS = 1.5e-6
"""Seconds between two kernels of a recorded graph: an assumption."""

_HIDDEN = 0.95
"""Fraction of the shorter of arithmetic and memory time that overlaps with the longer."""

_SECTOR_BYTES = 32
"""Bytes of a memory sector, the unit of access."""

_WARP_THREADS = 32
BYTES_IN_FLIGHT = 32
_LATENCY_SECONDS = 6e-7
"""Bytes in flight per thread, and the memory latency: they bound the bandwidth of few threads."""

_BUSY_THREADS = 256
"""Threads per processor needed to keep its arithmetic units busy."""

_CACHE_SPEEDUP = 2.5
"""Bandwidth of the L2 cache relative to that of memory."""

_REGISTERS = 65536
_RESIDENT_THREADS = 2048
_FIRST_REGISTERS = 24
_MOST_REGISTERS = 255
_VALUES_PER_REGISTER = 4
"""Registers and threads of a processor; registers of a thread by the values that it computes."""


class Pattern(Enum):
    """How the 32 threads of a warp read an array.

    UNIFORM is one element for all, NEIGHBOURS are consecutive elements, STRIDED are others.
    """

    UNIFORM = "uniform"
    NEIGHBOURS = "neighbours"
    STRIDED = "strided"


@dataclass(frozen=True, slots=True)
class ArrayRead:
    """The reads of one array by a kernel.

    Attributes:
        size_bytes: of the array.
        element_bytes: of one element.
        asked: reads by all threads together, repeated ones counted each time.
    """

    size_bytes: float
    element_bytes: int
    asked: float
    pattern: Pattern

    def seconds(self, device: DeviceSpec, bandwidth: float) -> float:
        """Return the time to read it at this bandwidth of memory, in bytes per second."""
        asked = self.asked * self.element_bytes
        first = min(self.size_bytes, asked)
        if self.pattern is Pattern.UNIFORM:
            asked /= _WARP_THREADS
        elif self.pattern is Pattern.STRIDED:
            waste = max(_SECTOR_BYTES / max(self.element_bytes, 1), 1.0)
            asked *= waste
            if first > device.l2_bytes / 2:
                first *= waste  # the rest of a sector is evicted before it is read
        again = max(asked - first, 0.0)
        return first / bandwidth + again / (bandwidth * _CACHE_SPEEDUP)


@dataclass(frozen=True, slots=True)
class Threads:
    """The number of threads of a kernel, and of values that each computes."""

    count: float
    values: float = 0.0

    @property
    def registers(self) -> float:
        """An estimate of the registers of a thread."""
        return min(_FIRST_REGISTERS + self.values / _VALUES_PER_REGISTER, _MOST_REGISTERS)

    def resident(self, device: DeviceSpec) -> float:
        """Return the number of resident threads."""
        most = min(_RESIDENT_THREADS, _REGISTERS / self.registers)
        return min(self.count, device.processors * most)

    def bandwidth(self, device: DeviceSpec, in_flight: float = BYTES_IN_FLIGHT) -> float:
        """Return the bytes per second that they can move, each `in_flight` bytes at once."""
        reach = self.resident(device) * in_flight / _LATENCY_SECONDS
        return min(device.bytes_per_second, reach)

    def operations_per_second(self, device: DeviceSpec) -> float:
        """Return instructions per second; a multiplication with an addition is one."""
        enough = device.processors * _BUSY_THREADS
        return device.f32_flops / 2 * min(1.0, max(self.count, 1.0) / enough)


def overlapped(compute: float, memory: float) -> float:
    """Return the time of two activities that overlap, though not completely."""
    return compute + memory - _HIDDEN * min(compute, memory)


# ---------------------------------------------------------------- cost of arithmetic

_INTEGER_DIVISION = 30


@lru_cache(maxsize=256)
def _factor(dtype: DType) -> float:
    if dtype.is_complex:
        return 4.0 * (2 if dtype.bits > 64 else 1)
    if dtype.is_float:
        return 1.0 if dtype.bits == 32 else 1.5
    return 2.0 if dtype.bits == 64 else 1.0


def operations_per_element(inst: Instruction, device: DeviceSpec) -> float:
    """Return the instructions per element of `inst`, its operands being in registers."""
    row = inst.opcode
    if not isinstance(inst.shape, ArrayShape) or row.nop:
        return 0.0
    count = float(row.gpu_weight)
    if row.data_movement and not row.elementwise:
        return count
    dtype = inst.operands[0].array.dtype if inst.operands else inst.shape.dtype
    if inst.is_a("divide", "remainder") and not (dtype.is_float or dtype.is_complex):
        count = _INTEGER_DIVISION
    if dtype.is_float and dtype.bits == 64:
        return count * 1.5 * device.f32_flops / device.f64_flops
    return count * _factor(dtype)
