"""Shared libraries and programs: finds a compiler or linker on this machine and calls it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hloc.codegen.cpu.aot.linkable import Library
from hloc.codegen.cpu.aot.program_sources import program_sources
from hloc.codegen.cpu.aot.wrapper import visible_names
from hloc.codegen.llvm.target import Target, host_target
from hloc.errors import HloError, UnsupportedError, reason_of
from hloc.lazy_dataclass import dataclass
from hloc.output_file import write_form

_TIME_LIMIT_SECONDS = 600
_SHOWN_LINES = 12
_WASM_STACK_BYTES = 1 << 20
_FROM_LIBC = ("memcpy", "memmove", "memset")


@dataclass(frozen=True, slots=True)
class Tools:
    """The compilers and linkers for one machine.

    Attributes:
        compilers: commands that link programs and libraries.
        linkers: commands that link libraries only.
        advice: how to install one.
    """

    compilers: tuple[str, ...]
    linkers: tuple[str, ...]
    advice: str


_HOST = Tools(
    ("cc", "gcc", "clang"),
    ("ld", "ld.lld"),
    "`apt install gcc`, `dnf install gcc`, or on macOS `xcode-select --install`",
)
_CROSS = {
    "x86_64": "x86_64-linux-gnu",
    "aarch64": "aarch64-linux-gnu",
    "armv7": "arm-linux-gnueabihf",
    "riscv64": "riscv64-linux-gnu",
}
_WASM = Tools((), ("wasm-ld",), "`apt install lld`, or the package lld of your system")


def library_ending(target: Target) -> str:
    """Return the ending of a shared library: `.so`, `.dylib`, or `.wasm` for WebAssembly."""
    if target.triple.startswith("wasm"):
        return ".wasm"
    return ".dylib" if "apple" in target.triple or "darwin" in target.triple else ".so"


def link_shared(library: Library, target: Target, path: str) -> None:
    """Write `library` as a shared library.

    Raises:
        HloError: there is no linker, or it fails.
    """
    tool, is_compiler = _tool(target, "-shared", _tools(target), programs=False)
    with tempfile.TemporaryDirectory(prefix="hloc-") as folder:
        object_path = _written(folder, {"model.o": library.data})["model.o"]
        output = os.path.abspath(path)
        if target.triple.startswith("wasm"):
            names = (*visible_names(library.interface), "__heap_base")
            words = ["--no-entry", "--allow-undefined", "-z", f"stack-size={_WASM_STACK_BYTES}"]
            words += [f"--export={name}" for name in names]
        else:
            words = ["-dynamiclib" if library_ending(target) == ".dylib" else "-shared"]
        words += ["-o", output, object_path]
        if is_compiler and set(library.needs) - set(_FROM_LIBC):
            words.append("-lm")
        _call([*tool, *words], folder)


def link_program(library: Library, target: Target, path: str) -> None:
    """Write a program that runs the module on .npy files.

    Raises:
        UnsupportedError: programs for this machine cannot read files.
        HloError: there is no compiler, or it fails.
    """
    if target.triple.startswith("wasm"):
        raise UnsupportedError(
            "a program for WebAssembly has no files to read; `-shared` makes a module for "
            "JavaScript and others"
        )
    sources = program_sources(library.interface)
    tool, _ = _tool(target, "--emit=exe", _tools(target), programs=True)
    with tempfile.TemporaryDirectory(prefix="hloc-") as folder:
        written = _written(folder, {**sources, "model.o": library.data})
        given = [place for name, place in written.items() if name.endswith((".c", ".o"))]
        _call([*tool, "-std=c11", "-O2", "-o", os.path.abspath(path), *given, "-lm"], folder)


def _tools(target: Target) -> Tools:
    host = host_target().triple
    arch = target.triple.split("-")[0]
    if target.triple.startswith("wasm"):
        return _WASM
    if arch == host.split("-")[0] and ("linux" in target.triple) == ("linux" in host):
        return _HOST
    prefix = next((p for name, p in _CROSS.items() if arch.startswith(name)), "")
    if "linux" not in target.triple or not prefix:
        return Tools((), (), "a compiler for this machine")
    return Tools(
        (f"{prefix}-gcc",), (f"{prefix}-ld", "ld.lld"), f"`apt install gcc-{prefix}` on Debian"
    )


def _tool(target: Target, option: str, tools: Tools, *, programs: bool) -> tuple[list[str], bool]:
    """Return the words of the first command found, and whether it is a compiler.

    Raises:
        HloError: there is none; lists the candidates and how to install one.
    """
    named = os.environ.get("CC", "").strip()
    if named and tools is not _WASM:
        return shlex.split(named), True
    wanted = [*tools.compilers, *(() if programs else tools.linkers)]
    for command in wanted:
        if shutil.which(command):
            return [command], command in tools.compilers
    kind = "a C compiler" if programs else "a linker"
    none_of = f"; none of {', '.join(wanted)} is there" if wanted else ""
    raise HloError(
        f"{option} needs {kind} for {target.triple}{none_of}",
        notes=(
            f"to get one: {tools.advice}; or name one in the environment variable CC",
            "`-c` needs neither: it writes an object and a header",
        ),
    )


def _written(folder: str, contents: Mapping[str, str | bytes]) -> dict[str, str]:
    """Write files into `folder`; return name -> path."""
    paths = {name: str(Path(folder, name)) for name in contents}
    for name, path in paths.items():
        write_form(path, contents[name])
    return paths


def _call(command: Sequence[str], folder: str) -> None:
    """Run a compiler or linker.

    Raises:
        HloError: it cannot be started, or fails; the notes are its messages.
    """
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIME_LIMIT_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except OSError as fault:
        raise HloError(f"cannot run {command[0]}: {reason_of(fault)}") from None
    except subprocess.TimeoutExpired:
        raise HloError(f"{command[0]} took more than {_TIME_LIMIT_SECONDS} s") from None
    if done.returncode:
        said = [line.replace(f"{folder}/", "") for line in done.stderr.splitlines()]
        raise HloError(
            f"{command[0]} failed with exit code {done.returncode}",
            notes=tuple(said[:_SHOWN_LINES]),
        )
