"""AMD's chips by LLVM's names, and their features.

Source: LLVM, "User Guide for AMDGPU Backend", table of processors.
"""

from __future__ import annotations

from functools import cache

from hloc.codegen.gpu.chips import check_chip, chip_target
from hloc.codegen.llvm.target import Target
from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass

TRIPLE = "amdgcn-amd-amdhsa"
DEFAULT_CHIP = "gfx90a"
_LOCAL_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Chip:
    """One kind of chip.

    Attributes:
        name: LLVM's name.
        wave_threads: threads of a wave, 32 or 64; two of hloc's groups of 32 share a wave of 64.
        local_bytes: most shared memory of a block.
        note: the products that have it.
    """

    name: str
    wave_threads: int
    note: str
    local_bytes: int = _LOCAL_BYTES

    @property
    def summary(self) -> str:
        """A description for users."""
        memory = f"{self.local_bytes >> 10} KiB of shared memory"
        return f"{self.note}: waves of {self.wave_threads}, {memory}"


CHIPS: dict[str, Chip] = {
    chip.name: chip
    for chip in (
        Chip("gfx906", 64, "Radeon Instinct MI50, MI60"),
        Chip("gfx908", 64, "Instinct MI100"),
        Chip("gfx90a", 64, "Instinct MI200 series"),
        Chip("gfx942", 64, "Instinct MI300 series"),
        Chip("gfx950", 64, "Instinct MI350 series", 160 << 10),
        Chip("gfx1030", 32, "Radeon RX 6800, 6900"),
        Chip("gfx1100", 32, "Radeon RX 7900"),
        Chip("gfx1101", 32, "Radeon RX 7700, 7800"),
        Chip("gfx1151", 32, "Ryzen AI Max"),
        Chip("gfx1200", 32, "Radeon RX 9060"),
        Chip("gfx1201", 32, "Radeon RX 9070"),
    )
}


@cache
def target_for_chip(name: str = "", features: str = "") -> Target:
    """Return the target for a chip.

    Args:
        name: `gfx90a`; "" is the default chip.
        features: must be ""; waves have the default size of the chip.

    Raises:
        HloError: the chip is unknown, or features are given.
    """
    name = name or DEFAULT_CHIP
    check_chip(name, CHIPS, DEFAULT_CHIP, "amdgcn")
    if features:
        raise HloError(f"target amdgcn does not take the feature {features!r}")
    return chip_target(TRIPLE, name, features, CHIPS[name].local_bytes, 4 << 20)
