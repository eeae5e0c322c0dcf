"""The cache directory, for files that hloc can recreate; private to the user.

`HLOC_CACHE_DIR` names it, empty for none; else it is `hloc` in `XDG_CACHE_HOME` or `~/.cache`.
Files of code are sealed: they begin with a digest of their name, which identifies
all inputs of the code, and of their contents. A truncated, changed or renamed file is never loaded.
Neither is one that another user could have written (`hloc/private_files.py`): the digest detects
accidents, it is no protection. hloc warns about it once and compiles without the file.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
import warnings
from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path

from hloc.errors import printable
from hloc.private_files import UnsafeFileError, check_folder, read_like, read_private

_OURS = re.compile(
    r"(?:grammar|index|kernel|object|program|tuning|unfinished)-\w+(?:\.json|\.o|\.bin)?", re.ASCII
)
INSTALLED_FILES = Path(__file__).parent / "prebuilt"
"""Files built when hloc was installed; they may be missing and are only read."""

_DIGEST_BYTES = 32
_DAY_SECONDS = 24 * 60 * 60
_HOUR_SECONDS = 60 * 60
_NEXT_LOOK: dict[Path, float] = {}
"""Time, in seconds of the epoch, at which this process next checks a directory for trimming."""
_WARNED: set[str] = set()
"""Warnings that this process has given."""


def state_folder() -> Path:
    """Return the folder of hloc's state between runs; it may not exist."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "hloc"


@cache
def cache_directory() -> Path | None:
    """Return the directory, created if necessary; None if there is none that is safe to use.

    One that others may write to is not used, with a warning: its files could come from anybody.
    """
    try:
        return _checked_directory()
    except UnsafeFileError as fault:
        advice = "make it your own (chown, chmod go-w), or name another folder in HLOC_CACHE_DIR"
        _warn("the cache", str(fault), advice)
        return None


def why_no_cache() -> str:
    """Return why `cache_directory` is None, "" if it is not."""
    try:
        found = _checked_directory()
    except UnsafeFileError as fault:
        return str(fault)
    if found is not None:
        return ""
    return "HLOC_CACHE_DIR is empty" if _is_off() else "the folder cannot be made"


def _is_off() -> bool:
    return os.environ.get("HLOC_CACHE_DIR") == ""


def _checked_directory() -> Path | None:
    """Return the directory; None if it is disabled or cannot be created.

    Raises:
        UnsafeFileError: others may write to it.
    """
    if _is_off():
        return None
    named = os.environ.get("HLOC_CACHE_DIR")
    try:
        path = Path(os.path.abspath(named)) if named else _default()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_folder(str(path))
    except (OSError, RuntimeError, ValueError):  # no home directory, or an invalid name
        return None
    return path


def _warn(what: str, why: str, advice: str) -> None:
    """Warn once in this process that `what` is not used."""
    if what not in _WARNED:
        _WARNED.add(what)
        warnings.warn(f"{what} is not used: {printable(why)}; {advice}", RuntimeWarning, 2)


def _default() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base and os.path.isabs(base) else Path.home() / ".cache") / "hloc"


def read_cached(name: str) -> bytes | None:
    """Return the contents of the cached file `name`, None if there is no such file."""
    directory = cache_directory()
    return None if directory is None else read_file(directory, name)


def read_file(directory: Path, name: str) -> bytes | None:
    """Return the contents of the file `name` in `directory`, None if it cannot be read.

    A file in the cache must belong to the user and not be a link. Files installed with
    hloc are trusted like its sources: no more users may be able to write to them. Others are
        rejected with a warning.
    """
    path = f"{directory}{os.sep}{name}"
    try:
        return read_like(path, __file__) if directory == INSTALLED_FILES else read_private(path)
    except UnsafeFileError as fault:
        _warn("a cached file", str(fault), "`hloc cache --clear` removes all of them")
    except OSError:
        pass
    return None


def sealed(name: str, data: bytes) -> bytes:
    """Return the sealed contents of a file called `name` with `data`."""
    return _digest(name, data) + data


def unsealed(name: str, contents: bytes | None) -> bytes | None:
    """Return the data in the contents of the file `name`, None if the seal does not match."""
    if contents is None:
        return None
    data = contents[_DIGEST_BYTES:]
    return data if contents[:_DIGEST_BYTES] == _digest(name, data) else None


def _digest(name: str, data: bytes) -> bytes:
    digest = hashlib.sha256(f"{name}\0".encode())
    digest.update(data)
    return digest.digest()


def write_cached(name: str, data: bytes) -> None:
    """Write the cached file `name` atomically; a full disk or the like is ignored."""
    directory = cache_directory()
    if directory is not None:
        with suppress(OSError):
            write_whole(directory, name, data)


def write_whole(directory: Path, name: str, data: bytes) -> None:
    """Write the file `name` in `directory` atomically; raises OSError if it cannot.

    Files installed with hloc are readable by all users, like its sources; others are private.
    """
    unfinished = f"{directory}{os.sep}unfinished-{os.getpid():x}_{os.urandom(8).hex()}"
    mode = 0o644 if directory == INSTALLED_FILES else 0o600
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(handle, left) :]
        finally:
            os.close(handle)
        os.replace(unfinished, f"{directory}{os.sep}{name}")
    except BaseException:  # a full disk, Ctrl-C
        with suppress(OSError):
            os.unlink(unfinished)
        raise


def cached_sizes() -> list[int]:
    """Return the size of each file in the cache; files that are removed meanwhile are left out."""
    return [status.st_size for status, _ in _files()]


def cached_kinds() -> dict[str, int]:
    """Return the number of cached files of each kind: grammars, indexes, objects, programs ..."""
    found = Counter(os.path.basename(path).split("-")[0] for _, path in _files())
    return dict(sorted(found.items()))


def trim_cache(limit_bytes: int) -> None:
    """Remove the least recently used files until at most `limit_bytes` are left.

    Only files that hloc wrote count: a user's directory may contain other files. Unfinished
    files of a killed process are removed after an hour.
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
    """Call `trim_cache` unless a process did it within a day: visiting all files takes a while.

    A process checks this at most once an hour.
    """
    directory, now = cache_directory(), time.time()
    if directory is None or now < _NEXT_LOOK.get(directory, 0):
        return
    _NEXT_LOOK[directory] = now + _HOUR_SECONDS
    marker = directory / "trimmed"
    with suppress(OSError):
        is_due = not marker.exists() or now - marker.stat().st_mtime > _DAY_SECONDS
        if is_due:
            _touch(marker)
            trim_cache(limit_bytes)


def _touch(marker: Path) -> None:
    """Set the time of the file to now; creates it if necessary, and never follows a link."""
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    os.close(os.open(marker, flags, 0o600))
    os.utime(marker)


def _files() -> list[tuple[os.stat_result, str]]:
    directory = cache_directory()
    found: list[tuple[os.stat_result, str]] = []
    if directory is None:
        return found
    with suppress(OSError):
        for entry in os.scandir(directory):
            with suppress(OSError):
                if _OURS.fullmatch(entry.name):
                    found.append((entry.stat(follow_symlinks=False), entry.path))
    return found
