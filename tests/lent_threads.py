"""Threads for compiled programs that a test hands out itself, instead of hloc's pool."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from hloc.codegen.llvm.target import Target
from hloc.options import CompileOptions
from hloc.runtime import host_programs
from hloc.runtime.arena import Team
from hloc.runtime.manifest import ProgramManifest

Task = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)
ParallelFor = ctypes.CFUNCTYPE(None, ctypes.c_void_p, Task, ctypes.c_void_p, ctypes.c_int)

Share: TypeAlias = Callable[[int, Callable[[int], None]], None]
"""Calls the function for each part."""

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(
    path
    for folder in ("tests/guarded", "examples", "examples/modules")
    for path in (ROOT / folder).glob("*.hlo")
    if path.name != "dynamic.hlo"  # sizes at the boundary, for which inputs are not made here
)
"""Programs that threads run."""


def last_worker_alone(count: int, call: Callable[[int], None]) -> None:
    """The caller's part comes last and finds nothing to do."""
    for part in reversed(range(count)):
        call(part)


def lend_threads(monkeypatch: pytest.MonkeyPatch, share: Share) -> list[int]:
    """Let `share` hand out the parts of kernels; returns how many each region had."""
    regions: list[int] = []

    def run(_context: int, task: Callable[..., None], data: int, count: int) -> None:
        regions.append(count)
        share(count, lambda part: task(data, part))

    callback = ParallelFor(run)

    def team(manifest: ProgramManifest, _machine: Target, options: CompileOptions) -> Team | None:
        workers = options.threads
        address = ctypes.cast(callback, ctypes.c_void_p).value
        assert address is not None
        return None if workers == 1 else Team(address, workers, manifest.worker_bytes)

    monkeypatch.setattr(host_programs, "team_for", team)
    return regions
