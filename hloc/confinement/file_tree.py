"""The file tree of a confined process: read-only folders, one writable folder, nothing else.

It is a small file system in memory with folders of the machine mounted into it. Once it is the
root, no path leads out of it. It has no `/proc`, `/dev` or `/sys`.
"""

from __future__ import annotations

import os
import struct
import sys
import sysconfig
from collections.abc import Sequence
from ctypes import c_char_p
from pathlib import Path

from hloc.confinement.kernel import call
from hloc.confinement.namespaces import USER

OWN_FOLDER = "/tmp"
"""The folder that a confined process may write to; it vanishes with the process."""

_PACKAGES = ("hloc", "repl")
_OF_PYTHON = ("site-packages", "dist-packages", "lib-dynload")
_ROOT = Path(__file__).resolve().parents[2]
_MOST_FILES = 2000

_NOSUID, _NODEV, _NOEXEC, _BIND, _RECURSIVE, _PRIVATE = 2, 4, 8, 0x1000, 0x4000, 0x40000
_DETACH = 2
_AT_RECURSIVE, _AT_FDCWD = 0x8000, -100
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4


def readable_folders() -> list[str]:
    """Return the folders of Python, its packages, hloc and system libraries, none inside another.

    System libraries are found by the shared objects that this process has loaded.
    """
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    found = {sysconfig.get_path(name) for name in names}
    found |= {path for path in sys.path if os.path.basename(path) in _OF_PYTHON}
    found |= {str(_ROOT / package) for package in _PACKAGES}
    found |= _folders_of_libraries()
    found -= {path for path in found if path and _holds_home(path)}
    real = sorted({os.path.realpath(path) for path in found if path and os.path.isdir(path)})
    also = {os.path.abspath(path) for path in found if path and os.path.isdir(path)} - set(real)
    outer: list[str] = []
    for path in real:
        if not any(path.startswith(f"{above}/") for above in outer):
            outer.append(path)
    return [*outer, *sorted(also)]


def _holds_home(path: str) -> bool:
    """True if a folder contains the user's home; a library may have been loaded from there."""
    home = os.path.realpath(os.path.expanduser("~"))
    return f"{home}/".startswith(f"{os.path.realpath(path)}/".replace("//", "/"))


def _folders_of_libraries() -> set[str]:
    with open("/proc/self/maps") as file:
        words = [line.split(maxsplit=5) for line in file]
    paths = {row[5].strip() for row in words if len(row) == 6 and "x" in row[1]}
    return {os.path.dirname(path) for path in paths if ".so" in os.path.basename(path)}


def enter(place: str, readable: Sequence[str], own_bytes: int) -> None:
    """Build the tree in the empty folder `place`, and make it the root of this mount namespace.

    Args:
        place: an empty folder.
        readable: folders of the machine, mounted at the same paths.
        own_bytes: capacity of the writable folder.

    Raises:
        OSError: the kernel does not allow it.
    """
    _mount("none", "/", "", _RECURSIVE | _PRIVATE, "")
    _mount("tmpfs", place, "tmpfs", _NOSUID | _NODEV, "size=1m,mode=755")
    for path in readable:
        inner = place + path
        os.makedirs(inner, exist_ok=True)
        _mount(path, inner, "", _BIND | _RECURSIVE, "")
        _make_read_only(inner, _AT_RECURSIVE)
    own = place + OWN_FOLDER
    os.mkdir(own)
    options = f"size={own_bytes},nr_inodes={_MOST_FILES},mode=700,uid={USER},gid={USER}"
    _mount("tmpfs", own, "tmpfs", _NOSUID | _NODEV | _NOEXEC, options)
    os.chdir(place)
    call("pivot_root", b".", b".")
    call("umount2", b".", _DETACH)
    os.chdir("/")
    _make_read_only("/", 0)
    os.chdir(OWN_FOLDER)


def _mount(source: str, target: str, kind: str, flags: int, options: str) -> None:
    words = (source, target, kind)
    call("mount", *(c_char_p(os.fsencode(word)) for word in words), flags, options.encode())


def _make_read_only(path: str, flags: int) -> None:
    """Add attributes to a mount; those it has already cannot be removed."""
    attributes = struct.pack("=QQQQ", _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV, 0, 0, 0)
    call("mount_setattr", _AT_FDCWD, os.fsencode(path), flags, attributes, len(attributes))
