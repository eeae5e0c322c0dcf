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
        processors: streaming multiprocessors or compute units.
        bytes_per_second: bandwidth of the device memory.
        f32_flops: f32 operations per second, without tensor cores.
        half_flops: f16 and bf16 operations per second, with tensor cores and f32 sums.
        f64_flops: f64 operations per second, without tensor cores.
        l2_bytes: size of the L2 cache, which all processors share.
        tf32_flops, f8_flops, s8_flops: operations per second of tensor cores on these types, 0
            where they do not have them.
    """

    processors: int
    bytes_per_second: float
    f32_flops: float
    half_flops: float
    f64_flops: float = 9.7 * _TERA
    l2_bytes: int = 40 * _MIB
    tf32_flops: float = 0.0
    f8_flops: float = 0.0
    s8_flops: float = 0.0

    def peak_flops(self, dtype: DType, algorithm: str = "") -> float:
        """Return the peak operations per second on an element type; the f32 rate for most types.

        Args:
            dtype: of the factors of a gemm, or of other operands.
            algorithm: of a dot.
        """
        if dtype.name in ("f16", "bf16"):
            return self.half_flops
        if dtype.name in ("f8e4m3fn", "f8e5m2"):
            return self.f8_flops or self.half_flops  # without instructions for f8, as f16
        if dtype.name in ("s8", "u8"):
            return self.s8_flops or self.f32_flops
        if algorithm == "dot_tf32_tf32_f32":
            return self.tf32_flops or self.f32_flops
        return self.f32_flops

    def seconds(self, flops: float, size_bytes: float, dtype: DType, algorithm: str = "") -> float:
        """Return the roofline time of these operations and bytes, fully overlapped."""
        peak = self.peak_flops(dtype, algorithm)
        return max(flops / peak, size_bytes / self.bytes_per_second)


_ROWS = (
    # name, processors, MiB of L2, then 10^12 per second of bytes, f32, half, f64, TF32, f8, s8
    ("A100 80GB PCIe", 108, 40, 1.935, 19.5, 312, 9.7, 156, 0, 624),
    ("A100 80GB", 108, 40, 2.039, 19.5, 312, 9.7, 156, 0, 624),
    ("A100", 108, 40, 1.555, 19.5, 312, 9.7, 156, 0, 624),
    ("A10", 72, 6, 0.6, 31.2, 125, 0.49, 62.5, 0, 250),
    ("H100 PCIe", 114, 50, 2.0, 51, 756, 26, 378, 1513, 1513),
    ("H100", 132, 50, 3.35, 67, 989, 34, 494.5, 1979, 1979),
    ("H200", 132, 50, 4.8, 67, 989, 34, 494.5, 1979, 1979),
    ("B200", 148, 126, 8.0, 75, 2250, 37, 1125, 4500, 4500),
    ("L40S", 142, 96, 0.864, 91.6, 362, 1.4, 183, 733, 733),
    ("L4", 58, 48, 0.3, 30.3, 121, 0.49, 60, 242, 242),
    ("T4", 40, 4, 0.32, 8.1, 65, 0.25, 0, 0, 130),
    ("V100", 80, 6, 0.9, 15.7, 125, 7.8, 0, 0, 0),
    ("MI250X", 110, 8, 1.6, 23.9, 191.5, 23.9, 0, 0, 191.5),
    ("MI300X", 304, 256, 5.3, 163.4, 1307, 81.7, 653.7, 2614.9, 2614.9),
)


def _spec(processors: int, mib: int, *rates: float) -> DeviceSpec:
    memory, f32, half, f64, *others = (rate * _TERA for rate in rates)
    return DeviceSpec(processors, memory, f32, half, f64, mib * _MIB, *others)


DEVICE_SPECS = {name: _spec(processors, mib, *rates) for name, processors, mib, *rates in _ROWS}
"""By name. A driver's name for a device means the first row whose words it all contains."""

DEFAULT_CHIP = "sm_80"

_BY_CAPABILITY = {
    50: "T4",
    70: "V100",
    75: "T4",
    80: "A100",
    86: "A10",
    89: "L40S",
    90: "H100",
    100: "B200",
}
_CONSUMER = 110
"""From this compute capability on, chips are Blackwell's for graphics cards and small machines."""


def spec_of_device(name: str) -> DeviceSpec | None:
    """Return the peaks of a device by the name that its driver reports, None if unknown."""
    words = name.replace("-", " ").split()
    fit = (spec for known, spec in DEVICE_SPECS.items() if set(known.split()) <= set(words))
    return next(fit, None)


def spec_of_chip(chip: str) -> DeviceSpec:
    """Return the peaks of a product with this chip, for estimates.

    Args:
        chip: LLVM's name, such as `sm_90` or `gfx942`; unknown names count as `DEFAULT_CHIP`.
    """
    return DEVICE_SPECS[_product_of(chip)]


def has_tensor_cores(chip: str) -> bool:
    """True if a chip has `mma.sync` of bf16 and asynchronous copies."""
    return capability_of(chip) >= 80


def has_warpgroups(chip: str) -> bool:
    """True if a chip has `wgmma` and tensor map copies: sm_90a only."""
    return chip == "sm_90a"


def capability_of(chip: str) -> int:
    """Return the compute capability, 10 times major plus minor; 0 if it is no chip of NVIDIA."""
    digits = re.match(r"sm_(\d+)", chip)
    return int(digits[1]) if digits else 0


def _product_of(chip: str) -> str:
    if chip.startswith("gfx"):
        return "MI300X" if chip.startswith(("gfx94", "gfx95")) else "MI250X"
    number = capability_of(chip)
    if not number:
        return "A100"
    if number >= _CONSUMER:
        return "L40S"
    known = [name for first, name in _BY_CAPABILITY.items() if first <= number]
    return known[-1] if known else "T4"
