"""The index of compiled functions, so that a changed program compiles only what was changed.

An object in the cache is named by the text of its unit, which changes with any of its functions.
The index says which functions each object has, so that the others are found again. It is one sealed
file per machine (`hloc/cache_directory.py`) with a line per object, the newest first:

    FILE FUNCTION=DIGEST ... CALLED ...

The digest is of all that the code of the function depends on. Old lines make room for new ones. Of
processes that write at the same time, one may lose its lines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Set

from hloc.cache_directory import read_cached, sealed, unsealed, write_cached
from hloc.codegen.llvm.compile_pool import Function, Unit
from hloc.codegen.llvm.object_file import machine_text, object_digest
from hloc.codegen.llvm.target import Target

_MOST_BYTES = 1 << 18
"""Most bytes of the lines: those of 4,500 functions, which take 2 ms to search, and 2 to write."""

_LEAST_SHARE = 0.25
"""Least share of an object's functions that a program must want, since it loads all of them."""

_DIGEST_CHARACTERS = 24


def find_functions(
    wanted: Collection[tuple[Function, int]],
    symbols: Set[str],
    target: Target,
    read: Callable[[str], bytes | None],
) -> tuple[list[bytes], list[tuple[Function, int]]]:
    """Return objects that have wanted functions, and the functions that none has.

    Those with most of them come first. They define no symbol of the program twice, and need none of
    another program.

    Args:
        wanted: functions and their levels.
        symbols: all symbols of the program, those of `wanted` included.
        target: the machine.
        read: returns the object in a file, None if it is not there any more.
    """
    left = {_word(function, level, target): (function, level) for function, level in wanted}
    words = set(left)
    found = [line for text in _lines(target) if not words.isdisjoint(line := text.split(" "))]
    found.sort(key=lambda line: -len(words.intersection(line)))
    taken, objects = set(symbols), []
    for file, *entries in found:
        functions = [word for word in entries if "=" in word]
        ours = [word for word in functions if word in left]
        others = {word.partition("=")[0] for word in functions if word not in left}
        calls = {word for word in entries if "=" not in word}
        if len(ours) < _LEAST_SHARE * len(functions) or others & taken or not calls <= symbols:
            continue
        data = read(file)
        if data is not None:
            objects.append(data)
            taken |= others
            for word in ours:
                del left[word]
    return objects, [*left.values()]


def index_functions(units: Mapping[str, Unit], target: Target) -> None:
    """Add objects to the index.

    Args:
        units: the functions of each object, by file.
        target: the machine.
    """
    lines = [_line(file, unit, target) for file, unit in units.items()]
    kept = [line for line in _lines(target) if line.partition(" ")[0] not in units]
    data = "\n".join([*lines, *kept]).encode()
    if len(data) > _MOST_BYTES:
        data = data[: data.rfind(b"\n", 0, _MOST_BYTES)]
    name = _file_name(target)
    write_cached(name, sealed(name, data))


def _line(file: str, unit: Unit, target: Target) -> str:
    words = [_word(function, unit.level, target) for function in unit.functions]
    calls = dict.fromkeys(call for function in unit.functions for call in function.calls)
    return " ".join([file, *words, *calls])


def _word(function: Function, level: int, target: Target) -> str:
    text = "\n".join([*function.declarations, function.text])
    return f"{function.name}={object_digest(text, target, level)[:_DIGEST_CHARACTERS]}"


def _lines(target: Target) -> list[str]:
    name = _file_name(target)
    data = unsealed(name, read_cached(name))
    return data.decode().split("\n") if data else []


def _file_name(target: Target) -> str:
    return f"index-{hashlib.sha256(machine_text(target).encode()).hexdigest()[:40]}.bin"
