"""What a backend is, and where the backends are found.

Built-in ones are in `BUILT_IN`; others come from packages through the entry-point group
`hloc.backends`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Protocol

from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.options import CompileOptions


@dataclass(frozen=True, slots=True)
class Stage:
    """A form that a module has on its way to machine code.

    Attributes:
        suffix: of a file that holds it.
        is_text: text, not bytes.
    """

    name: str
    description: str
    suffix: str
    is_text: bool = True


class CompiledModule(Protocol):
    """The result of a backend; stages are made when they are asked for."""

    @property
    def target(self) -> str:
        """Name of the backend."""

    @property
    def stages(self) -> tuple[Stage, ...]: ...

    def stage(self, name: str) -> str | bytes:
        """Return the form called `name`; raises `HloError` if there is none."""


class Backend(Protocol):
    """Turns optimised modules into machine code for one kind of machine."""

    @property
    def name(self) -> str: ...

    @property
    def stages(self) -> tuple[Stage, ...]: ...

    def compile(self, module: Module, options: CompileOptions) -> CompiledModule:
        """Compile `module`, which the backend may change.

        Raises:
            UnsupportedError: the module holds what this target cannot run.
        """


BUILT_IN: dict[str, str] = {"cpu": "hloc.codegen.cpu.backend:CpuBackend"}
"""Name of a backend -> "module:Class"."""

ENTRY_POINTS = "hloc.backends"


def backend_names() -> tuple[str, ...]:
    """Return the names of all backends that are installed, built-in ones first."""
    others = sorted({point.name for point in entry_points(group=ENTRY_POINTS)} - set(BUILT_IN))
    return (*BUILT_IN, *others)


def backend_for(name: str) -> Backend:
    """Return the backend called `name`.

    Raises:
        HloError: there is none; the message names those that are installed.
    """
    if name in BUILT_IN:
        module_name, class_name = BUILT_IN[name].split(":")
        return _made(getattr(import_module(module_name), class_name))
    for point in entry_points(group=ENTRY_POINTS):
        if point.name == name:
            return _made(point.load())
    raise HloError(f"there is no target {name!r}; targets are {', '.join(backend_names())}")


def _made(cls: Any) -> Backend:
    backend: Backend = cls()
    return backend
