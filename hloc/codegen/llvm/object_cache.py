"""The cache of objects, so that a module compiled once needs no LLVM the next time.

A file is named by a digest of everything its contents depend on, and sealed under that name
(`hloc/cache_directory.py`). There are two folders: `INSTALLED_FILES` lies in the package and is
only read here (`hloc/runtime/routine_fill.py` fills it); the other is the user's cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hloc.cache_directory import (
    INSTALLED_FILES,
    cache_directory,
    read_file,
    sealed,
    trim_cache_daily,
    unsealed,
    write_cached,
)
from hloc.codegen.llvm.compile_pool import Unit, compile_units, function_units, helpers_for
from hloc.codegen.llvm.function_index import find_functions, index_functions
from hloc.codegen.llvm.object_child import compile_in_long_use
from hloc.codegen.llvm.object_file import check_symbols, machine_text, object_digest
from hloc.codegen.llvm.routine_index import read_index, write_index
from hloc.codegen.llvm.target import Target
from hloc.lazy_dataclass import dataclass
from hloc.limits import time_check

MAX_CACHE_BYTES = 512 << 20

_LEAST_INDEXED_SECONDS = 0.05
"""The functions of a program are indexed if LLVM takes at least this long for all of them."""


@dataclass(frozen=True, slots=True)
class MachineCode:
    """The objects of a program.

    Attributes:
        objects: those of the units in their order, as far as they were kept or compiled as they
            are; then those of functions that were found or compiled apart from their unit.
        processes: in how many LLVM ran.
        functions: the number of functions (`Unit.functions`).
        kept: the number of functions whose code was in the cache.
    """

    objects: tuple[bytes, ...]
    processes: int = 1
    functions: int = 0
    kept: int = 0


def cached_object(text: str, target: Target, level: int, also: frozenset[str]) -> bytes:
    """Return what `compile_object` returns, from one of the two folders if it is there."""
    return cached_objects((Unit(text, level),), target, also).objects[0]


def cached_objects(
    units: Sequence[Unit], target: Target, also: frozenset[str], processes: int = 1
) -> MachineCode:
    """Return the objects of `units`.

    Args:
        units: what to compile, unless it is in one of the two folders.
        target: the machine, as for `compile_object`.
        also: symbols that objects may leave undefined, as for `compile_object`.
        processes: at most this many run, fewer where more would not pay.

    Raises:
        HloError: compilation exceeded the time limit.
    """
    names = [_name_of(unit, target) for unit in units]
    objects = {name: data for name in names if (data := kept_object(name)) is not None}
    missing = {n: unit for n, unit in zip(names, units, strict=True) if n not in objects}
    is_indexed = sum(u.seconds for u in units if u.functions) >= _LEAST_INDEXED_SECONDS
    found, missing = _found(missing, target, also) if is_indexed else ([], missing)
    for data in (*objects.values(), *found):
        check_symbols(data, also=also)

    check_time = time_check("compile-seconds", "LLVM")

    def compile_here(unit: Unit) -> bytes:
        check_time()
        return compile_in_long_use(unit.text, target, unit.level, also)

    helpers = helpers_for(tuple(missing.values()), processes)
    compiled = compile_units(tuple(missing.values()), target, also, compile_here, helpers)
    for name, data in zip(missing, compiled, strict=True):
        objects[name] = data
        write_cached(name, sealed(name, data))
    if is_indexed and (new := {name: unit for name, unit in missing.items() if unit.functions}):
        index_functions(new, target)
    if missing:
        trim_cache_daily(MAX_CACHE_BYTES)
    ordered = dict.fromkeys(name for name in (*names, *missing) if name in objects)
    functions = sum(len(unit.functions) for unit in units)
    compiled_functions = sum(len(unit.functions) for unit in missing.values())
    return MachineCode(
        (*(objects[name] for name in ordered), *found),
        1 + helpers,
        functions,
        functions - compiled_functions,
    )


def _found(
    missing: dict[str, Unit], target: Target, also: frozenset[str]
) -> tuple[list[bytes], dict[str, Unit]]:
    """Return objects that have functions of missing units, and what is missing beside them.

    Units are by the names of their files.
    """
    wanted = [(f, unit.level) for unit in missing.values() for f in unit.functions]
    found, left = find_functions(wanted, also, target, kept_object) if wanted else ([], [])
    if not found:
        return [], missing
    rest = {name: unit for name, unit in missing.items() if not unit.functions}
    for level in dict.fromkeys(level for _, level in left):
        for unit in function_units([f for f, its_level in left if its_level == level], level):
            rest[_name_of(unit, target)] = unit
    return found, rest


def _name_of(unit: Unit, target: Target) -> str:
    known = routine_objects(INSTALLED_FILES, target).get(unit.routine) if unit.routine else None
    return known or object_name(unit.text, target, unit.level)


def routine_objects(directory: Path, target: Target) -> Mapping[str, str]:
    """Return the file of each routine in a folder that can be found without its text."""
    return read_index(directory, machine_text(target))


def write_routine_objects(directory: Path, target: Target, objects: Mapping[str, str]) -> None:
    """Store the file name of each routine in a folder; raises OSError if that fails."""
    write_index(directory, machine_text(target), objects)


def kept_object(name: str, directories: Sequence[Path] = ()) -> bytes | None:
    """Return the object in the file `name`, None if no folder (by default both) has it intact."""
    for directory in directories or (INSTALLED_FILES, cache_directory()):
        data = None if directory is None else unsealed(name, read_file(directory, name))
        if data is not None:
            return data
    return None


def object_name(text: str, target: Target, level: int) -> str:
    """Return the name of the file for the result of `compile_object` with these arguments."""
    return f"object-{object_digest(text, target, level)[:40]}.o"
