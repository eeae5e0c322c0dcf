"""The directory for files that hloc can make again: the user's own, not readable by others.

`HLOC_CACHE_DIR` names it, empty for none; else it is `hloc` in `XDG_CACHE_HOME` or `~/.cache`.
Files of code are sealed: they begin with a digest of their name, which stands for all that the
code depends on, and of what follows. One that was cut short, changed or renamed is never loaded.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path

_OURS = re.compile(
    r"(?:grammar|kernel|object|program|tuning|unfinished)-\w+(?:\.json|\.o|\.bin)?", re.ASCII
)
INSTALLED_FILES = Path(__file__).parent / "prebuilt"
"""What was made for this machine when hloc was installed; need not be there, is only read."""

_DIGEST_BYTES = 32
_DAY_SECONDS = 24 * 60 * 60
_HOUR_SECONDS = 60 * 60
_NEXT_LOOK: dict[Path, float] = {}
"""When this process looks again whether a directory is to be trimmed, in seconds of the epoch."""


def state_folder() -> Path:
    """Return where hloc keeps what it remembers between runs; it may not exist."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "hloc"


@cache
def cache_directory() -> Path | None:
    """Return the directory, made if need be; None if there is none that is safe to use.

    A directory of another user, or one that others may write to, is not used: what lies there
    may come from anybody.
    """
    named = os.environ.get("HLOC_CACHE_DIR")
    if named == "":
        return None
    try:
        path = Path(named) if named else _default()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except (OSError, RuntimeError, ValueError):  # no home directory, a name that cannot be one
        return None
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
        return None
    return path


def _default() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base and os.path.isabs(base) else Path.home() / ".cache") / "hloc"


def read_cached(name: str) -> bytes | None:
    """Return the contents of the cached file `name`, None if there is no such file."""
    directory = cache_directory()
    return None if directory is None else read_file(directory, name)


def read_file(directory: Path, name: str) -> bytes | None:
    """Return the contents of the file `name` in `directory`, None if it cannot be read."""
    try:
        with open(f"{directory}{os.sep}{name}", "rb") as file:
            return file.read()
    except OSError:
        return None


def sealed(name: str, data: bytes) -> bytes:
    """Return the contents of a file called `name` that holds `data`."""
    return _digest(name, data) + data


def unsealed(name: str, contents: bytes | None) -> bytes | None:
    """Return the data in the contents of the file `name`, None if they are not its own."""
    if contents is None:
        return None
    data = contents[_DIGEST_BYTES:]
    return data if contents[:_DIGEST_BYTES] == _digest(name, data) else None


def _digest(name: str, data: bytes) -> bytes:
    digest = hashlib.sha256(f"{name}\0".encode())
    digest.update(data)
    return digest.digest()


def write_cached(name: str, data: bytes) -> None:
    """Write the cached file `name`, whole or not at all; a full disk or the like is no fault."""
    directory = cache_directory()
    if directory is not None:
        with suppress(OSError):
            write_whole(directory, name, data)


def write_whole(directory: Path, name: str, data: bytes) -> None:
    """Write the file `name` in `directory`, whole or not at all; raises OSError if it cannot."""
    made = f"{directory}{os.sep}unfinished-{os.getpid():x}_{os.urandom(8).hex()}"
    handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(handle, left) :]
        finally:
            os.close(handle)
        os.replace(made, f"{directory}{os.sep}{name}")
    except BaseException:  # a full disk, Ctrl-C
        with suppress(OSError):
            os.unlink(made)
        raise


def cached_sizes() -> list[int]:
    """Return the bytes of each file in the cache; files that vanish meanwhile are left out."""
    return [status.st_size for status, _ in _files()]


def cached_kinds() -> dict[str, int]:
    """Return how many files of each kind are in the cache: grammars, kernels, objects, programs."""
    found = Counter(os.path.basename(path).split("-")[0] for _, path in _files())
    return dict(sorted(found.items()))


def trim_cache(limit_bytes: int) -> None:
    """Remove the files that were not used for longest until at most `limit_bytes` are left.

    Only files that hloc wrote count: whoever names a directory may have other things there. Files
    that a killed process did not finish are removed an hour later.
    """
    files = _files()
    for status, path in tuple(files):
        is_left = os.path.basename(path).startswith("unfinished-")
        if is_left and time.time() - status.st_mtime > _HOUR_SECONDS:
            with suppress(OSError):
                os.unlink(path)
            files.remove((status, path))
    total = sum(status.st_size for status, _ in files)
    for status, path in sorted(files, key=lambda file: (file[0].st_atime_ns, file[1])):
        if total <= limit_bytes:
            return
        with suppress(OSError):
            os.unlink(path)
        total -= status.st_size


def trim_cache_daily(limit_bytes: int) -> None:
    """Do `trim_cache` unless a process did it within a day: looking at all files takes a while.

    A process looks no more than once an hour whether one has.
    """
    directory, now = cache_directory(), time.time()
    if directory is None or now < _NEXT_LOOK.get(directory, 0):
        return
    _NEXT_LOOK[directory] = now + _HOUR_SECONDS
    marker = directory / "trimmed"
    with suppress(OSError):
        is_due = not marker.exists() or now - marker.stat().st_mtime > _DAY_SECONDS
        if is_due:
            marker.touch()
            trim_cache(limit_bytes)


def _files() -> list[tuple[os.stat_result, str]]:
    directory = cache_directory()
    found: list[tuple[os.stat_result, str]] = []
    if directory is None:
        return found
    with suppress(OSError):
        for entry in os.scandir(directory):
            with suppress(OSError):
                if _OURS.fullmatch(entry.name):
                    found.append((entry.stat(), entry.path))
    return found
