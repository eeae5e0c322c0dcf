"""NVIDIA's chips by their compute capability, and the features of each.

PTX versions are the oldest that support the chip, LLVM's default: a driver accepts the PTX of its
own version and older ones. Source: PTX ISA, release history.
"""

from __future__ import annotations

import re
from functools import cache

from hloc.analysis.gpu_devices import capability_of, has_tensor_cores, has_warpgroups
from hloc.codegen.gpu.chips import check_chip, chip_target
from hloc.codegen.llvm.target import Target
from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass

TRIPLE = "nvptx64-nvidia-cuda"
DEFAULT_CHIP = "sm_80"
NEWEST_PTX = 90
"""The highest version that LLVM supports; it ignores others without an error."""

_SHARED_KIB = {50: 48, 60: 48, 70: 96, 75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 120: 99}


@dataclass(frozen=True, slots=True)
class Chip:
    """One kind of chip.

    Attributes:
        name: the name for LLVM and ptxas.
        ptx: version of PTX, 10 times major plus minor.
    """

    name: str
    ptx: int

    @property
    def capability(self) -> int:
        """Compute capability, 10 times major plus minor."""
        return capability_of(self.name)

    @property
    def has_tensor_cores(self) -> bool:
        """True if the chip has `mma.sync` of bf16 and asynchronous copies."""
        return has_tensor_cores(self.name)

    @property
    def has_warpgroups(self) -> bool:
        """True if the chip has `wgmma` and tensor map copies: sm_90a only."""
        return has_warpgroups(self.name)

    @property
    def summary(self) -> str:
        """A description for users."""
        version = f"PTX {self.ptx // 10}.{self.ptx % 10}"
        units = ", tensor cores and copies beside the arithmetic" if self.has_tensor_cores else ""
        more = ", products and attention by warpgroups" if self.has_warpgroups else ""
        return f"{version}, {self.shared_bytes >> 10} KiB of shared memory{units}{more}"

    @property
    def shared_bytes(self) -> int:
        """Most shared memory of a block."""
        known = [kib for first, kib in _SHARED_KIB.items() if first <= self.capability]
        return known[-1] << 10


CHIPS: dict[str, Chip] = {
    name: Chip(name, ptx)
    for name, ptx in {
        "sm_50": 40,
        "sm_52": 41,
        "sm_60": 50,
        "sm_61": 50,
        "sm_70": 60,
        "sm_75": 63,
        "sm_80": 70,
        "sm_86": 71,
        "sm_87": 74,
        "sm_89": 78,
        "sm_90": 78,
        "sm_90a": 80,
        "sm_100": 86,
        "sm_100a": 86,
        "sm_103": 88,
        "sm_110": 90,
        "sm_120": 87,
        "sm_120a": 87,
        "sm_121": 88,
    }.items()
}


def without_warpgroups(name: str) -> str:
    """Return the chip whose code the host build runs instead of that of chip `name`.

    The host build lacks warpgroups and tensor map copies: sm_90a becomes sm_90.
    """
    return name.rstrip("a") if name in CHIPS and CHIPS[name].has_warpgroups else name


def chip_of(target: Target) -> Chip:
    """Return the chip of a target made by `target_for_chip`."""
    return CHIPS[target.cpu]


@cache
def target_for_chip(name: str = "", features: str = "") -> Target:
    """Return the target for a chip.

    Args:
        name: such as `sm_80`; "" is the oldest chip whose tensor cores hloc uses.
        features: such as `+ptx83`, a later version of PTX than the chip needs.

    Raises:
        HloError: the chip is unknown, or another feature is given.
    """
    name = name or DEFAULT_CHIP
    check_chip(name, CHIPS, DEFAULT_CHIP, "nvptx64")
    version = re.fullmatch(r"\+ptx(\d\d)", features)
    if features and not (version and CHIPS[name].ptx <= int(version[1]) <= NEWEST_PTX):
        raise HloError(
            f"target nvptx64 does not take the feature {features!r}",
            notes=(f"it takes +ptx{CHIPS[name].ptx} to +ptx{NEWEST_PTX} for {name}",),
        )
    return chip_target(TRIPLE, name, features, CHIPS[name].shared_bytes, 40 << 20)
