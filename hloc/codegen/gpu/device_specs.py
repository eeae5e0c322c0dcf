"""What devices can reach at best, for shares of it: facts from data sheets, not measurements.

Source: NVIDIA's data sheets of the products, dense rates at boost clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from hloc.dtypes import DType


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """Peaks of one product.

    Attributes:
        words: all stand in the name that the driver gives.
        bytes_per_second: of the device's memory.
        f32_flops: operations per second on f32, without tensor cores.
        half_flops: on f16 and bf16, with tensor cores, sums in f32.
    """

    words: tuple[str, ...]
    processors: int
    bytes_per_second: float
    f32_flops: float
    half_flops: float

    def peak_flops(self, dtype: DType) -> float:
        """Return operations per second on elements of a type; that of f32 for most."""
        return self.half_flops if dtype.name in ("f16", "bf16") else self.f32_flops

    def seconds(self, flops: float, size_bytes: float, dtype: DType) -> float:
        """Return the least time for so many operations and bytes, done at the same time."""
        return max(flops / self.peak_flops(dtype), size_bytes / self.bytes_per_second)


_TERA = 1e12
DEVICE_SPECS = (  # the first that fits: longer names first
    DeviceSpec(("A100", "80GB", "PCIe"), 108, 1.935 * _TERA, 19.5 * _TERA, 312 * _TERA),
    DeviceSpec(("A100", "80GB"), 108, 2.039 * _TERA, 19.5 * _TERA, 312 * _TERA),
    DeviceSpec(("A100",), 108, 1.555 * _TERA, 19.5 * _TERA, 312 * _TERA),
    DeviceSpec(("H100", "PCIe"), 114, 2.0 * _TERA, 51 * _TERA, 756 * _TERA),
    DeviceSpec(("H100",), 132, 3.35 * _TERA, 67 * _TERA, 989 * _TERA),
    DeviceSpec(("H200",), 132, 4.8 * _TERA, 67 * _TERA, 989 * _TERA),
    DeviceSpec(("B200",), 148, 8.0 * _TERA, 75 * _TERA, 2250 * _TERA),
    DeviceSpec(("L40S",), 142, 0.864 * _TERA, 91.6 * _TERA, 362 * _TERA),
    DeviceSpec(("L4",), 58, 0.3 * _TERA, 30.3 * _TERA, 121 * _TERA),
)


def spec_of_device(name: str) -> DeviceSpec | None:
    """Return the peaks of a device by the name that its driver gives, None if unknown."""
    words = name.replace("-", " ").split()
    for spec in DEVICE_SPECS:
        if all(word in words for word in spec.words):
            return spec
    return None
