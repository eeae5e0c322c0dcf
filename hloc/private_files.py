"""Checks that no other user can change a file or folder before its contents are used.

On systems without owners and modes (Windows) nothing is refused.
"""

from __future__ import annotations

import errno
import os
import stat

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
"""The bits of a mode that let the group or everybody change a file."""


class UnsafeFileError(Exception):
    """Another user may have written the file; the message names it and says why."""


def check_folder(path: str) -> None:
    """Check that only this user can add, remove or rename files in the folder `path`.

    Folders above must belong to the user or the system, and may be writable by everybody only if
    they are sticky, like `/tmp`. The same holds for links on the path: the owner of a link can
    redirect it.

    Raises:
        UnsafeFileError: others could.
        OSError: there is no such folder.
    """
    if not hasattr(os, "getuid"):
        return
    status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise UnsafeFileError(f"{path} is no folder")
    _check_owner_and_mode(path, status, {os.getuid()}, 0)
    for link_or_folder in _ancestors(path):
        _check_ancestor(link_or_folder)


def _ancestors(path: str) -> list[str]:
    """Return the folders above `path` and the links that lead to it."""
    found: dict[str, None] = {}
    for way in (os.path.abspath(path), os.path.realpath(path)):
        if os.path.islink(way):
            found[way] = None
        while (above := os.path.dirname(way)) != way:
            found[above] = None
            way = above
    return list(found)


def _check_ancestor(path: str) -> None:
    status = os.lstat(path)
    owners = {os.getuid(), 0, os.stat(os.sep).st_uid}  # in a container, root has another uid
    if status.st_uid not in owners:
        raise UnsafeFileError(f"{path} belongs to another user")
    is_open = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
    if is_open and not stat.S_ISLNK(status.st_mode):
        raise UnsafeFileError(f"everybody may rename what lies in {path}")


def read_private(path: str) -> bytes:
    """Return the contents of a file of this user that no other user may write to.

    Raises:
        UnsafeFileError: it is a link or not a regular file, belongs to another user, or others may
            write to it.
        OSError: it cannot be read.
    """
    if not hasattr(os, "getuid"):
        with open(path, "rb") as file:
            return file.read()
    return _read(path, os.O_NOFOLLOW, {os.getuid()}, 0)


def read_like(path: str, model: str) -> bytes:
    """Return the contents of a file, writable by no more users than the file `model`.

    Raises:
        UnsafeFileError: it is not a regular file, or more users can write to it.
        OSError: it cannot be read.
    """
    if not hasattr(os, "getuid"):
        with open(path, "rb") as file:
            return file.read()
    status = os.stat(model)
    owners = {os.getuid(), 0, status.st_uid}
    return _read(path, 0, owners, status.st_mode & OTHERS_WRITE)


def _read(path: str, flags: int, owners: set[int], may_write: int) -> bytes:
    """Read the file that was checked: it cannot be replaced in between."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    except OSError as fault:
        if flags and fault.errno in (errno.ELOOP, errno.EMLINK):
            raise UnsafeFileError(f"{path} is a link") from None
        raise
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeFileError(f"{path} is no plain file")
        _check_owner_and_mode(path, status, owners, may_write)
        parts, left = list[bytes](), status.st_size
        while left and (part := os.read(handle, left)):  # without the five calls that `open` adds
            parts.append(part)
            left -= len(part)
    finally:
        os.close(handle)
    return b"".join(parts)


def _check_owner_and_mode(
    path: str, status: os.stat_result, owners: set[int], may_write: int
) -> None:
    if status.st_uid not in owners:
        raise UnsafeFileError(f"{path} belongs to another user")
    if status.st_mode & OTHERS_WRITE & ~may_write:
        raise UnsafeFileError(
            f"other users may write to {path} (mode {stat.S_IMODE(status.st_mode):o})"
        )
