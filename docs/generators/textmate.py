"""The TextMate grammar of HLO text, for VS Code: words from the tables, patterns from the grammar.

python -m docs.generators.textmate > editors/vscode/syntaxes/hlo.tmLanguage.json

Patterns see one line. What a word is by its context is told by hloc's own tokens
(`hloc/editors/tokens.py`), which the language server sends and which replace these colours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from hloc.dtypes import DTYPES
from hloc.editors.vocabulary import CONSTANTS, SECTIONS, attribute_names, roles_of_computations
from hloc.ops import OPCODES
from hloc.parser.grammar_file import terminal

_NO_NAME_BEFORE = r"(?<![A-Za-z0-9_.%\-])"
_NO_NAME_AFTER = r"(?![A-Za-z0-9_.\-])"
_NAME = r"%?[A-Za-z_][A-Za-z0-9_.\-]*+"


def page() -> str:
    """Return editors/vscode/syntaxes/hlo.tmLanguage.json."""
    grammar = {
        "$comment": "Generated from hloc's tables: python -m docs.generators.textmate",
        "name": "HLO",
        "scopeName": "source.hlo",
        "fileTypes": ["hlo"],
        "firstLineMatch": r"^\s*HloModule\s",
        "patterns": list(_patterns()),
    }
    return json.dumps(grammar, indent=2) + "\n"


def _patterns() -> Iterable[dict[str, Any]]:
    """Yield patterns; the first that matches at the leftmost place counts."""
    yield _row("comment.line.double-slash", r"//.*$")
    yield {"name": "comment.block.hlo", "begin": r"/\*", "end": r"\*/"}
    yield _row("string.quoted", r'"(?:[^"\\]|\\.)*+"' + "|" + r"'(?:[^'\\]|\\.)*+'")
    roles = _words(roles_of_computations())
    yield {
        "match": rf"{_NO_NAME_BEFORE}({roles})(=)({_NAME})",
        "captures": {
            "1": {"name": "entity.other.attribute-name.hlo"},
            "2": {"name": "keyword.operator.hlo"},
            "3": {"name": "entity.name.function.hlo"},
        },
    }
    yield _row(
        "entity.other.attribute-name", rf"{_NO_NAME_BEFORE}(?:{_words(attribute_names())})(?==\S)"
    )
    yield _row("support.type.property-name", rf"{_NO_NAME_BEFORE}[A-Za-z_][A-Za-z0-9_.\-]*+(?==\S)")
    yield _row("keyword.control", f"{_NO_NAME_BEFORE}(?:{_words(SECTIONS)}){_NO_NAME_AFTER}")
    yield _row("entity.name.variable", rf"{_NAME}(?=[ \t]*=[ \t])")
    yield _row("support.type", rf"{_NO_NAME_BEFORE}(?:{_words(DTYPES)})(?=\[)")
    opcodes = rf"(?:{_words(OPCODES)})(?:-start|-update|-done)?+"
    yield _row("support.function", rf"{_NO_NAME_BEFORE}{opcodes}(?=\()")
    yield _row("entity.name.function", rf"^(?:{_NAME})(?=[ \t]*[({{])|(?<=ENTRY )(?:{_NAME})")
    numbers = [
        terminal(name) for name in ("DIM_LABELS", "NON_FINITE", "PAD", "DXD", "DECIMAL", "INT")
    ]
    yield _row("constant.numeric", f"{_NO_NAME_BEFORE}(?:{'|'.join(numbers)})")
    yield _row("constant.language", f"{_NO_NAME_BEFORE}(?:{_words(CONSTANTS)}){_NO_NAME_AFTER}")
    yield _row("variable.other", _NAME)
    yield _row("keyword.operator", r"->|<=|\.\.\.|[=#*?~+<>|-]")


def _row(scope: str, pattern: str) -> dict[str, str]:
    return {"name": f"{scope}.hlo", "match": pattern}


def _words(words: Iterable[str]) -> str:
    """Return a pattern of any of `words`; longer ones first, since the first that fits counts."""
    return "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))


if __name__ == "__main__":
    print(page(), end="")
