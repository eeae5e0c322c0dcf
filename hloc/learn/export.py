"""Export cells: Markdown, HTML with a slider, or a notebook."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hloc.errors import HloError
from hloc.learn.document import REPL, Cell, Commands, Prose, title_of, write_cells
from hloc.learn.page import html_page
from hloc.output_file import write_form

Files = Mapping[str, str]
"""Name -> text of the files that the commands of a notebook read."""


def write_document(cells: Sequence[Cell], path: str, files: Files | None = None) -> None:
    """Write `cells` to `path`, in the format of its extension: .md, .html or .ipynb.

    Raises:
        HloError: another extension, or the file cannot be written.
    """
    write_form(path, writer_of(path)(cells, files or {}))


def writer_of(path: str) -> Callable[[Sequence[Cell], Files], str]:
    """Return the function that creates the text of the file `path`, by its extension.

    Raises:
        HloError: another extension.
    """
    writer = WRITERS.get(Path(path).suffix.lower())
    if writer is None:
        raise HloError(f"cannot export to {path}: expected the ending {', '.join(WRITERS)}")
    return writer


def notebook(cells: Sequence[Cell], files: Files) -> str:
    """Return a Jupyter notebook, format 4.5: `hlo("...")` runs a command of the REPL.

    The notebook has one session; files that the commands read are written first. Lines `!hloc ...`
    run the hloc of the kernel, which need not be in PATH.
    """
    written: list[dict[str, Any]] = []
    rest = list(cells)
    if rest and isinstance(rest[0], Prose):
        written.append(_markdown(rest.pop(0)))
    written.append(_code(_SET_UP))
    written += [_code(f"%%writefile {name}\n{text}") for name, text in files.items()]
    for cell in rest:
        if isinstance(cell, Commands):
            written += [_code(_call(cell.language, *step), step[1]) for step in cell.steps]
        else:
            written.append(_markdown(cell))
    for number, row in enumerate(written):
        row["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    table = {
        "cells": written,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(table, indent=1, ensure_ascii=False) + "\n"


_SET_UP = """import os, sys
from repl.program import Recorder

hlo = Recorder().show
os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
os.environ.update(NO_COLOR="1", COLUMNS="100")"""


def _call(language: str, command: str, _output: str) -> str:
    return f"hlo({command!r})" if language == REPL else f"!{command}"


def _markdown(cell: Cell) -> dict[str, Any]:
    text = write_cells([cell]).rstrip("\n")
    return {"cell_type": "markdown", "metadata": {}, "source": text.splitlines(keepends=True)}


def _code(source: str, output: str = "") -> dict[str, Any]:
    outputs: list[dict[str, Any]] = []
    if output:
        text = f"{output}\n".splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": outputs,
        "source": source.splitlines(keepends=True),
    }


WRITERS: dict[str, Callable[[Sequence[Cell], Files], str]] = {
    ".md": lambda cells, files: write_cells(cells),
    ".html": lambda cells, files: html_page(cells, title_of(cells)),
    ".ipynb": notebook,
}
