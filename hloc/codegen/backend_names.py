"""The names of the backends: built-in ones, and those of packages.

Packages add backends through the entry-point group `hloc.backends`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

BUILT_IN: dict[str, str] = {
    "cpu": "hloc.codegen.cpu.backend:CpuBackend",
    "nvptx64": "hloc.codegen.gpu.nvptx.backend:NvptxBackend",
    "amdgcn": "hloc.codegen.gpu.amdgcn.backend:AmdgcnBackend",
}
"""Name of a backend -> "module:Class"."""

ENTRY_POINTS = "hloc.backends"


def backend_names() -> tuple[str, ...]:
    """Return the names of all backends that are installed, built-in ones first."""
    others = sorted({point.name for point in _entry_points()} - set(BUILT_IN))
    return (*BUILT_IN, *others)


def entry_point(name: str) -> EntryPoint | None:
    """Return the entry point of backend `name`, None if it is built in; the first package wins."""
    found = sorted(_entry_points().select(name=name), key=lambda point: point.value)
    return found[0] if found else None


def _entry_points() -> EntryPoints:
    from importlib.metadata import entry_points  # takes long, and is rarely needed

    return entry_points(group=ENTRY_POINTS)
