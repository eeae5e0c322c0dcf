"""Names under the cursor: definition, references, rename.

They use tokens, not the module, so they work while the text has errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from hloc.editors.tokens import Kind, tokens
from hloc.errors import HloError
from hloc.ir.names import is_other_token
from hloc.lsp.document import Document
from hloc.lsp.parts import Part, Range, without_long_lines
from hloc.parser.scanner import IDENT


class Word(NamedTuple):
    """A token at `start..end` of the document, in `part` if it is in a computation."""

    kind: Kind
    text: str
    start: int
    end: int
    part: Part | None

    @property
    def name(self) -> str:
        return self.text.removeprefix("%")


_WORDS = (
    "definition",
    "name",
    "computation",
    "opcode",
    "attribute",
    "property",
    "constant",
    "type",
)


def line_words(document: Document, offset: int) -> Iterator[Word]:
    """Yield the words of the line that `offset` lies in."""
    start = document.text.rfind("\n", 0, offset) + 1
    end = document.text.find("\n", offset)
    line = without_long_lines(document.text[start : end if end >= 0 else None])
    part = document.part_at(offset)
    for token in tokens(line):
        if token.kind in _WORDS:
            at = start + token.at
            yield Word(token.kind, token.text, at, at + len(token.text), part)


def word_at(document: Document, offset: int) -> Word | None:
    """Return the word that contains `offset` or ends at it."""
    found = [word for word in line_words(document, offset) if word.start <= offset <= word.end]
    return found[-1] if found else None


def definition(document: Document, offset: int) -> Range | None:
    """Return the range of the defined name of the instruction or computation at `offset`."""
    word = word_at(document, offset)
    return None if word is None else _definition(document, word)


def references(document: Document, offset: int) -> list[Range]:
    """Return all references to the instruction or computation at `offset`, definition included."""
    word = word_at(document, offset)
    if word is None or _definition(document, word) is None:
        return []
    return [Range(found.start, found.end) for found in _uses(document, word)]


def renamed(document: Document, offset: int, name: str) -> list[tuple[Range, str]]:
    """Return the edits that rename the instruction or computation at `offset`.

    Raises:
        HloError: there is none, or `name` is not a name, is a keyword, or is in use.
    """
    word = word_at(document, offset)
    if word is None or _definition(document, word) is None:
        raise HloError("there is no instruction or computation here")
    plain = name.removeprefix("%")
    if not re.fullmatch(IDENT, plain) or is_other_token(plain):
        raise HloError(f"{name!r} cannot be a name")
    if plain != word.name and _definition(document, word._replace(text=plain)) is not None:
        raise HloError(f"{name!r} is the name of another")
    return [
        (Range(found.start, found.end), "%" * found.text.startswith("%") + plain)
        for found in _uses(document, word)
    ]


def _definition(document: Document, word: Word) -> Range | None:
    if word.kind == "computation":
        part = document.by_name.get(word.name)
        return None if part is None else part.name_range
    if word.kind not in ("definition", "name") or word.part is None:
        return None
    pattern = rf"(?<![A-Za-z0-9_.\-])%?{re.escape(word.name)}(?=[ \t]*=[ \t])"
    found = re.search(pattern, word.part.text)
    if found is None:
        return None
    return Range(word.part.at + found.start(), word.part.at + found.end())


def _uses(document: Document, word: Word) -> Iterator[Word]:
    """Yield the words that refer to the same thing as `word`."""
    is_computation = word.kind == "computation"
    kinds = ("computation",) if is_computation else ("definition", "name")
    part = None if is_computation else word.part
    text, base = (part.text, part.at) if part else (document.text, 0)
    pattern = rf"(?<![A-Za-z0-9_.\-%])%?{re.escape(word.name)}(?![A-Za-z0-9_.\-])"
    line_end = -1
    for found in re.finditer(pattern, text):
        if found.start() < line_end:
            continue  # the words of this line have been visited
        line_end = text.find("\n", found.start())
        line_end = len(text) if line_end < 0 else line_end
        for other in line_words(document, base + found.start()):
            if other.kind in kinds and other.name == word.name:
                yield other
