"""The directory for files that hloc can make again: the user's own, not readable by others.

`HLOC_CACHE_DIR` names it, empty for none; else it is `hloc` in `XDG_CACHE_HOME` or `~/.cache`.
Files of code are sealed: they begin with a digest of their name, which stands for all that the
code depends on, and of what follows. One that was cut short, changed or renamed is never loaded.
Nor is one that another user could have written (`hloc/private_files.py`): the digest tells of
accidents, it does not keep anybody out. A warning says so once, and hloc compiles without it.
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
    r"(?:grammar|kernel|object|program|tuning|unfinished)-\w+(?:\.json|\.o|\.bin)?", re.ASCII
)
INSTALLED_FILES = Path(__file__).parent / "prebuilt"
"""What was made for this machine when hloc was installed; need not be there, is only read."""

_DIGEST_BYTES = 32
_DAY_SECONDS = 24 * 60 * 60
_HOUR_SECONDS = 60 * 60
_NEXT_LOOK: dict[Path, float] = {}
"""When this process looks again whether a directory is to be trimmed, in seconds of the epoch."""
_WARNED: set[str] = set()
"""Of what this process has warned."""


def state_folder() -> Path:
    """Return where hloc keeps what it remembers between runs; it may not exist."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "hloc"


@cache
def cache_directory() -> Path | None:
    """Return the directory, made if need be; None if there is none that is safe to use.

    One that others may write to is not used, with a warning: what lies there may come from anybody.
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
    """Return the directory; None if there is to be none, or it cannot be made.

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
    except (OSError, RuntimeError, ValueError):  # no home directory, a name that cannot be one
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

    A file in the cache must be the user's own, and no link. The files that came with hloc are
    trusted as its sources are: no more users may be able to write to them. Any other is refused,
    with a warning.
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
    """Write the file `name` in `directory`, whole or not at all; raises OSError if it cannot.

    Every user reads what comes with hloc, as its sources; all else is this user's alone.
    """
    made = f"{directory}{os.sep}unfinished-{os.getpid():x}_{os.urandom(8).hex()}"
    mode = 0o644 if directory == INSTALLED_FILES else 0o600
    handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
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
            _touch(marker)
            trim_cache(limit_bytes)


def _touch(marker: Path) -> None:
    """Set the time of the file to now; makes it if need be, and never writes through a link."""
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
