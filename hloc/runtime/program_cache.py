"""The cache of compiled programs, so that a text compiled once is loaded the next time.

A file is named by a digest of everything the program depends on: the text, the options, the
machine, the versions of LLVM and of hloc's own sources, and sealed under that name
(`hloc/cache_directory.py`). Programs that call the host, or that were changed by plug-in passes,
are not cached: the text does not determine their behaviour.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import llvmlite

from hloc.cache_directory import (
    cache_directory,
    read_cached,
    sealed,
    trim_cache_daily,
    unsealed,
    write_cached,
)
from hloc.codegen.backend import CompiledModule, Stage
from hloc.codegen.llvm.object_cache import MAX_CACHE_BYTES
from hloc.codegen.llvm.target import Target, target_for
from hloc.codegen.lower.hidden_sizes import DynamicBoundary
from hloc.errors import InternalError
from hloc.ir.registered_targets import registered_targets
from hloc.lazy_dataclass import dataclass
from hloc.opt.registry import has_plugins
from hloc.options import CompileOptions
from hloc.runtime.cpu_loader import load_objects
from hloc.runtime.executable import Executable
from hloc.runtime.loading import Runnable, load_compiled
from hloc.runtime.manifest import ProgramManifest
from hloc.runtime.manifest_file import Program, program_bytes, read_program
from hloc.runtime.threads import team_for
from hloc.scipy_routines import has_lapack

if TYPE_CHECKING:
    from hloc.codegen.cpu.backend import CpuModule
    from hloc.codegen.plan.plan import Plan
    from hloc.ir.module import Module

_MAX_PROGRAM_BYTES = 32 << 20
_SOURCE_ENDINGS = (".py", ".lark")
_NO_SOURCES = ("__pycache__", "prebuilt")

Compile: TypeAlias = Callable[[], CompiledModule]


@dataclass(eq=False)
class KeptModule:
    """The compiled module behind a program from the cache; recompiled on access.

    The backend is imported only then: its emitters take long to import.
    """

    manifest: ProgramManifest
    machine: Target
    options: CompileOptions
    compile_again: Compile
    target: str = "cpu"

    @property
    def stages(self) -> tuple[Stage, ...]:
        from hloc.codegen.cpu.backend import STAGES

        return STAGES

    @cached_property
    def compiled(self) -> CpuModule:
        """The module after compilation."""
        from hloc.codegen.cpu.backend import CpuModule

        value = self.compile_again()
        assert isinstance(value, CpuModule)
        return value

    @property
    def boundary(self) -> DynamicBoundary:
        return self.manifest.boundary

    @property
    def module(self) -> Module:
        return self.compiled.module

    @property
    def plan(self) -> Plan:
        return self.compiled.plan

    def stage(self, name: str) -> str | bytes:
        """Return the form called `name`; raises `HloError` if there is none."""
        return self.compiled.stage(name)


def load_or_compile(
    text: str, options: CompileOptions, compile_text: Compile, note: str = ""
) -> Runnable:
    """Return the program of `text` from the cache, or compile it by `compile_text`.

    A `note` is stored with a program that has none yet, for `kept_program`.

    Raises:
        HloError: errors in the text; it needs more memory than the limit, or than is available.
        UnsupportedError: the target cannot run it.
    """
    if not _can_be_kept(options):
        return load_compiled(compile_text())
    machine = target_for(options.triple, options.cpu, options.features)
    name = _file_name(text, options, machine)
    program = _kept(name) if machine.is_host else None
    result = _loaded(program, machine, options, compile_text)
    if result is not None and program is not None:
        if note and not program.note:
            _write(name, replace(program, note=note))
        return result
    value = load_compiled(compile_text())
    if isinstance(value, Executable):
        _keep(name, value, note)
    return value


def kept_program(
    text: str, options: CompileOptions, compile_text: Compile
) -> tuple[Executable, str] | None:
    """Return the program of `text` and its note if both are in the cache."""
    if not _can_be_kept(options):
        return None
    machine = target_for(options.triple, options.cpu, options.features)
    program = _kept(_file_name(text, options, machine)) if machine.is_host else None
    if program is None or not program.note:
        return None
    result = _loaded(program, machine, options, compile_text)
    return None if result is None else (result, program.note)


def _can_be_kept(options: CompileOptions) -> bool:
    can_be = options.target == "cpu" and not options.verify_each and not has_plugins()
    return can_be and cache_directory() is not None and source_digest() != ""


def _loaded(
    program: Program | None, machine: Target, options: CompileOptions, compile_text: Compile
) -> Executable | None:
    if program is None:
        return None
    manifest, objects = program.manifest, program.objects
    module = KeptModule(manifest, machine, options, compile_text)
    try:
        return Executable(
            module,
            manifest,
            lambda: load_objects(objects, machine, manifest.combiners),
            team_for(manifest, machine, options),
        )
    except InternalError:  # the linker rejects the cached objects: compile again
        return None


def _keep(name: str, executable: Executable, note: str) -> None:
    from hloc.codegen.cpu.backend import CpuModule

    compiled = executable.compiled
    if not isinstance(compiled, CpuModule) or compiled.plan.host_functions:
        return
    if executable.buffers.constant_bytes > _MAX_PROGRAM_BYTES:
        return
    _write(name, Program(executable.manifest, compiled.objects(), note))


def _write(name: str, program: Program) -> None:
    data = program_bytes(program)
    if data is None or len(data) > _MAX_PROGRAM_BYTES:
        return
    write_cached(name, sealed(name, data))
    trim_cache_daily(MAX_CACHE_BYTES)


def _kept(name: str) -> Program | None:
    kept = unsealed(name, read_cached(name))
    if kept is None:
        return None
    try:
        return read_program(kept)
    except (ValueError, KeyError, TypeError, struct.error):
        return None


def _file_name(text: str, options: CompileOptions, machine: Target) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    digest.update(
        _conditions(options, machine, has_lapack(), registered_targets(), source_digest())
    )
    return f"program-{digest.hexdigest()[:40]}.bin"


@cache
def _conditions(
    options: CompileOptions,
    machine: Target,
    calls_lapack: bool,
    targets: frozenset[str],
    sources: str,
) -> bytes:
    """Return what a program depends on besides its text, as bytes."""
    versions = (llvmlite.__version__, *llvmlite.binding.llvm_version_info, sources)
    parts = (options, machine, calls_lapack, sorted(targets), versions)
    return "\0".join(("", *map(str, parts))).encode()


@cache
def source_digest() -> str:
    """Return a digest of names, sizes and mtimes of hloc's source files, "" if there are none."""
    result: list[tuple[str, int, int]] = []
    folders = [str(Path(__file__).parents[1])]
    try:
        while folders:
            for entry in os.scandir(folders.pop()):
                if entry.name.endswith(_SOURCE_ENDINGS):
                    status = entry.stat()
                    result.append((entry.path, status.st_size, status.st_mtime_ns))
                elif entry.is_dir(follow_symlinks=False) and entry.name not in _NO_SOURCES:
                    folders.append(entry.path)
    except OSError:  # installed in an archive
        return ""
    return hashlib.sha256(repr(sorted(result)).encode()).hexdigest() if result else ""
