"""HLO text as tokens with their kinds: for syntax highlighting, never for parsing a module.

Every character is in a token, so incomplete modules are highlighted too. The patterns
are terminals of the grammar; the words come from the opcode table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Literal, NamedTuple

from hloc.editors.vocabulary import (
    CONSTANTS,
    SECTIONS,
    attribute_names,
    is_element_type,
    is_opcode,
    roles_of_computations,
)
from hloc.parser.grammar_file import terminal

Kind = Literal[
    "blank", "comment", "string", "section", "constant", "type", "opcode", "attribute", "property",
    "definition", "name", "computation", "number", "operator", "punctuation", "error",
]  # fmt: skip
"""Kinds of tokens. `definition` is the name of an instruction in its definition, `name` in a
use; a `property` is the key of a value inside an attribute; `error` is invalid text."""


class Token(NamedTuple):
    """`text[at:]` begins with `text`, which is of `kind`."""

    at: int
    kind: Kind
    text: str


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of `text` in order; joined they are `text`."""
    key, depth = "", 0
    for found in _pattern().finditer(text):
        kind, word, at = _KIND_OF_GROUP[str(found.lastgroup)], found.group(), found.start()
        if found.lastgroup == "word":
            kind = _kind_of_word(text, word, found.end(), bool(key))
        if kind == "attribute":
            key = word if word in roles_of_computations() else ""
            depth = 0
        elif kind == "punctuation" and key:
            depth += (word in "{") - (word in "}")
            if word in "()" or (depth <= 0 and word in ",}"):
                key = ""
        yield Token(at, kind, word)


_KIND_OF_GROUP: dict[str, Kind] = {
    "blank": "blank",
    "comment": "comment",
    "string": "string",
    "labels": "number",
    "number": "number",
    "word": "name",
    "operator": "operator",
    "punctuation": "punctuation",
    "error": "error",
}
_DEFINES = re.compile(r"[ \t]*=[ \t]")
_HEAD = re.compile(r"[ \t]+\(|[ \t]*(?:\{[ \t]*(?://[^\n]*)?\r?\n)")


@cache
def _pattern() -> re.Pattern[str]:
    return re.compile(text_pattern())


def text_pattern() -> str:
    """Return the pattern of one token; its groups are named by kind, `word` depends on context."""
    words = "|".join(map(terminal, ("PERCENT_NAME", "IDENT")))
    numbers = "|".join(map(terminal, ("PAD", "DXD", "DECIMAL", "INT")))
    return (
        rf"(?P<blank>{terminal('WHITE_SPACE')})|(?P<comment>{terminal('COMMENT')})"
        rf"|(?P<string>{terminal('STRING')})|(?P<labels>{terminal('DIM_LABELS')})"
        rf"|(?P<number>{terminal('NON_FINITE')}|{numbers})|(?P<word>{words})"
        r"|(?P<operator>->|<=|\.\.\.|[=#*?~+<>\-|.])|(?P<punctuation>[(){}\[\],:])"
        r"|(?P<error>[\s\S])"
    )


def _kind_of_word(text: str, word: str, end: int, names_computation: bool) -> Kind:
    after = text[end : end + 1]
    if word.startswith("%"):
        return _kind_of_name(text, end, names_computation)
    if after == "=" and not _DEFINES.match(text, end):
        return "attribute" if word in attribute_names() else "property"
    if word in SECTIONS:
        return "section"
    if after == "[" and is_element_type(word):
        return "type"
    if after == "(" and is_opcode(word):
        return "opcode"
    return "constant" if word in CONSTANTS else _kind_of_name(text, end, names_computation)


def _kind_of_name(text: str, end: int, names_computation: bool) -> Kind:
    if _DEFINES.match(text, end):
        return "definition"
    return "computation" if names_computation or _HEAD.match(text, end) else "name"
