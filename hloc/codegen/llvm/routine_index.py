"""The index from routines to objects, so that a program finds an object without writing its text.

The index lies beside the objects and is valid for the sources that made them: every module of hloc
that was loaded when it was written. If a source has another size or time, its contents are
compared; if these differ too, routines are found by their texts, as without an index.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from hloc.cache_directory import read_file, sealed, unsealed, write_whole

_PACKAGE = Path(__file__).parents[2]
_UPPER_FLOORS = ("cli", "driver", "learn", "lessons", "repl", "runtime")
"""Rooms that code generation cannot import."""


def index_name(machine: str) -> str:
    """Return the name of the file for a machine, described by any text."""
    return f"routines-{hashlib.sha256(machine.encode()).hexdigest()[:40]}.index"


def write_index(directory: Path, machine: str, objects: Mapping[str, str]) -> None:
    """Write the index of a folder: the file of each routine by name.

    Raises:
        OSError: it cannot be written.
    """
    files = _loaded_files()
    head = (" ".join(files), _status(files), _contents(files))
    lines = [*head, *(f"{name} {file}" for name, file in objects.items())]
    data = "\n".join(lines).encode()
    name = index_name(machine)
    write_whole(directory, name, sealed(name, data))


@cache
def read_index(directory: Path, machine: str) -> Mapping[str, str]:
    """Return the file of each routine by name; empty if there is no index for these sources."""
    name = index_name(machine)
    kept = unsealed(name, read_file(directory, name))
    if kept is None:
        return {}
    names, status, contents, *lines = kept.decode().split("\n")
    files = names.split(" ")
    try:
        is_same = _status(files) == status or _contents(files) == contents
    except OSError:  # one is gone, or all lie in an archive
        return {}
    return dict(line.split(" ") for line in lines) if is_same else {}


def _loaded_files() -> list[str]:
    """Return the sources of all loaded modules on this floor and below, within the package."""
    result = []
    for key, module in sorted(sys.modules.items()):
        package, _, rest = key.partition(".")
        file = getattr(module, "__file__", None)
        if package == _PACKAGE.name and rest.split(".")[0] not in _UPPER_FLOORS and file:
            result.append(Path(file).relative_to(_PACKAGE).as_posix())
    return result


def _status(files: Iterable[str]) -> str:
    """Return a digest of sizes and times; what writes to a file changes one of its times."""
    result = []
    for file in files:
        status = os.stat(f"{_PACKAGE}{os.sep}{file}")
        result.append((status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    return hashlib.sha256(repr(result).encode()).hexdigest()


def _contents(files: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for file in files:
        with open(f"{_PACKAGE}{os.sep}{file}", "rb") as source:
            digest.update(hashlib.sha256(source.read()).digest())
    return digest.hexdigest()
