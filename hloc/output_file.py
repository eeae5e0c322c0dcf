"""Atomic writing of files: a file is replaced as a whole, or not at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from hloc.errors import HloError, printable, reason_of

_BINARY = getattr(os, "O_BINARY", 0)
_NO_NEW_FILES = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG)


def write_form(path: str, form: str | bytes) -> None:
    """Write bytes, or a text with a final line end, to the file `path`.

    Raises:
        HloError: the file cannot be written.
    """
    if isinstance(form, str):
        form = (form if form.endswith("\n") else form + "\n").encode("utf-8", "surrogateescape")
    with output_to(path) as file:
        file.write(form)


@contextmanager
def output_to(path: str) -> Iterator[IO[bytes]]:
    """Open the file `path` for writing in the block; it is replaced at the end, atomically.

    A full disk, Ctrl-C or an error in the block leaves the old file. Links are followed,
    except one that another user has put into a world-writable folder. Devices, pipes, files with
    several names or of another user, and files in folders that take no new files are written in
    place.

    Raises:
        HloError: the file cannot be written.
    """
    try:
        _check_not_planted(path)
        target = os.path.realpath(path)
        unfinished = f"{target}.unfinished-{os.urandom(4).hex()}"
        handle = _new_file(target, unfinished)
        if handle is None:
            with open(path, "wb") as file:
                yield file
            return
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
            os.replace(unfinished, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished)
            raise
    except OSError as fault:
        raise HloError(f"cannot write {printable(path)}: {reason_of(fault)}") from None
    except ValueError as fault:  # a path with a NUL
        raise HloError(f"cannot write {printable(path)}: {fault}") from None


def _check_not_planted(path: str) -> None:
    """Reject a link or file that another user has put into a folder such as `/tmp`.

    Linux does so for `open` (`fs.protected_symlinks`), but not for a new file that is renamed to
    the target of the link.

    Raises:
        HloError: there is one.
    """
    if not hasattr(os, "getuid"):
        return
    try:
        folder, found = os.stat(os.path.dirname(path) or "."), os.lstat(path)
    except FileNotFoundError:
        return
    is_shared = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
    if is_shared and found.st_uid not in (os.getuid(), folder.st_uid):
        kind = "link" if stat.S_ISLNK(found.st_mode) else "file"
        raise HloError(
            f"cannot write {printable(path)}: another user has put a {kind} there, in a folder "
            "that everybody may write to"
        )


def _new_file(target: str, unfinished: str) -> int | None:
    """Return a handle of the new file `made`, with the mode of `target`; None to write in place."""
    mode = None
    with suppress(FileNotFoundError):
        status = os.stat(target)
        is_own = not hasattr(os, "getuid") or status.st_uid == os.getuid()
        is_plain = stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and is_own
        if not is_plain or not os.access(target, os.W_OK):
            return None
        mode = stat.S_IMODE(status.st_mode)
    try:
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
    except OSError as fault:
        if fault.errno in _NO_NEW_FILES:
            return None
        raise
    if mode is not None and hasattr(os, "fchmod"):
        with suppress(OSError):
            os.fchmod(handle, mode)
    return handle
