"""PTX text to tokens with line numbers, without comments."""

from __future__ import annotations

import re

from hloc.lazy_dataclass import dataclass
from hloc.ptx.faults import PtxFault

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n]+|//[^\n]*|/\*.*?\*/)
  | (?P<float>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|\d+\.\d*(?:[eE][+-]?\d+)?)
  | (?P<integer>0[xX][0-9a-fA-F]+U?|\d+U?)
  | (?P<name>[A-Za-z_$%.](?:[\w$%.]|::)*)
  | (?P<string>"[^"]*")
  | (?P<mark>[-+,;:{}()\[\]<>|!@=~*])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """One word; `kind` is a group of the pattern: float, integer, name, string or mark."""

    kind: str
    text: str
    start: int
    line: int


def tokenize(text: str) -> list[Token]:
    """Split PTX text into tokens, with an empty mark at the end.

    Raises:
        PtxFault: a character that is invalid in PTX.
    """
    tokens = []
    position, line = 0, 1
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise PtxFault(f"unexpected character {text[position]!r} in PTX", line=line)
        kind = found.lastgroup or ""
        if kind != "space":
            tokens.append(Token(kind, found[0], position, line))
        line += found[0].count("\n")
        position = found.end()
    tokens.append(Token("mark", "", len(text), line))
    return tokens
