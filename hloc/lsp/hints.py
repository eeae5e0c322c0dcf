"""Inlay hints: shapes that the text omits, between `=` and the opcode."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from hloc.lsp.document import Document
from hloc.lsp.parts import Range
from hloc.parser.scanner import NAME

_WITHOUT_SHAPE = re.compile(rf"{NAME}[ \t]*=[ \t]+(?=[a-z][a-z0-9\-]*\()")


class Hint(NamedTuple):
    """`text` is shown before the character at `at`."""

    at: int
    text: str


def shape_hints(document: Document, within: Range) -> Iterator[Hint]:
    """Yield the inferred shapes of instructions in `within` that are written without a shape."""
    for part in document.parts_in(*within):
        for at, inst in part.instructions:
            if within.start <= part.at + at <= within.end:
                found = _WITHOUT_SHAPE.match(part.text, at)
                if found is not None:
                    yield Hint(part.at + found.end(), inst.shape.text_without_layout)
