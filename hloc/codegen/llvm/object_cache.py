"""The cache of objects, so that a module compiled once needs no LLVM the next time.

A file is named by a digest of everything its contents depend on, and sealed under that name
(`hloc/cache_directory.py`). There are two folders: `INSTALLED_FILES` lies in the package and is
only read here (`hloc/runtime/routine_fill.py` fills it); the other is the user's cache.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import llvmlite

from hloc.cache_directory import (
    INSTALLED_FILES,
    cache_directory,
    read_file,
    sealed,
    trim_cache_daily,
    unsealed,
    write_cached,
)
from hloc.codegen.llvm.compile_pool import Unit, compile_units, helpers_for
from hloc.codegen.llvm.object_child import compile_in_long_use
from hloc.codegen.llvm.object_file import check_symbols, llvm_options
from hloc.codegen.llvm.routine_index import read_index, write_index
from hloc.codegen.llvm.target import Target
from hloc.limits import time_check

MAX_CACHE_BYTES = 512 << 20


def cached_object(text: str, target: Target, level: int, also: frozenset[str]) -> bytes:
    """Return what `compile_object` returns, from one of the two folders if it is there."""
    return cached_objects((Unit(text, level),), target, also)[0][0]


def cached_objects(
    units: Sequence[Unit], target: Target, also: frozenset[str], processes: int = 1
) -> tuple[tuple[bytes, ...], int]:
    """Return the objects of `units`, and how many processes LLVM ran in.

    Args:
        units: what to compile, unless it is in one of the two folders.
        target: the machine, as for `compile_object`.
        also: symbols that objects may leave undefined, as for `compile_object`.
        processes: at most this many run, fewer where more would not pay.

    Raises:
        HloError: compilation exceeded the time limit.
    """
    names = [_name_of(unit, target) for unit in units]
    kept = {name: kept_object(name) for name in names}
    for data in kept.values():
        if data is not None:
            check_symbols(data, also=also)
    missing = {n: unit for n, unit in zip(names, units, strict=True) if kept[n] is None}

    check_time = time_check("compile-seconds", "LLVM")

    def compile_here(unit: Unit) -> bytes:
        check_time()
        return compile_in_long_use(unit.text, target, unit.level, also)

    helpers = helpers_for(tuple(missing.values()), processes)
    compiled = compile_units(tuple(missing.values()), target, also, compile_here, helpers)
    for name, data in zip(missing, compiled, strict=True):
        kept[name] = data
        write_cached(name, sealed(name, data))
    if missing:
        trim_cache_daily(MAX_CACHE_BYTES)
    return tuple(data for name in names if (data := kept[name]) is not None), 1 + helpers


def _name_of(unit: Unit, target: Target) -> str:
    known = routine_objects(INSTALLED_FILES, target).get(unit.routine) if unit.routine else None
    return known or object_name(unit.text, target, unit.level)


def routine_objects(directory: Path, target: Target) -> Mapping[str, str]:
    """Return the file of each routine in a folder that can be found without its text."""
    return read_index(directory, _machine_text(target))


def write_routine_objects(directory: Path, target: Target, objects: Mapping[str, str]) -> None:
    """Store the file name of each routine in a folder; raises OSError if that fails."""
    write_index(directory, _machine_text(target), objects)


def kept_object(name: str, directories: Sequence[Path] = ()) -> bytes | None:
    """Return the object in the file `name`, None if no folder (by default both) has it intact."""
    for directory in directories or (INSTALLED_FILES, cache_directory()):
        data = None if directory is None else unsealed(name, read_file(directory, name))
        if data is not None:
            return data
    return None


def object_name(text: str, target: Target, level: int) -> str:
    """Return the name of the file for the result of `compile_object` with these arguments."""
    options = llvm_options(level, target.triple)
    digest = hashlib.sha256(f"{_machine_text(target)}\0{level}\0{options}\0".encode())
    digest.update(text.encode())
    return f"object-{digest.hexdigest()[:40]}.o"


@cache
def _machine_text(target: Target) -> str:
    versions = (llvmlite.__version__, *llvmlite.binding.llvm_version_info)
    return f"{target}\0{versions}"
