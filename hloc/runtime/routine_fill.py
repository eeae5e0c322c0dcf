"""Compiles all routines before any program needs them.

They go into the user's cache (`hloc cache --fill`), or into the package when hloc is installed from
its sources (`hatch_build.py`), as a library ships its kernels. They are found by a digest of text,
processor and versions, so another machine or version compiles its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from hloc.cache_directory import sealed, write_cached, write_whole
from hloc.codegen.cpu.emitters.routine_table import all_routines
from hloc.codegen.cpu.split_routine import MOST_ARRAYS, split_routine
from hloc.codegen.cpu.subnormals import flushing_mode
from hloc.codegen.cpu.thread_pool import NEEDED
from hloc.codegen.llvm.compile_pool import Unit, compile_units, helpers_for, process_count
from hloc.codegen.llvm.object_cache import kept_object, object_name, write_routine_objects
from hloc.codegen.llvm.object_file import compile_object
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.lazy_dataclass import dataclass
from hloc.runtime.threads import pool_unit

_AT_ONCE = 400
"""Units that are compiled before they are written: what is done stays if this process is ended."""


@dataclass(frozen=True, slots=True)
class Filled:
    """The result of filling a cache.

    Attributes:
        compiled: number of compiled units.
        present: number of units that were present.
        size_bytes: size of the compiled units.
    """

    compiled: int
    present: int
    size_bytes: int


def routine_units(target: Target) -> tuple[Routines, ...]:
    """Return all units that do not depend on any program."""
    modes = (None, flushing_mode(target))
    splits = [split_routine(n, mode) for mode in modes for n in range(1, MOST_ARRAYS + 1)]
    return (*all_routines(target).values(), *dict.fromkeys(splits), pool_unit(target))


def fill_cache(target: Target, units: Sequence[Routines] | None = None) -> Filled:
    """Compile the units that neither folder has into the user's cache; by default all units."""
    return _fill(target, units, lambda name: kept_object(name) is not None, write_cached)


def fill_directory(
    directory: Path, target: Target, units: Sequence[Routines] | None = None
) -> Filled:
    """Compile into `directory`, which afterwards has these units only.

    Raises:
        OSError: it cannot be written.
    """
    units = units or routine_units(target)
    directory.mkdir(parents=True, exist_ok=True)
    names = {object_name(unit.text, target, unit.level) for unit in units}
    for old in directory.glob("object-*.o"):
        if old.name not in names:
            with suppress(OSError):
                os.unlink(old)
    filled = _fill(
        target,
        units,
        lambda name: kept_object(name, (directory,)) is not None,
        lambda name, data: write_whole(directory, name, data),
    )
    called = (unit for unit in units if unit.declarations)
    objects = {unit.name: object_name(unit.text, target, unit.level) for unit in called}
    write_routine_objects(directory, target, objects)
    return filled


def _fill(
    target: Target,
    units: Sequence[Routines] | None,
    is_there: Callable[[str], bool],
    write: Callable[[str, bytes], None],
) -> Filled:
    """Compile and write the routines that are not there, some at a time to bound memory."""
    units = units or routine_units(target)
    also = NEEDED | {name for unit in units for name in unit.symbols}
    named = {object_name(unit.text, target, unit.level): unit for unit in units}
    missing = [name for name in named if not is_there(name)]
    size_bytes = 0
    for start in range(0, len(missing), _AT_ONCE):
        names = missing[start : start + _AT_ONCE]
        part = [Unit(named[name].text, named[name].level) for name in names]
        helpers = helpers_for(part, process_count())
        objects = compile_units(part, target, also, partial(_compiled, target, also), helpers)
        for name, data in zip(names, objects, strict=True):
            write(name, sealed(name, data))
            size_bytes += len(data)
    return Filled(len(missing), len(named) - len(missing), size_bytes)


def _compiled(target: Target, also: frozenset[str], unit: Unit) -> bytes:
    return compile_object(unit.text, target, unit.level, also)
