"""The file format of reproducers: the module before the failed pass, with the options in a header.

Such a file begins with `// hloc-repro: --passes=... --opt-bisect-limit=...`; `hloc` takes these
options from a file named `*.repro.hlo`, or from any file with `--repro`.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Sequence

from hloc.errors import HloError, printable
from hloc.ir.module import Module
from hloc.output_file import write_form

HEADER = "// hloc-repro:"
ENDING = ".repro.hlo"

_MOST_HEADER_LINES = 20
_NOT_FILE = re.compile(r"[^\w.-]+", re.ASCII)


def write_with_header(
    module: Module, words: Sequence[str], plugins: Sequence[str], path: str
) -> str:
    """Write `module` to `path` after a header of options, and return the path."""
    lines = [f"{HEADER} {shlex.join(words)}"]
    lines += [f"// needs --plugin={printable(plugin)}" for plugin in plugins]
    write_form(path, "\n".join([*lines, module.to_text(large_constants=True)]))
    return path


def repro_path(module_name: str, folder: str | None) -> str:
    """Return the path of a new reproducer, in a new temporary folder if `folder` is None."""
    if folder is None:
        folder = tempfile.mkdtemp(prefix="hloc-repro-")
    else:
        make_folder(folder)
    return os.path.join(folder, file_stem(module_name) + ENDING)


def make_folder(folder: str) -> None:
    """Make the folder `folder` unless there is one.

    Raises:
        HloError: it cannot be made.
    """
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as fault:
        raise HloError(f"cannot make folder {folder}: {fault.strerror}") from None


def file_stem(name: str) -> str:
    """Return a name from a module as a short part of a file name without special characters."""
    return _NOT_FILE.sub("_", name)[:80] or "module"


def header_words(text: str) -> list[str]:
    """Return the options in the header of `text`, none if it has no header."""
    words: list[str] = []
    for line in text.split("\n", _MOST_HEADER_LINES)[:_MOST_HEADER_LINES]:
        if line.startswith(HEADER):
            try:
                words += shlex.split(line[len(HEADER) :])
            except ValueError as fault:
                raise HloError(f"the line {HEADER!r} cannot be read: {fault}") from None
    return words
