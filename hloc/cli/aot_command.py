"""`hloc FILE -c -o model`, `--emit=obj,header`: an object and headers for other programs."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hloc.cli.emit import LIBRARY_KINDS, write_form
from hloc.cli.exits import UsageError
from hloc.cli.talk import Talk
from hloc.cli.text import size_text
from hloc.errors import HloError

if TYPE_CHECKING:
    from hloc.codegen.aot.linkable import Library
    from hloc.codegen.backend import CompiledModule

_ENDINGS = (".o", ".obj", ".h", ".hpp")


def check_library(arguments: Namespace) -> None:
    """Raise UsageError for options about objects that have no object, or no sense."""
    a = arguments
    if not (a.compile_only or LIBRARY_KINDS & set(a.emit)):
        for option in ("header_lang", "symbol_prefix", "static_temp"):
            if getattr(a, option, None):
                raise UsageError(f"--{option.replace('_', '-')} needs -c, --emit=obj or header")
        return
    if a.compile_only and a.output_file == "-":
        raise UsageError("-c writes two files, which cannot go to stdout")
    if a.compile_only and "-" in a.files and not a.output_file:
        raise UsageError("-c needs -o when the module comes from stdin")
    if "c++" in a.header_lang and not a.compile_only and a.output_file in (None, "-"):
        raise UsageError("--header-lang=c++ writes two headers, which needs -o or -c")
    if a.symbol_prefix:
        from hloc.codegen.aot.names import checked_prefix

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
    """Write object and headers of `compiled`, to stdout if one kind is asked for and no file.

    Raises:
        HloError: a file cannot be written, or the backend makes no objects of this kind.
        UnsupportedError: an object on its own cannot do what the module asks for.
    """
    from hloc.codegen.aot.header import c_header, cpp_header
    from hloc.codegen.aot.linkable import build_library
    from hloc.codegen.cpu.backend import CpuModule

    if not isinstance(compiled, CpuModule):
        raise HloError("-c and --emit=obj need the target cpu")
    a = arguments
    library = build_library(compiled, a.symbol_prefix, static_temp=a.static_temp)
    header = c_header(library.interface)
    wanted = [kind for kind in ("obj", "header") if kind in kinds]
    path = a.output_file
    if path in (None, "-") and not a.compile_only:
        for kind in wanted:
            talk.product(library.data if kind == "obj" else header)
        return
    stem = _stem(path or os.path.basename(name), any_ending=not a.compile_only)
    exact = path if len(kinds) == 1 and "c++" not in a.header_lang else None
    if "obj" in wanted:
        write_form(exact or f"{stem}.o", library.data)
        talk.say(f"{exact or f'{stem}.o'}: {_object_text(library)}")
    if "header" in wanted:
        write_form(exact or f"{stem}.h", header)
        if "c++" in a.header_lang:
            c_name = os.path.basename(f"{stem}.h")
            write_form(f"{stem}.hpp", cpp_header(library.interface, c_name))


def _stem(path: str, *, any_ending: bool) -> str:
    """Return `path` without an ending that stands for a file that is written, or a module read.

    With several kinds of `--emit` any ending goes, as for all kinds.
    """
    stem, ending = os.path.splitext(path)
    return stem if any_ending or ending in (*_ENDINGS, ".hlo", ".txt", ".pb", ".mlir") else path


def _object_text(library: Library) -> str:
    interface = library.interface
    needs = ", ".join(library.needs) or "nothing"
    if not library.data.startswith(b"\x7fELF"):
        needs = "imports that the program brings"
    return (
        f"{interface.prefix}_run, {size_text(len(library.data))}, "
        f"constants {size_text(interface.constant_bytes)}, temp {size_text(interface.temp_bytes)}, "
        f"needs {needs}"
    )
