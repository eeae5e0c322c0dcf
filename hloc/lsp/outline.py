"""The outline of a document: symbols, folding, code lenses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hloc.lsp.document import Document
from hloc.lsp.parts import Part, Range

MOST_LISTED = 5_000
"""Maximum number of instructions in an outline, which editors request after every change."""


class Symbol(NamedTuple):
    """A computation, or an instruction inside one.

    Attributes:
        range: all of it; `name_range` is its name.
    """

    name: str
    detail: str
    range: Range
    name_range: Range
    children: tuple[Symbol, ...] = ()


class Lens(NamedTuple):
    """A command that is offered above the text at `range`."""

    range: Range
    title: str
    command: str


RUN, GRAPH, PASSES = "hloc.run", "hloc.graph", "hloc.passes"
LENSES = (
    ("run on random inputs", RUN),
    ("show graph", GRAPH),
    ("what the passes do", PASSES),
)


def symbols(document: Document) -> list[Symbol]:
    """Return the computations with their instructions; without these if there are too many."""
    count = sum(len(part.read) for part in document.parts)
    return [_symbol(part, count <= MOST_LISTED) for part in document.parts]


def _symbol(part: Part, with_instructions: bool) -> Symbol:
    children: list[Symbol] = []
    for name, inst in part.by_name.items() if with_instructions else ():
        at = inst.span.start - part.base if inst.span else 0
        end = part.text.find("\n", at)
        here = Range(part.at + at, part.at + (end if end >= 0 else len(part.text)))
        name_end = here.start + part.text.startswith("%", at) + len(name)
        detail = f"{inst.opcode.name} {inst.shape.text_without_layout}"
        children.append(Symbol(name, detail, here, Range(here.start, name_end)))
    detail = "entry" if part.is_entry else ""
    return Symbol(part.name, detail, Range(part.at, part.end), part.name_range, tuple(children))


def folds(document: Document) -> Iterator[Range]:
    """Yield the folding ranges: the body of each computation."""
    for part in document.parts:
        if "\n" in part.text.strip():
            yield Range(part.at, part.at + len(part.text.rstrip()))


def lenses(document: Document) -> Iterator[Lens]:
    """Yield the commands of the module, above its entry, or above the last computation."""
    entries = [part for part in document.parts if part.is_entry] or list(document.parts[-1:])
    for part in entries[:1]:
        for title, command in LENSES:
            yield Lens(Range(part.at, part.at), title, command)
