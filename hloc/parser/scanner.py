"""Finds the ends of blanks, comments, strings and brackets in HLO text.

Everything is linear in the length of the text: the patterns use possessive quantifiers, and the
bracket matcher walks from bracket to bracket.
"""

from __future__ import annotations

import re

from hloc.errors import Diagnostic, HloError
from hloc.ir.attributes import RawText
from hloc.parser.grammar_file import terminal
from hloc.source import SourceFile, Span

MAX_ERRORS = 100
"""Reading stops after this many syntax errors."""

MAX_DEPTH = 128
"""Deepest nesting of brackets inside one instruction; real modules need about ten."""

IDENT = terminal("IDENT")
NAME = rf"%?{IDENT}"
COMMENT = terminal("COMMENT")
BLANKS = re.compile(rf"(?:{terminal('WHITE_SPACE')}|{COMMENT})*+")
STRING = re.compile(terminal("STRING"))
TABLE_NAMES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
"""The tables of stack frames, in the order in which they follow the header of a module."""

TABLES = re.compile(
    rf"(?:{terminal('WHITE_SPACE')}|{COMMENT}|{terminal('STRING')}|[0-9]++|,|\{{[^{{}}]*+\}}"
    rf"|(?:{'|'.join(TABLE_NAMES)})(?![A-Za-z0-9_.\-]))++"
)

_BRACKET = re.compile(
    rf"[^(){{}}\[\]\"'/]*+(?:([({{\[])|([)}}\]])|{STRING.pattern}|{COMMENT}|(\"|'|/\*)|/)"
)

# In a dictionary other brackets, single quotes and comments are plain text.
_DICTIONARY_BRACE = re.compile(rf'[^{{}}"]*+(?:(\{{)|(\}})|{terminal("DOUBLE_QUOTED")}|("))')
_CLOSING = {"(": ")", "{": "}", "[": "]"}


def fault(
    source: SourceFile, start: int, end: int, message: str, code: str, *notes: str
) -> HloError:
    """Return the error for a fault at `start..end`."""
    return HloError([Diagnostic(message, Span(source, start, end), notes, code)])


def unterminated(source: SourceFile, at: int) -> HloError:
    """Return the error for the string, comment or bracket that opens at `at` and never ends."""
    text = source.text[at : at + 2]
    what = "comment" if text == "/*" else "string" if text[:1] in "\"'" else f"'{text[:1]}'"
    return fault(source, at, at + len(text.rstrip()), f"unterminated {what}", "HLOC0102")


def after_bracket(source: SourceFile, at: int, end: int, json: bool = False) -> int:
    """Return the offset after the bracket that closes the one at `at`.

    Args:
        source: the text.
        at: offset of `(`, `{` or `[`.
        end: end offset.
        json: match braces only, and only double-quoted strings, as XLA does for dictionaries.

    Raises:
        HloError: no closing bracket, another kind of closing bracket, an unterminated string or
            comment, or nesting deeper than `MAX_DEPTH`.
    """
    text = source.text
    match = (_DICTIONARY_BRACE if json else _BRACKET).match
    opened: list[int] = []
    here = at
    while found := match(text, here, end):
        here = found.end()
        if found.group(1):
            opened.append(here - 1)
            if len(opened) > MAX_DEPTH:
                raise fault(
                    source, here - 1, here, f"nested too deeply: more than {MAX_DEPTH} brackets",
                    "HLOC0103",
                )  # fmt: skip
        elif found.group(2):
            opener = opened.pop()
            if _CLOSING[text[opener]] != text[here - 1]:
                found_at = Span(source, here - 1, here).place()
                if opened and "\n" in text[opened[0] : opener]:
                    opener = opened[0]  # the outer one is more likely at fault
                note = f"found '{text[here - 1]}' at {found_at} before it was closed"
                raise fault(
                    source, opener, opener + 1, f"unterminated '{text[opener]}'", "HLOC0102", note
                )
            if not opened:
                return here
        elif found.group(3):
            raise unterminated(source, here - len(found.group(3)))
    raise unterminated(source, opened[-1] if opened else at)


def after_string(source: SourceFile, at: int, end: int) -> int:
    """Return the offset after the string that starts at `at`; HloError if it never ends."""
    found = STRING.match(source.text, at, end)
    if found is None:
        raise unterminated(source, at)
    return found.end()


def after_blanks(text: str, at: int, end: int) -> int:
    """Return the offset of the next character that is neither blank nor in a comment."""
    found = BLANKS.match(text, at, end)
    assert found is not None  # the pattern matches the empty string
    return found.end()


def strip_comments(text: str) -> str:
    """Return `text` with every comment outside strings replaced by a blank."""
    if "/" not in text:
        return text
    return _COMMENT_OR_STRING.sub(lambda m: " " if m.group(1) else m.group(), text)


def raw_text(source: SourceFile, text: str, at: int) -> RawText:
    """Return the value of an attribute as written, without comments.

    Raises:
        HloError: `text`, found at offset `at`, has a bracket or string that does not end.
    """
    here, end = at, at + len(text)
    while found := _OPENING.search(source.text, here, end):
        after = after_string if found.group() in "\"'" else after_bracket
        here = after(source, found.start(), end)
    return RawText(strip_comments(text))


_OPENING = re.compile("[({\\[\"']")


def blank_comments(text: str) -> str:
    """Return `text` with comments outside strings overwritten by blanks; offsets stay the same."""
    if "//" not in text and "/*" not in text:
        return text
    return _COMMENT_OR_STRING.sub(lambda m: " " * len(m.group()) if m.group(1) else m.group(), text)


_COMMENT_OR_STRING = re.compile(rf"({COMMENT})|{STRING.pattern}")
