"""The names of the backends: built-in ones, and those of packages.

Packages add backends through the entry-point group `hloc.backends`.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

BUILT_IN: dict[str, str] = {
    "cpu": "hloc.codegen.cpu.backend:CpuBackend",
    "nvptx64": "hloc.codegen.gpu.nvptx.backend:NvptxBackend",
    "amdgcn": "hloc.codegen.gpu.amdgcn.backend:AmdgcnBackend",
}
"""Name of a backend -> "module:Class"."""

ENTRY_POINTS = "hloc.backends"


def backend_names() -> tuple[str, ...]:
    """Return the names of all backends that are installed, built-in ones first."""
    others = sorted({point.name for point in entry_points(group=ENTRY_POINTS)} - set(BUILT_IN))
    return (*BUILT_IN, *others)


def entry_point(name: str) -> EntryPoint | None:
    """Return where a package says that backend `name` is; of several packages, the first wins."""
    found = sorted(entry_points(group=ENTRY_POINTS, name=name), key=lambda point: point.value)
    return found[0] if found else None
