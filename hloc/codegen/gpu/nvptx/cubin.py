"""PTX to machine code, by NVIDIA's assemblers, if one is installed.

nvJitLink is a library (package `nvidia-nvjitlink`, or a CUDA toolkit), ptxas a program. Neither
needs a GPU. A driver assembles PTX by itself, so cubins are for inspection and for deployment.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from hloc.errors import HloError, UnsupportedError
from hloc.lazy_dataclass import dataclass

_NVJITLINK_PTX = 2
_WHOLE_ONLY = "setmaxnreg"
"""nvJitLink generates relocatable code, without this instruction."""
HOW_TO_ASSEMBLE = "`pip install nvidia-nvjitlink`, or a CUDA toolkit with ptxas on the path"


@dataclass(frozen=True, slots=True)
class KernelUse:
    """The resources of a kernel, as the assembler reports them.

    Attributes:
        spill_bytes: bytes of spill stores and spill loads.
    """

    registers: int
    spill_bytes: int
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class Assembled:
    """A cubin, and the resources of its kernels by name."""

    data: bytes
    uses: dict[str, KernelUse]


def can_assemble() -> bool:
    """True if an assembler is installed."""
    return bool(assembler())


def assembler() -> str:
    """Return the assembler of PTX: `nvJitLink`, the path of ptxas, or "" if there is none."""
    return "nvJitLink" if _nvjitlink() is not None else shutil.which("ptxas") or ""


def assemble(ptx: str, chip: str) -> Assembled:
    """Return the cubin of a PTX file.

    Raises:
        UnsupportedError: no assembler is installed.
        HloError: the assembler refuses the text.
    """
    library, program = _nvjitlink(), shutil.which("ptxas")
    is_whole = program is not None and _WHOLE_ONLY in ptx
    if library is not None and not is_whole:
        return _by_library(library, ptx, chip)
    if program is None:
        raise UnsupportedError(f"a cubin needs an assembler: {HOW_TO_ASSEMBLE}")
    return _by_program(program, ptx, chip)


@cache
def _nvjitlink() -> Any:
    for path in _library_paths():
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


def _library_paths() -> Iterator[str]:
    """Yield possible paths of the library: in packages, then the system's search path."""
    try:
        package = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        package = None
    for place in (package.submodule_search_locations or ()) if package else ():
        yield from map(str, sorted(Path(place).glob("*/lib/libnvJitLink.so*")))
    match = ctypes.util.find_library("nvJitLink")
    if match:
        yield match


def _by_library(library: Any, ptx: str, chip: str) -> Assembled:
    options = (ctypes.c_char_p * 2)(f"-arch={chip}".encode(), b"-verbose")
    handle = ctypes.c_void_p()
    library.nvJitLinkCreate(ctypes.byref(handle), 2, options)
    try:
        data = ptx.encode() + b"\0"
        failed = library.nvJitLinkAddData(handle, _NVJITLINK_PTX, data, len(data), b"hloc.ptx")
        failed = failed or library.nvJitLinkComplete(handle)
        if failed:
            raise HloError(f"nvJitLink rejects the PTX: {_log(library, handle, 'Error')}")
        size = ctypes.c_size_t()
        library.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(size))
        cubin = ctypes.create_string_buffer(size.value)
        library.nvJitLinkGetLinkedCubin(handle, cubin)
        return Assembled(cubin.raw, _uses(_log(library, handle, "Info")))
    finally:
        library.nvJitLinkDestroy(ctypes.byref(handle))


def _log(library: Any, handle: ctypes.c_void_p, kind: str) -> str:
    size = ctypes.c_size_t()
    getattr(library, f"nvJitLinkGet{kind}LogSize")(handle, ctypes.byref(size))
    text = ctypes.create_string_buffer(max(size.value, 1))
    getattr(library, f"nvJitLinkGet{kind}Log")(handle, text)
    return text.value.decode(errors="replace").strip()


def _by_program(program: str, ptx: str, chip: str) -> Assembled:
    with tempfile.TemporaryDirectory(prefix="hloc-") as folder:
        source, target = Path(folder, "hloc.ptx"), Path(folder, "hloc.cubin")
        source.write_text(ptx)
        command = [program, "-v", f"-arch={chip}", str(source), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise HloError(f"ptxas rejects the PTX: {done.stderr.strip() or done.stdout.strip()}")
        return Assembled(target.read_bytes(), _uses(done.stdout + done.stderr))


_NAME = re.compile(r"Compiling entry function '([^']+)'|Function properties for '?([\w$]+)")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


def _uses(log: str) -> dict[str, KernelUse]:
    uses: dict[str, KernelUse] = {}
    name, spills = "", 0
    for line in log.splitlines():
        if match := _NAME.search(line):
            name = match[1] or match[2]
        if match := _SPILLS.search(line):
            spills = int(match[1]) + int(match[2])
        if match := _USED.search(line):
            uses[name] = KernelUse(int(match[1]), spills, int(match[2] or 0))
    return uses
