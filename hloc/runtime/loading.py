"""Loads a compiled module of any target as a callable program.

Built-in targets have a loader in `LOADERS`; modules of other backends have a method `load`. Higher
layers do not depend on the classes of either.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from hloc.codegen.backend import CompiledModule
from hloc.dtypes import Array
from hloc.errors import UnsupportedError
from hloc.options import CompileOptions


class Runnable(Protocol):
    """A loaded program: what `hloc.compile` returns for any target."""

    def __call__(self, *arrays: Any, donate: Collection[int] = ()) -> list[Array]:
        """Run the program.

        Args:
            arrays: one per parameter leaf (tuples flattened depth first, tokens left out).
            donate: numbers of the arguments whose memory the run may overwrite; a target may
                ignore it.

        Returns:
            New arrays, or donated ones, one per result leaf.

        Raises:
            HloError: wrong number, type or shape of arguments, or the program failed.
        """

    def stage(self, name: str) -> str | bytes:
        """Return a stage of the compilation; raises `HloError` if there is no such stage."""


@runtime_checkable
class Loadable(Protocol):
    """A compiled module that loads itself, as those of backends from packages do."""

    def load(self) -> Runnable:
        """Return the program, ready to run in this process.

        Raises:
            UnsupportedError: this machine cannot run it.
        """


LOADERS: dict[str, str] = {
    "cpu": "hloc.runtime.host_programs:load_compiled",
    "nvptx64": "hloc.runtime.gpu.devices_executable:load_compiled",
    "amdgcn": "hloc.runtime.gpu.devices_executable:load_compiled",
}
"""Name of a built-in backend -> "module:function", which takes its compiled module."""


NATIVE_PROCESSORS: dict[str, str] = {"nvptx64": "hloc.runtime.gpu.cuda_devices:native_chip"}
"""Name of a built-in backend -> "module:function", which returns the processor of this machine, ""
if there is none. The code generators do not access devices themselves."""


def with_native_processor(options: CompileOptions) -> CompileOptions:
    """Return options with the processor of this machine if they name none, or `native`.

    Raises:
        UnsupportedError: `native` is requested, and there is none.
    """
    where = NATIVE_PROCESSORS.get(options.target)
    if where is None or options.cpu not in ("", "native") or (options.simulate and not options.cpu):
        return options
    module_name, function_name = where.split(":")
    name = getattr(import_module(module_name), function_name)()
    if options.cpu and not name:
        raise UnsupportedError(f"this machine has no device for target {options.target}")
    return replace(options, cpu=name)


TUNERS: dict[str, str] = {"cpu": "hloc.runtime.autotune:tuned"}
"""Name of a built-in backend -> "module:function", which returns its compiled module with the
kernels that are fastest on this machine. GPUs do this when they load a module."""


def with_fastest_kernels(compiled: CompiledModule) -> CompiledModule:
    """Return a compiled module with kernels that were measured, on a target that can do that.

    Raises:
        HloError: it is for another machine.
    """
    where = TUNERS.get(compiled.target)
    if where is None:
        return compiled
    module_name, function_name = where.split(":")
    tuned: CompiledModule = getattr(import_module(module_name), function_name)(compiled)
    return tuned


def load_compiled(compiled: CompiledModule) -> Runnable:
    """Load a compiled module into this process.

    Raises:
        UnsupportedError: code for that target, or for that machine, cannot run here.
        HloError: it needs more memory than is available.
    """
    where = LOADERS.get(compiled.target)
    if where is not None:
        module_name, function_name = where.split(":")
        loaded: Runnable = getattr(import_module(module_name), function_name)(compiled)
        return loaded
    if isinstance(compiled, Loadable):
        return compiled.load()
    raise UnsupportedError(f"code for target {compiled.target!r} cannot run in this process")
