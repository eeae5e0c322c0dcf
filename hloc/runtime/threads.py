"""The number of threads of a run, and the pool of this process, which all executables share.

The pool's code is LLVM IR (`hloc/codegen/cpu/thread_pool.py`); it is loaded by the first executable
that can use more than one thread, and its threads are created by the first run that does.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from hloc.codegen.cpu.thread_pool import FORGET, MAX_THREADS, NEEDED, RUN, STOP, pool_text
from hloc.codegen.llvm.object_cache import cached_object
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target, available_cores, host_target
from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass
from hloc.options import CompileOptions
from hloc.runtime.arena import Team
from hloc.runtime.cpu_loader import load_functions
from hloc.runtime.manifest import ProgramManifest

VARIABLE = "HLOC_NUM_THREADS"
"""Environment variable for the default number of threads."""

_SHARES_OUT = sys.platform != "win32"  # the pool uses POSIX threads


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The loaded code of the pool.

    Attributes:
        run: address of its function `run`.
        forget, stop: its other functions.
    """

    run: int
    forget: Callable[[], None]
    stop: Callable[[], None]
    _code: Any


def thread_count(asked: int = 0) -> int:
    """Return the number of threads of a run, the caller's included.

    Args:
        asked: `CompileOptions.threads`; 0 for HLOC_NUM_THREADS, or all cores without it.

    Raises:
        HloError: HLOC_NUM_THREADS is not a number of threads.
    """
    if asked == 0:
        asked = _from_environment() or available_cores()
    return min(asked, MAX_THREADS) if _SHARES_OUT else 1


def _from_environment() -> int:
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise HloError(f"{VARIABLE} must be a number of threads, 0 for all cores, not {text!r}")
    return int(text)


def pool_unit(target: Target) -> Routines:
    """Return the pool's code, before LLVM."""
    clock = int(time.CLOCK_MONOTONIC)
    policy = int(getattr(os, "SCHED_BATCH", getattr(os, "SCHED_OTHER", 0)))
    text = pool_text(target, int(signal.SIG_SETMASK), clock, policy)
    return Routines("pool", (), text, 2)


@cache
def pool(target: Target, number: int = 0) -> Pool:
    """Return a pool of this process; each device of a run has its own, by `number`."""
    unit = pool_unit(target)
    data = cached_object(unit.text, target, unit.level, NEEDED)
    code = load_functions([data], target, (RUN, FORGET, STOP), NEEDED)
    plain = ctypes.CFUNCTYPE(None)
    result = Pool(code.addresses[0], plain(code.addresses[1]), plain(code.addresses[2]), code)
    os.register_at_fork(after_in_child=result.forget)
    atexit.register(result.stop)
    return result


def team_for(manifest: ProgramManifest, machine: Target, options: CompileOptions) -> Team | None:
    """Return the threads that share the kernels of a program, None for a single thread.

    Raises:
        HloError: HLOC_NUM_THREADS is not a number of threads.
    """
    workers = thread_count(options.threads)
    if workers == 1 or not manifest.is_split:
        return None
    return Team(pool(machine).run, workers, manifest.worker_bytes)


def device_team(team: Team | None, device: int, devices: int) -> Team | None:
    """Return a device's share of the threads of `team`, None if that is a single thread."""
    if team is None:
        return None
    workers = team.workers // devices + (device < team.workers % devices)
    if workers <= 1:
        return None
    return Team(pool(host_target(), device).run, workers, team.worker_bytes)
