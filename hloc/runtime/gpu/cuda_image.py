"""The image that the driver loads: PTX, or a cubin if the driver is too old for the PTX.

A driver assembles PTX of its own version and older ones. It accepts machine code from another
assembler of the same major version.
"""

from __future__ import annotations

import re

from hloc.codegen.gpu.nvptx.cubin import assemble, can_assemble
from hloc.errors import HloError, UnsupportedError

_PTX_OF_CUDA = {
    11000: 70, 11010: 71, 11020: 72, 11030: 73, 11040: 74, 11050: 75, 11060: 76, 11070: 77,
    11080: 78, 12000: 80, 12010: 81, 12020: 82, 12030: 83, 12040: 84, 12050: 85, 12070: 86,
    12080: 87, 12090: 88, 13000: 90, 13010: 91,
}  # fmt: skip
"""First version of CUDA, as returned by `cuDriverGetVersion` -> newest PTX that it accepts, by 10.

Source: PTX ISA, release history.
"""


def newest_ptx(driver_version: int) -> int:
    """Return the newest PTX of a driver, 10 times major plus minor; 0 for very old drivers."""
    known = [ptx for first, ptx in _PTX_OF_CUDA.items() if first <= driver_version]
    return known[-1] if known else 0


def image_for(ptx: str, capability: int, driver_version: int, device: str) -> bytes:
    """Return the image for a device's driver.

    Args:
        ptx: one PTX file.
        capability: compute capability of the device, 10 times major plus minor.
        driver_version: as returned by `cuDriverGetVersion`.
        device: name for messages.

    Raises:
        HloError: the code is for another chip.
        UnsupportedError: the driver is too old for the PTX, and no assembler is installed.
    """
    version, chip = _head(ptx)
    _check_chip(chip, capability, device)
    newest = newest_ptx(driver_version)
    if version <= newest:
        return ptx.encode() + b"\0"
    if not can_assemble():
        raise UnsupportedError(
            f"the driver of {device} takes PTX {newest / 10} and older, but the code is "
            f"PTX {version / 10}",
            notes=("install a newer driver, or `pip install nvidia-nvjitlink`",),
        )
    is_exact = chip[-1].isalpha()
    return assemble(ptx, chip if is_exact else f"sm_{capability}").data


def _head(ptx: str) -> tuple[int, str]:
    """Return version and chip of a PTX file."""
    version = re.search(r"^\.version (\d+)\.(\d+)", ptx, re.MULTILINE)
    target = re.search(r"^\.target (sm_\w+)", ptx, re.MULTILINE)
    assert version is not None, "PTX without a version"
    assert target is not None, "PTX without a target"
    return int(version[1]) * 10 + int(version[2]), target[1]


def is_for(chip: str, capability: int) -> bool:
    """True if code for `chip` runs on a device of a compute capability (10 times major + minor)."""
    wanted = int(re.sub(r"\D", "", chip))
    return wanted == capability if chip[-1].isalpha() else wanted <= capability


def _check_chip(chip: str, capability: int, device: str) -> None:
    if not is_for(chip, capability):
        raise HloError(
            f"code for {chip} does not run on {device}, which is sm_{capability}",
            notes=("--mcpu=native makes code for the GPU of this machine",),
        )
