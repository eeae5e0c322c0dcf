"""The hook through which hloc sees, and may change, every module that XLA or hloc compiles for JAX.

XLA calls it on one of its threads with the bytes of an HloModuleProto, and takes bytes back. A
program compiled with a hook must not be used without it, and vice versa. So the active hooks are
part of the key of JAX's in-memory caches, and JAX's disk cache, which has no such key, is off while
a hook is active.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from functools import cache
from types import TracebackType
from typing import Any, ClassVar, Literal, TypeAlias

from hloc.errors import HloError, InternalError
from hloc.formats.from_proto import module_from_bytes
from hloc.formats.runtime import message_class
from hloc.formats.to_proto import module_to_bytes
from hloc.ir.events import Event
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.jax.buffers import keep_buffers_apart
from hloc.jax.installed import jax_package
from hloc.opt.dce import DeadCodeElimination
from hloc.opt.pass_base import PassContext
from hloc.pjrt.compiling import TRANSFORMS

Stage: TypeAlias = Literal["pre-scheduler", "post-scheduler"]
STAGES: dict[str, str] = {"pre-scheduler": "PRE_SCHEDULER", "post-scheduler": "POST_SCHEDULER"}

_serial = itertools.count(1)


class CompilationHook:
    """A context in which `transform` sees every module that XLA compiles.

    It can be entered again, and nested; the outer one then sees the modules first.
    """

    def __init__(
        self,
        transform: Callable[[Module], tuple[Module, Sequence[Event]] | None],
        platforms: str | Sequence[str] | None = None,
        stage: Stage = "pre-scheduler",
    ) -> None:
        """Prepare a hook.

        Args:
            transform: returns the module that replaces the given one, and the events that led to
                it; None to leave it. It runs on a thread of XLA.
            platforms: as for `hloc.jax.passes`.
            stage: as for `hloc.jax.passes`.

        Raises:
            HloError: jax or protobuf is not installed, jax is too old, the stage does not exist.
        """
        if stage not in STAGES:
            raise HloError(f"stage is one of {', '.join(STAGES)}, not {stage!r}")
        message_class("HloModuleProto")  # a missing package is reported before JAX compiles
        self._transform = transform
        self._where: dict[str, Any] = {
            "name": f"hloc-{next(_serial)}",
            "stage": getattr(_xla_extension().PipelineStage, STAGES[stage]),
            "platforms": platforms,
        }
        self._sees_hloc = platforms is None or not {"hloc", "cpu"}.isdisjoint(
            [platforms] if isinstance(platforms, str) else platforms
        )
        self._contexts: list[Any] = []  # JAX's contexts, one per entry
        self._fault: Exception | None = None

    def __enter__(self) -> CompilationHook:
        if self._contexts:
            raise HloError("this scope of passes is active already")
        _DiskCache.suspend()
        key = _cache_key()
        context = key((*key.value, self._where["name"]))
        context.__enter__()
        self._contexts.append(context)
        self._fault = None
        _xla_extension().register_hlo_module_transformation(self._run_in_xla, **self._where)
        if self._sees_hloc:
            TRANSFORMS.append(self._run)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        _xla_extension().clear_hlo_module_transformation(**self._where)
        if self._sees_hloc:
            TRANSFORMS.remove(self._run)
        self._contexts.pop().__exit__(kind, fault, where)
        _DiskCache.resume()
        own = self._fault
        if own is not None and fault is not None and str(own) in str(fault):
            raise own from None

    def _run_in_xla(self, data: bytes) -> bytes | None:
        return self._run(data, in_xla=True)

    def _run(self, data: bytes, in_xla: bool = False) -> bytes | None:
        """Return the bytes of the transformed module; None if it is unchanged."""
        if not self._contexts:  # a backend that was started later keeps the hook
            return None
        name = "a module of JAX"
        try:
            module = module_from_bytes(data, name)
            name = f"module {module.name}"
            module.log.recording = True
            changed = self._transform(module)
            if changed is None:
                return None
            module, events = changed
            if in_xla:
                keep_buffers_apart(module, events)
            DeadCodeElimination().run(module, PassContext())  # parameters of fusions without users
            verify(module)
            return module_to_bytes(module)
        except Exception as fault:
            self._fault = _for_people(fault, name)
            raise self._fault from None


def _for_people(fault: Exception, name: str) -> HloError:
    text = fault.message if isinstance(fault, HloError) else str(fault)
    kind = "" if isinstance(fault, HloError | InternalError) else f"{type(fault).__name__}: "
    notes = [*fault.diagnostics[0].notes] if isinstance(fault, HloError) else []
    return HloError(f"hloc's passes on {name} that JAX compiles: {kind}{text}", notes=notes)


def _xla_extension() -> Any:
    """Return `jax.extend.xla`."""
    jax = jax_package("a hook into JAX's compilations")
    try:
        from jax.extend import xla
    except ImportError:
        raise HloError(
            f"a hook into JAX's compilations needs jax 0.10.2, but this is {jax.__version__}"
        ) from None
    return xla


@cache
def _cache_key() -> Any:
    """Return the part of JAX's cache keys that names the active hooks."""
    return jax_package("hloc.jax.passes").make_user_context(())


class _DiskCache:
    """JAX's disk cache, which is off while any hook is active."""

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _users: ClassVar[int] = 0
    _was_on: ClassVar[bool] = False

    @classmethod
    def suspend(cls) -> None:
        with cls._lock:
            cls._users += 1
            if cls._users == 1:
                cls._was_on = jax_package("hloc.jax.passes").config.jax_enable_compilation_cache
                cls._set(False)

    @classmethod
    def resume(cls) -> None:
        with cls._lock:
            cls._users -= 1
            if cls._users == 0:
                cls._set(cls._was_on)

    @classmethod
    def _set(cls, on: bool) -> None:
        config = jax_package("hloc.jax.passes").config
        if not cls._was_on or not config.jax_compilation_cache_dir:
            return
        from jax.experimental.compilation_cache import compilation_cache

        config.update("jax_enable_compilation_cache", on)
        compilation_cache.reset_cache()  # JAX reads the setting only once
