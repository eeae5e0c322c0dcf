"""Links between devices, and the mesh they connect: bytes per second and latency by mesh axis.

A device sends along one mesh axis at the link's rate while it receives at the same rate. Presets
are per-device rates in one direction, from data sheets: NVLink 4 of an H100 (18 links), PCIe 5 x16,
one axis of a TPU v5p, 400 Gbit/s InfiniBand, 100 Gbit/s Ethernet. `local` is several devices in one
process, which copy through shared memory.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from hloc.analysis.network.link_file import DEFAULT, read_link_file
from hloc.errors import HloError
from hloc.ir.replica_groups import DeviceMesh, Ids
from hloc.lazy_dataclass import dataclass
from hloc.near_names import did_you_mean
from hloc.source import Span


@dataclass(frozen=True, slots=True)
class Link:
    """The connection between neighbours along one mesh axis.

    Attributes:
        name: a preset's name, or the text it was read from.
        bytes_per_second: bandwidth of one device, in one direction.
        latency_seconds: latency of one message, software included.
    """

    name: str
    bytes_per_second: float
    latency_seconds: float

    def seconds(self, size_bytes: float, rounds: int) -> float:
        """Return the time to send `size_bytes` in `rounds` messages one after the other."""
        return size_bytes / self.bytes_per_second + rounds * self.latency_seconds


PRESETS = {
    link.name: link
    for link in (
        Link("local", 8e9, 5e-6),
        Link("pcie", 50e9, 5e-6),
        Link("nvlink", 450e9, 2e-6),
        Link("ici", 90e9, 1e-6),
        Link("infiniband", 50e9, 3e-6),
        Link("ethernet100", 12.5e9, 15e-6),
    )
}
"""Links by name."""

_UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_PER_SECOND = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}
_INLINE = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)B?(?:/s)?/(\d+(?:\.\d+)?)(ns|us|ms|s)")


def parse_link(text: str, span: Span | None = None) -> Link:
    """Read a preset's name or `BANDWIDTH/LATENCY`, such as `25GB/5us`; units are powers of 1000.

    Args:
        text: the link.
        span: where it is written, if in a file.

    Raises:
        HloError: the text is neither, or has a bandwidth of 0.
    """
    word = text.strip()
    if word in PRESETS:
        return PRESETS[word]
    found = _INLINE.fullmatch(word)
    if found is None or not float(found[1]):
        raise HloError(
            f"expected a link, one of {', '.join(PRESETS)}, or BANDWIDTH/LATENCY such as "
            f"25GB/5us, found '{word[:60]}'{did_you_mean(word, list(PRESETS))}",
            span,
        )
    return Link(word, float(found[1]) * _UNITS[found[2]], float(found[3]) / _PER_SECOND[found[4]])


def parse_links(text: str, mesh: DeviceMesh) -> tuple[Link, ...]:
    """Return the link of each axis of `mesh`.

    Args:
        text: one link for all axes, a list by axis: `x=nvlink,y=ethernet100`, or the name of a
            file with such a table (`link_file.py`), which ends in `.toml`.
        mesh: its axes are named in `text`.

    Raises:
        HloError: an invalid link, an unknown axis, or an axis without a link.
    """
    names = [name for name, _ in mesh.axes]
    found: dict[str, Link] = {}
    if text.endswith(".toml"):
        entries = read_link_file(text)
        default = entries.pop(DEFAULT, None)
        if default is not None:
            found = dict.fromkeys(names, parse_link(default.text, default.span))
        for name, entry in entries.items():
            _check_axis(name, mesh, entry.span)
            found[name] = parse_link(entry.text, entry.span)
    elif "=" not in text:
        found = dict.fromkeys(names, parse_link(text))
    else:
        for part in text.split(","):
            name, _, value = part.partition("=")
            _check_axis(name.strip(), mesh)
            found[name.strip()] = parse_link(value)
    missing = [name for name in names if name not in found]
    if missing:
        raise HloError(f"no link is given for axis '{missing[0]}' of the mesh {mesh_text(mesh)}")
    return tuple(found[name] for name in names)


def _check_axis(name: str, mesh: DeviceMesh, span: Span | None = None) -> None:
    if name not in (axis for axis, _ in mesh.axes):
        raise HloError(f"links are for axis '{name[:60]}', but the mesh is {mesh_text(mesh)}", span)


def mesh_text(mesh: DeviceMesh) -> str:
    """Return `x=4,y=2`."""
    return ",".join(f"{name}={size}" for name, size in mesh.axes)


@dataclass(frozen=True)
class Network:
    """The devices of a mesh and the link of each of its axes."""

    mesh: DeviceMesh
    links: tuple[Link, ...]

    @cached_property
    def _place(self) -> Ids:
        """The row-major position in the mesh of each device id."""
        order = self.mesh.device_array().ravel()
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return place

    def coordinates(self, devices: Sequence[int]) -> Ids:
        """Return an array `[devices, axes]`."""
        sizes = [size for _, size in self.mesh.axes]
        at = np.unravel_index(self._place[list(devices)], sizes)
        return np.stack(at, axis=1)

    def spans(self, group: Sequence[int]) -> tuple[int, ...] | None:
        """Return how many devices `group` spans along each axis; None if it is no sub-mesh."""
        at = self.coordinates(group)
        extents = tuple(len(np.unique(at[:, axis])) for axis in range(at.shape[1]))
        return extents if int(np.prod(extents)) == len(group) else None

    def differing(self, source: int, target: int) -> list[int]:
        """Return the axes along which two devices have different coordinates."""
        at = self.coordinates((source, target))
        return [axis for axis in range(at.shape[1]) if at[0, axis] != at[1, axis]]

    def slowest(self, axes: Sequence[int]) -> int:
        """Return the axis of `axes` with the lowest rate, the first of equals."""
        return min(axes, key=lambda axis: self.links[axis].bytes_per_second)
