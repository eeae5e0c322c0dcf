"""Semantic tokens: maps hloc's token kinds to the kinds of the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hloc.editors.tokens import Kind
from hloc.lsp.document import Document
from hloc.lsp.parts import Range

COLOUR_OF: dict[Kind, str] = {
    "comment": "comment",
    "string": "string",
    "section": "keyword",
    "constant": "keyword",
    "type": "type",
    "opcode": "method",
    "attribute": "property",
    "property": "property",
    "definition": "variable",
    "name": "variable",
    "computation": "function",
    "number": "number",
}
"""Kinds without a colour are left to the editor's grammar."""

COLOURS = tuple(dict.fromkeys(COLOUR_OF.values()))


class Coloured(NamedTuple):
    """A token at `range`, on one line; definitions are distinguished from uses."""

    range: Range
    colour: str
    is_definition: bool


def coloured(document: Document, within: Range) -> Iterator[Coloured]:
    """Yield the coloured tokens of the computations in `within`, in order."""
    for part in document.parts_in(*within):
        for at, kind, text in part.tokens:
            start = part.at + at
            if start >= within.end:
                break
            if start >= within.start and kind in COLOUR_OF and "\n" not in text:
                here = Range(start, start + len(text))
                yield Coloured(here, COLOUR_OF[kind], kind == "definition")
