"""A Pygments lexer for HLO text: for Rich, Sphinx, notebooks, `pygmentize -l hlo`.

Found by Pygments through the entry point `pygments.lexers`; nothing else of hloc imports it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from pygments import token
from pygments.lexer import Lexer

from hloc.editors.tokens import Kind, tokens

_TYPE_OF: dict[Kind, token._TokenType] = {
    "blank": token.Whitespace,
    "comment": token.Comment,
    "string": token.String,
    "section": token.Keyword,
    "constant": token.Keyword.Constant,
    "type": token.Keyword.Type,
    "opcode": token.Name.Builtin,
    "attribute": token.Name.Attribute,
    "property": token.Name.Property,
    "definition": token.Name.Variable,
    "name": token.Name,
    "computation": token.Name.Function,
    "number": token.Number,
    "operator": token.Operator,
    "punctuation": token.Punctuation,
    "error": token.Error,
}
_HEADER = re.compile(r"\s*HloModule\s")
_ENTRY = re.compile(r"^ENTRY\s", re.MULTILINE)


class HloLexer(Lexer):
    """The lexer `hlo` of Pygments."""

    name = "HLO"
    url = "https://openxla.org/xla/operation_semantics"
    aliases: ClassVar[list[str]] = ["hlo", "xla-hlo"]
    filenames: ClassVar[list[str]] = ["*.hlo"]
    mimetypes: ClassVar[list[str]] = ["text/x-hlo"]

    @staticmethod
    def analyse_text(text: str) -> float:
        """Return the confidence that `text` is HLO, from 0 to 1."""
        return 1.0 if _HEADER.match(text) else 0.3 if _ENTRY.search(text) else 0.0

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, token._TokenType, str]]:
        """Yield offset, type of Pygments and text of each token."""
        for found in tokens(text):
            yield found.at, _TYPE_OF[found.kind], found.text
