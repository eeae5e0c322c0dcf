"""A lesson as cells, parsed from Markdown: prose, code, and commands with their output."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from hloc.errors import printable_lines
from hloc.lazy_dataclass import dataclass

REPL, SHELL, MACHINE = "hlo-repl", "sh", "console"
_BACKTICKS = re.compile("`{3,}")
PROMPTS = {REPL: "> ", SHELL: "$ ", MACHINE: "$ "}
"""Kinds of transcripts; the output of a `console` depends on the machine."""


@dataclass(frozen=True, slots=True)
class Prose:
    """Markdown without fenced blocks."""

    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """A fenced block that is not run."""

    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Commands:
    """A transcript: commands of the REPL or of a shell, each with its output."""

    language: str
    steps: tuple[tuple[str, str], ...]


Cell: TypeAlias = Prose | Code | Commands


def read_cells(markdown: str) -> list[Cell]:
    """Return the cells of a Markdown text; blocks `hlo-repl` and `sh` are transcripts."""
    cells: list[Cell] = []
    prose: list[str] = []
    lines = iter(markdown.splitlines())
    for line in lines:
        if not line.startswith("```"):
            prose.append(line)
            continue
        cells += prose_cells(prose)
        prose = []
        language = line.strip("`").strip()
        fence = line[: len(line) - len(line.lstrip("`"))]
        body = list(_until_fence(lines, fence))
        if language in PROMPTS:
            cells.append(Commands(language, _steps(body, PROMPTS[language])))
        else:
            cells.append(Code(language, "\n".join(body)))
    return [*cells, *prose_cells(prose)]


def prose_cells(lines: Sequence[str]) -> list[Cell]:
    """Return the cell of some lines of prose, none if they are blank."""
    text = "\n".join(lines).strip("\n")
    return [Prose(text)] if text else []


def _until_fence(lines: Iterator[str], fence: str) -> Iterator[str]:
    for line in lines:
        if line.startswith(fence):
            return
        yield line


def _steps(lines: Sequence[str], prompt: str) -> tuple[tuple[str, str], ...]:
    steps: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith(prompt):
            steps.append((line.removeprefix(prompt), []))
        elif steps:
            steps[-1][1].append(line)
    return tuple((command, "\n".join(output)) for command, output in steps)


def write_cells(cells: Sequence[Cell]) -> str:
    """Return the Markdown text of `cells`."""
    return "\n\n".join(_written(cell) for cell in cells) + "\n"


def _written(cell: Cell) -> str:
    if isinstance(cell, Prose):
        return cell.text
    if isinstance(cell, Code):
        return _fenced(cell.language, cell.text)
    prompt = PROMPTS[cell.language]
    lines = []
    for command, output in cell.steps:
        lines += [f"{prompt}{printable_lines(command)}", *output.splitlines()]
    return _fenced(cell.language, "\n".join(lines))


def _fenced(language: str, text: str) -> str:
    """Return a block whose fence is longer than any fence in it."""
    inside = max((len(found) for found in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, inside + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def title_of(cells: Sequence[Cell]) -> str:
    """Return the first heading."""
    for cell in cells:
        if isinstance(cell, Prose) and cell.text.startswith("#"):
            return cell.text.partition("\n")[0].lstrip("# ").strip()
    return "lesson"
