"""The protocol of backends, and the lookup of a backend by name."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from hloc.codegen.backend_names import BUILT_IN, backend_names, entry_point
from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.options import CompileOptions

if TYPE_CHECKING:
    from hloc.codegen.lower.hidden_sizes import DynamicBoundary
    from hloc.codegen.plan.plan import Plan


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
    """The result of a backend; stages are generated on demand.

    One that can run in this process has a method `load()` as well, which returns the program
    (`hloc.runtime.loading`).
    """

    @property
    def target(self) -> str:
        """Name of the backend."""

    @property
    def stages(self) -> tuple[Stage, ...]: ...

    def stage(self, name: str) -> str | bytes:
        """Return the form called `name`; raises `HloError` if there is none."""


@runtime_checkable
class PlannedModule(CompiledModule, Protocol):
    """A compiled module that runs hloc's plan in memory that hloc assigned.

    `hloc.runtime.executable.Executable` runs it if its code is in this process; `--memory` shows
    its buffers.
    """

    @property
    def module(self) -> Module:
        """The module as it was scheduled; not to be changed."""

    @property
    def plan(self) -> Plan: ...

    @property
    def boundary(self) -> DynamicBoundary:
        """Parameters and results behind the declared ones, for dynamic sizes."""

    @property
    def options(self) -> CompileOptions: ...


class Backend(Protocol):
    """Turns optimised modules into machine code for one kind of machine.

    Its class is called without arguments. A backend whose attribute `takes_cpu` is true gets the
    processor and the features that the user names (`CompileOptions.cpu`, `features`); the others
    refuse `--mcpu` and `--mattr`. `hloc targets NAME` shows the result of an optional method
    `processors()`, descriptions by name. An optional attribute `libraries` names the libraries
    whose routines it can call instead of its own kernels (`CompileOptions.use_library`). An
    optional method `preload()` imports the files that only some programs need.
    """

    @property
    def name(self) -> str: ...

    @property
    def stages(self) -> tuple[Stage, ...]: ...

    def compile(self, module: Module, options: CompileOptions) -> CompiledModule:
        """Compile `module`, which the backend may change.

        Raises:
            UnsupportedError: the module has instructions that this target cannot run.
        """


def backend_for(name: str) -> Backend:
    """Return the backend called `name`.

    Raises:
        HloError: no such backend (the message lists the installed ones), or its package fails.
    """
    if name in BUILT_IN:
        module_name, class_name = BUILT_IN[name].split(":")
        return _instance(getattr(import_module(module_name), class_name))
    point = entry_point(name)
    if point is None:
        raise HloError(f"there is no target {name!r}; targets are {', '.join(backend_names())}")
    try:
        return _instance(point.load())
    except Exception as fault:  # importing a foreign package may raise anything
        reason = f"{type(fault).__name__}: {fault}"
        raise HloError(f"target {name!r} of {backend_origin(name)} fails: {reason}") from fault


def backend_origin(name: str) -> str:
    """Return where an installed backend comes from: `built in`, or `package NAME VERSION`."""
    if name in BUILT_IN:
        return "built in"
    point = entry_point(name)
    if point is None or point.dist is None:
        return "a package"
    return f"package {point.dist.name} {point.dist.version}"


def stage_names() -> tuple[str, ...]:
    """Return the names of all stages of all backends; backends that fail have none."""
    result: dict[str, None] = {}
    for name in backend_names():
        try:
            result |= dict.fromkeys(stage.name for stage in backend_for(name).stages)
        except HloError:
            continue
    return tuple(result)


def processors_of(backend: Backend) -> dict[str, str]:
    """Return the descriptions of the processors that `backend` supports, by name."""
    result: dict[str, str] = getattr(backend, "processors", dict)()
    return result


def preload(backend: Backend) -> None:
    """Import all files that `backend` may need, so that no later compilation waits for them."""
    getattr(backend, "preload", lambda: None)()


def takes_cpu(backend: Backend) -> bool:
    """True if the user may name a processor for `backend`."""
    return bool(getattr(backend, "takes_cpu", False))


def libraries_of(backend: Backend) -> tuple[str, ...]:
    """Return the names of the libraries that `backend` can call."""
    return tuple(getattr(backend, "libraries", ()))


def check_libraries(backend: Backend, names: Iterable[str]) -> None:
    """Refuse libraries that `backend` does not know.

    Raises:
        HloError: the message lists the libraries that it knows.
    """
    known = libraries_of(backend)
    for name in names:
        if name not in known:
            some = f"it calls {', '.join(known)}" if known else "it calls none"
            raise HloError(f"target {backend.name!r} calls no library {name!r}; {some}")


def _instance(cls: Any) -> Backend:
    backend: Backend = cls()
    return backend
