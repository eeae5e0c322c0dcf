"""`hloc FILE -c -o model`, `-shared`, `--emit=obj,header,shared,exe`: code for other programs."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hloc.cli.emit import LIBRARY_KINDS
from hloc.cli.talk import Talk
from hloc.errors import HloError
from hloc.output_file import write_form
from hloc.quantities import size_text
from hloc.report.exits import UsageError

if TYPE_CHECKING:
    from hloc.codegen.backend import CompiledModule
    from hloc.codegen.cpu.aot.linkable import Library
    from hloc.codegen.cpu.backend import CpuModule

_LIBRARY_ENDINGS = (".so", ".dylib", ".wasm")
_ENDINGS = (".o", ".obj", ".h", ".hpp", *_LIBRARY_ENDINGS)
LINKED = ("shared", "exe")
"""Kinds that are written to files only, never to stdout."""


def implied_kinds(arguments: Namespace) -> tuple[str, ...]:
    """Return the kinds that `-c` or `-shared` stand for, () without them."""
    if arguments.compile_only:
        return ("obj", "header")
    return ("shared", "header") if arguments.shared else ()


def check_library(arguments: Namespace) -> None:
    """Raise UsageError for options about objects that do not apply or contradict each other."""
    a = arguments
    kinds = {*a.emit, *implied_kinds(a)}
    if not kinds & LIBRARY_KINDS:
        for option in ("header_lang", "symbol_prefix", "static_temp"):
            if getattr(a, option, None):
                raise UsageError(
                    f"--{option.replace('_', '-')} needs -c, -shared, --emit=obj, header or exe"
                )
        if "," in a.mcpu:
            raise UsageError("several processors need -c, -shared, --emit=obj, header or exe")
        return
    if a.compile_only and a.shared:
        raise UsageError("-c and -shared exclude each other; --emit=obj,header,shared writes all")
    if "," in a.mcpu and a.run:
        raise UsageError("code for several processors cannot be run; remove --run or --mcpu")
    to_files = bool(implied_kinds(a)) or bool(kinds & set(LINKED))
    what = "-c" if a.compile_only else "-shared" if a.shared else "--emit=shared and exe"
    if to_files and a.output_file == "-":
        raise UsageError(f"{what} writes files, which cannot go to stdout")
    if to_files and "-" in a.files and not a.output_file:
        raise UsageError(f"{what} needs -o when the module comes from stdin")
    if "c++" in a.header_lang and not to_files and a.output_file in (None, "-"):
        raise UsageError("--header-lang=c++ writes two headers, which needs -o or -c")
    if a.symbol_prefix:
        from hloc.codegen.cpu.aot.names import checked_prefix

        try:
            checked_prefix(a.symbol_prefix)
        except HloError as fault:
            raise UsageError(f"--symbol-prefix: {fault.message}") from None


def write_library(
    kinds: Sequence[str],
    compiled: CompiledModule | None,
    arguments: Namespace,
    name: str,
    talk: Talk,
) -> None:
    """Write the outputs `kinds`, to stdout if no file is named and nothing is linked.

    Raises:
        HloError: a file cannot be written, there is no linker, or the backend makes no objects.
        UnsupportedError: a standalone object cannot run the module.
    """
    from hloc.codegen.cpu.aot.header import c_header
    from hloc.codegen.cpu.aot.linkable import build_library
    from hloc.codegen.cpu.backend import CpuModule

    if not isinstance(compiled, CpuModule):
        raise HloError("-c, -shared, --emit=obj, header and exe need the target cpu")
    a = arguments
    library = build_library(
        compiled,
        a.symbol_prefix,
        static_temp=a.static_temp,
        processors=a.mcpu.split(",") if "," in a.mcpu else (),
    )
    to_files = bool(implied_kinds(a)) or bool(set(kinds) & set(LINKED))
    if a.output_file in (None, "-") and not to_files:
        for kind in (kind for kind in ("obj", "header") if kind in kinds):
            talk.product(library.data if kind == "obj" else c_header(library.interface))
        return
    _Writer(kinds, library, compiled, arguments, name, talk).write()


class _Writer:
    """Writes the files of one module: `STEM.o`, `STEM.h`, `STEM.so`, and the program `STEM`."""

    def __init__(
        self,
        kinds: Sequence[str],
        library: Library,
        compiled: CpuModule,
        arguments: Namespace,
        name: str,
        talk: Talk,
    ) -> None:
        """Choose the names: the output file's if it is the only one, else its stem and endings."""
        self.kinds = kinds
        self.library = library
        self.machine = compiled.machine
        self.name = name
        self.talk = talk
        self.languages = arguments.header_lang
        path = arguments.output_file
        implied = implied_kinds(arguments)
        self.stem = _stem(path or os.path.basename(name), any_ending=not implied)
        self.exact = path if len(kinds) == 1 and "c++" not in self.languages else None

    def write(self) -> None:
        """Write all kinds, headers before outputs that need a linker."""
        from hloc.codegen.cpu.aot.header import c_header, cpp_header

        if "obj" in self.kinds:
            path = self._path(".o")
            write_form(path, self.library.data)
            self.talk.say(f"{path}: {_object_text(self.library)}")
        if "header" in self.kinds:
            write_form(self._path(".h"), c_header(self.library.interface))
            if "c++" in self.languages:
                c_name = os.path.basename(f"{self.stem}.h")
                write_form(f"{self.stem}.hpp", cpp_header(self.library.interface, c_name))
        if "shared" in self.kinds:
            self._link_shared()
        if "exe" in self.kinds:
            self._link_program()

    def _link_shared(self) -> None:
        from hloc.cli.linking import library_ending, link_shared

        path = self._path(library_ending(self.machine))
        link_shared(self.library, self.machine, path)
        size = size_text(os.path.getsize(path))
        self.talk.say(f"{path}: {self.library.interface.prefix}_run, {size}")

    def _link_program(self) -> None:
        from hloc.cli.linking import link_program

        path = self._path("")
        if os.path.exists(path) and os.path.exists(self.name) and os.path.samefile(path, self.name):
            raise HloError(f"the program would overwrite the module {path}; use -o")
        link_program(self.library, self.machine, path)
        size = size_text(os.path.getsize(path))
        self.talk.say(f"{path}: {size}; {path} --help describes its arguments")

    def _path(self, ending: str) -> str:
        return self.exact or f"{self.stem}{ending}"


def _stem(path: str, *, any_ending: bool) -> str:
    """Return `path` without the ending of an output, or of a module.

    With several kinds of `--emit` any ending is removed, as for all kinds.
    """
    stem, ending = os.path.splitext(path)
    return stem if any_ending or ending in (*_ENDINGS, ".hlo", ".txt", ".pb", ".mlir") else path


def _object_text(library: Library) -> str:
    interface = library.interface
    names = f"{interface.prefix}_run"
    if interface.variants:
        names += f" for {', '.join(interface.variants)}"
    return (
        f"{names}, {size_text(len(library.data))}, "
        f"constants {size_text(interface.constant_bytes)}, temp {size_text(interface.temp_bytes)}, "
        f"needs {', '.join(library.needs) or 'nothing'}"
    )
