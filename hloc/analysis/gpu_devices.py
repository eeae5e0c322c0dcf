"""Peak rates of GPUs from data sheets; nothing here is measured.

Sources: NVIDIA's data sheets and architecture papers of V100, T4, A100, A10, H100, H200, B200, L4
and L40S, AMD's of MI250X (one of its two dies) and MI300X; dense rates at boost clock.
"""

from __future__ import annotations

import re

from hloc.dtypes import DType
from hloc.lazy_dataclass import dataclass

_TERA = 1e12
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """Peaks of one product.

    Attributes:
        words: all of them occur in the device name that the driver reports.
        processors: streaming multiprocessors or compute units.
        bytes_per_second: bandwidth of the device memory.
        f32_flops: f32 operations per second, without tensor cores.
        half_flops: f16 and bf16 operations per second, with tensor cores and f32 sums.
        f64_flops: f64 operations per second, without tensor cores.
        l2_bytes: size of the L2 cache, which all processors share.
    """

    words: tuple[str, ...]
    processors: int
    bytes_per_second: float
    f32_flops: float
    half_flops: float
    f64_flops: float = 9.7 * _TERA
    l2_bytes: int = 40 * _MIB

    def peak_flops(self, dtype: DType) -> float:
        """Return the peak operations per second on an element type; the f32 rate for most types."""
        return self.half_flops if dtype.name in ("f16", "bf16") else self.f32_flops

    def seconds(self, flops: float, size_bytes: float, dtype: DType) -> float:
        """Return the roofline time of these operations and bytes, fully overlapped."""
        return max(flops / self.peak_flops(dtype), size_bytes / self.bytes_per_second)


def _spec(
    name: str,
    processors: int,
    terabytes: float,
    f32: float,
    half: float,
    f64: float,
    l2_mib: int,
) -> DeviceSpec:
    """Return a row; rates in 10^12 per second."""
    return DeviceSpec(
        tuple(name.split()),
        processors,
        terabytes * _TERA,
        f32 * _TERA,
        half * _TERA,
        f64 * _TERA,
        l2_mib * _MIB,
    )


_A100 = _spec("A100", 108, 1.555, 19.5, 312, 9.7, 40)
_A10 = _spec("A10", 72, 0.6, 31.2, 125, 0.49, 6)
_B200 = _spec("B200", 148, 8.0, 75, 2250, 37, 126)
_H100 = _spec("H100", 132, 3.35, 67, 989, 34, 50)
_L4 = _spec("L4", 58, 0.3, 30.3, 121, 0.49, 48)
_L40S = _spec("L40S", 142, 0.864, 91.6, 362, 1.4, 96)
_T4 = _spec("T4", 40, 0.32, 8.1, 65, 0.25, 4)
_V100 = _spec("V100", 80, 0.9, 15.7, 125, 7.8, 6)
_MI250X = _spec("MI250X", 110, 1.6, 23.9, 191.5, 23.9, 8)
_MI300X = _spec("MI300X", 304, 5.3, 163.4, 1307, 81.7, 256)

DEVICE_SPECS = (  # the first that fits: longer names first
    _spec("A100 80GB PCIe", 108, 1.935, 19.5, 312, 9.7, 40),
    _spec("A100 80GB", 108, 2.039, 19.5, 312, 9.7, 40),
    _A100,
    _A10,
    _spec("H100 PCIe", 114, 2.0, 51, 756, 26, 50),
    _H100,
    _spec("H200", 132, 4.8, 67, 989, 34, 50),
    _B200,
    _L40S,
    _L4,
    _T4,
    _V100,
    _MI250X,
    _MI300X,
)

DEFAULT_CHIP = "sm_80"

_BY_CAPABILITY = {
    50: _T4,
    70: _V100,
    75: _T4,
    80: _A100,
    86: _A10,
    89: _L40S,
    90: _H100,
    100: _B200,
}
_CONSUMER = 110
"""From this compute capability on, chips are Blackwell's for graphics cards and small machines."""


def spec_of_device(name: str) -> DeviceSpec | None:
    """Return the peaks of a device by the name that its driver reports, None if unknown."""
    words = name.replace("-", " ").split()
    for spec in DEVICE_SPECS:
        if all(word in words for word in spec.words):
            return spec
    return None


def spec_of_chip(chip: str) -> DeviceSpec:
    """Return the peaks of a product with this chip, for estimates.

    Args:
        chip: LLVM's name, such as `sm_90` or `gfx942`; unknown names count as `DEFAULT_CHIP`.
    """
    if chip.startswith("gfx"):
        return _MI300X if chip.startswith(("gfx94", "gfx95")) else _MI250X
    capability = re.match(r"sm_(\d+)", chip)
    if capability is None:
        return _A100
    number = int(capability[1])
    if number >= _CONSUMER:
        return _L40S
    known = [spec for first, spec in _BY_CAPABILITY.items() if first <= number]
    return known[-1] if known else _T4
