"""The formatter: HLO text in one layout; comments, names and order are kept.

It works on the coarse tokens of the lexer and the text between them, never on the module, so
nothing gets lost. Literals and attribute values are unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field

from hloc.errors import Diagnostic, HloError
from hloc.lazy_dataclass import dataclass
from hloc.parser.lexer import Lexer, Mode, Token
from hloc.parser.scanner import COMMENT, STRING
from hloc.parser.split import SEPARATOR, pieces_of, split_modules
from hloc.parser.to_ast import is_module_text, parse_ast
from hloc.source import SourceFile

INDENT = "  "

_COMMENT = re.compile(COMMENT)
_ELEMENT = re.compile(r"[ \t\r\n]*+#[ \t\r\n]*+(-?[0-9])")
_OPERAND_PIECE = re.compile(
    rf"(?P<whole>{STRING.pattern}|{_COMMENT.pattern})|(?P<open>[(\[{{])|(?P<close>[)\]}}])"
    r"|(?P<comma>,)|(?P<blank>[ \t\r\n]++)|(?P<other>[^\"'/(\[{)\]},\s]++|.)"
)


def format_text(source: SourceFile) -> str:
    """Return the text of `source` in hloc's layout.

    One instruction per line, indented by two; one blank between tokens; one empty line between
    computations, at most one elsewhere. Comments stay on their own line, or
    after the token they follow. Formatting is idempotent.

    Args:
        source: one module or several, divided by lines `// -----`.

    Raises:
        HloError: the text has syntax faults; all of them.
    """
    pieces = pieces_of(source)
    faults: list[Diagnostic] = []
    for piece in split_modules(source):
        faults += parse_ast(piece)[1]
    if faults:
        raise HloError(faults)
    return f"{SEPARATOR}\n".join(_format_piece(piece) for piece in pieces)


@dataclass(frozen=True, slots=True)
class _Item:
    """A token or a comment, its formatted text, and the line ends before it in the source."""

    kind: str
    text: str
    line_ends: int


def _format_piece(source: SourceFile) -> str:
    layout = _Layout()
    waiting: list[_Item] = []
    for item in _items(source):
        if item.kind in ("//", "/*"):
            waiting.append(item)
        else:
            layout.token(item, waiting)
            waiting = []
    layout.end(waiting)
    return "".join(line + "\n" for line in layout.lines)


def _items(source: SourceFile) -> Iterator[_Item]:
    """Yield the tokens and comments of `source`."""
    text, at, opcode = source.text, 0, ""
    mode: Mode = "module" if is_module_text(source) else "single"
    lexer = Lexer(source, mode=mode, fast=False)
    while (token := lexer.next_token()) is not None:
        yield from _comments(text, at, token.start)
        if token.type == "OPCODE":
            opcode = text[token.start : token.end]
        line_ends = _line_ends_before(text, at, token.start)
        yield _Item(token.type, _token_text(token, text, opcode), line_ends)
        at = token.end
        if token.type == "TABLES":  # whose token takes in the comments behind it
            yield from _comments(text, token.start + len(token.value), at)
    yield from _comments(text, at, len(text))


def _comments(text: str, at: int, end: int) -> Iterator[_Item]:
    for found in _COMMENT.finditer(text, at, end):
        yield _Item(found.group()[:2], found.group().rstrip(), text.count("\n", at, found.start()))
        at = found.end()


def _line_ends_before(text: str, at: int, end: int) -> int:
    """Return the number of line ends directly before `end`, at or after `at`."""
    blank = len(text[at:end].rstrip(" \t\r\n"))
    return text.count("\n", at + blank, end)


# ---------------------------------------------------------------- lines


@dataclass(slots=True)
class _Layout:
    """Lines that grow item by item.

    Attributes:
        line: the current line.
        depth: 1 inside the body of a computation.
        empty_due: an empty line precedes the next line.
        opened: the last line opened a body, so no empty line follows.
    """

    lines: list[str] = field(default_factory=list)
    line: str = ""
    depth: int = 0
    empty_due: bool = False
    opened: bool = False
    previous: str = ""

    def token(self, item: _Item, comments: list[_Item]) -> None:
        """Add a token and the comments before it."""
        if self._starts_statement(item):
            joins = self._comments_between(comments) and not item.line_ends
            if item.kind == "RBRACE":
                self.depth, self.empty_due = 0, False
            if not joins:
                self._new_line(item.line_ends)
        else:
            self._comments_inside(comments)
        self._put(item.text, "" if self._joined(item) else " ")
        if item.kind == "LBRACE":
            self.depth, self.opened = 1, True
        if item.kind in ("HLO_MODULE", "TABLES", "RBRACE"):
            self.empty_due = True
        self.previous = item.kind

    def end(self, comments: list[_Item]) -> None:
        """Add the comments after the last token."""
        self._comments_between(comments)
        self._flush()

    def _starts_statement(self, item: _Item) -> bool:
        """Tell whether an instruction, a computation, the header, tables or a `}` begins here."""
        if not self.previous or item.kind in ("HLO_MODULE", "TABLES", "ENTRY", "ROOT", "RBRACE"):
            return True
        return item.kind == "NAME" and self.previous not in ("ENTRY", "ROOT", "HLO_MODULE")

    def _joined(self, item: _Item) -> bool:
        return item.kind == "COMMA" or (item.kind == "OPERANDS" and self.previous == "OPCODE")

    def _comments_between(self, comments: list[_Item]) -> bool:
        """Write comments between statements; True if the next token continues their line."""
        joins = False
        for item in comments:
            if item.line_ends or not self.line:
                self._new_line(item.line_ends)
                self._put(item.text, "")
                joins = item.kind == "/*"
            else:
                self._put(item.text, " " if joins else "  ")
                joins = joins and item.kind == "/*"
        return joins

    def _comments_inside(self, comments: list[_Item]) -> None:
        """Write comments inside a statement, which continues on an indented line after a `//`."""
        for item in comments:
            if item.kind == "//":
                if item.line_ends and self.line.strip():
                    self._continue_line()
                self._put(item.text, "  ")
                self._continue_line()
            else:
                self._put(item.text, " ")

    def _put(self, text: str, gap: str) -> None:
        self.line += text if not self.line.strip() else gap + text

    def _new_line(self, line_ends: int) -> None:
        """Begin a statement or a comment of its own."""
        self._flush()
        if (self.empty_due or (line_ends > 1 and not self.opened)) and self.lines:
            self.lines.append("")
        self.empty_due = self.opened = False
        self.line = INDENT * self.depth

    def _continue_line(self) -> None:
        self._flush()
        self.line = INDENT * (self.depth + 2)

    def _flush(self) -> None:
        if self.line.strip():
            self.lines.append(self.line)
        self.line = ""


# ---------------------------------------------------------------- tokens


def _token_text(token: Token, text: str, opcode: str) -> str:
    written = text[token.start : token.end]
    if token.type == "TABLES":
        return str(token.value)
    if token.type == "ATTRIBUTE":
        between = text[token.start + len(token.value.key) + 1 : token.value.value_at]
        return written if between.strip() else f"{token.value.key}={token.value.value}"
    if token.type == "OPERANDS" and opcode == "constant":
        return written if "//" in written else f"({written[1:-1].strip()})"
    if token.type in ("OPERANDS", "PARAMETERS", "SHAPE"):
        line = _one_line(written)
        return line if _COMMENT.search(line) else _ELEMENT.sub(r"#\1", line)
    return written


def _one_line(written: str) -> str:
    """Return a list in brackets with single blanks, and one after each outer comma.

    No blanks are inserted inside `[]` and `{}`, and so in shapes and layouts. A list with a comment
    to the end of the line is unchanged.
    """
    out: list[str] = []
    opened: list[str] = []
    for found in _OPERAND_PIECE.finditer(written):
        kind, piece = found.lastgroup, found.group()
        if kind == "whole" and piece.startswith("//"):
            return written
        if kind == "blank":
            if out and out[-1] not in ("(", "[", "{", " "):
                out.append(" ")
            continue
        if kind in ("close", "comma") and out and out[-1] == " ":
            out.pop()
        if kind == "open":
            opened.append(piece)
        elif kind == "close" and opened:
            opened.pop()
        out.append(piece)
        if kind == "comma" and (not opened or opened[-1] == "("):
            out.append(" ")
    return "".join(out)
