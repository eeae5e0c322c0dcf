"""The coarse tokens of level 1 of the grammar: instructions, shapes, operand lists, attributes.

`Lexer` depends on the next characters and the previous token, never on the state of the parser, so
an error in one instruction does not affect the others. Runs of instructions or computations in the
spelling that XLA prints become one token (`whole_text.py`); all other text is read token by token.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from hloc.parser.ast import AttributeAst, ModuleAst
from hloc.parser.grammar_file import terminal
from hloc.parser.scanner import (
    COMMENT,
    IDENT,
    NAME,
    STRING,
    TABLE_NAMES,
    TABLES,
    after_blanks,
    after_bracket,
    after_string,
    fault,
    unterminated,
)
from hloc.parser.value_tools import BadValue, int_of
from hloc.parser.whole_text import WholeText
from hloc.source import SourceFile

Mode = Literal["module", "single", "operands", "body"]


class Token:
    """A coarse token: the `type` for Lark, the value and the offsets."""

    __slots__ = ("end", "start", "type", "value")

    def __init__(self, type: str, value: Any, start: int, end: int) -> None:
        self.type = type
        self.value = value
        self.start = start
        self.end = end


_PIECE = re.compile(
    rf"(?P<name>%{IDENT})|(?P<attribute>({IDENT})=)|(?P<ident>{IDENT})|(?P<arrow>->)"
    r"|(?P<punctuation>[(){},=])"
)
_INT = re.compile(terminal("INT"))
_NOTES = {
    ";": "instructions follow each other without a separator",
    "\ufeff": "this is a byte-order mark; save the file as UTF-8 without one",
}
_PUNCTUATION = {"{": "LBRACE", "}": "RBRACE", ",": "COMMA", "=": "EQUALS"}
_WORDS = {"HloModule": "HLO_MODULE", "ENTRY": "ENTRY", "ROOT": "ROOT"}
_BARE_VALUE = re.compile(r"[^ \t\r\n,(){}\[\]\"'/]++")
_IN_LAYOUT = re.compile(r"[-0-9:]")
"""What follows the opening brace of a layout, but not that of a computation."""

_DEVICE_IDS_AHEAD = re.compile(r"[ \t\r\n]*+,[ \t\r\n]*+device_ids=")
_JSON_KEYS = frozenset({"backend_config", "frontend_attributes"})
_INSTRUCTION_ENDS = frozenset(
    {"LBRACE", "INSTRUCTIONS", "OPERANDS", "ATTRIBUTE", "BAD_INSTRUCTION"}
)
_COMPUTATION_ENDS = frozenset({"", "COMPUTATIONS", "RBRACE", "ATTRIBUTE", "TABLES"})

_SYNC = re.compile(
    rf"\"(?:[^\"\\\n]++|\\.)*+\"|{COMMENT}"
    rf"|(?P<top>\n(?:ENTRY[ \t]|{NAME}[ \t]*+[({{]))"
    rf"|(?P<line>\n[ \t]+(?=(?:ROOT[ \t]+)?{NAME}[ \t]*+=[ \t]))"
    rf"|(?P<next>(?<![A-Za-z0-9_.\-%])(?:ROOT[ \t]+)?+{NAME}[ \t]++=[ \t])"
    r"|(?P<open>[{(\[])|(?P<close>[})\]])"
)


class Lexer:
    """Reads coarse tokens from `source.text[at:end]`, one per call of `next_token`.

    Args:
        source: the text.
        at: start offset.
        end: end offset; the end of the text if None.
        mode: the kind of text, which decides which words are names.
        fast: recognise whole instructions and computations.
    """

    def __init__(
        self,
        source: SourceFile,
        at: int = 0,
        end: int | None = None,
        mode: Mode = "module",
        fast: bool = True,
    ) -> None:
        """Stand at `at`, outside of any computation."""
        self.source = source
        self.text = source.text
        self.at = at
        self.end = len(source.text) if end is None else end
        self.mode = mode
        self.in_body = False
        self.previous = ""
        self.instruction_at = at
        self.computation_at = at
        self._whole = WholeText(source.text, self.end) if fast else None

    def whole_module(self) -> ModuleAst | None:
        """Return the module if all of the text is in XLA's spelling, without reading tokens."""
        return None if self._whole is None else self._whole.module()

    def next_token(self) -> Token | None:
        """Return the next token, None at the end; HloError for text that begins no token."""
        last = self.at
        at = self.at = after_blanks(self.text, last, self.end)
        if self.in_body and self.previous in _INSTRUCTION_ENDS:
            if token := self._whole_instructions(at):
                return token
            if self.text[at : at + 1] != ",":
                self.instruction_at = at
        elif not self.in_body and self.previous in _COMPUTATION_ENDS:
            self.computation_at = at
            # After a run of whole computations another can follow only after a comment.
            is_new = self.previous != "COMPUTATIONS" or "/" in self.text[last:at]
            if is_new and (token := self._whole_computations(at)):
                return token
        if at >= self.end:
            return None
        token = self._piece(at)
        self.at = token.end
        self.previous = token.type
        if self.mode in ("module", "body"):
            if token.type == "LBRACE":
                self.in_body = True
            elif token.type == "RBRACE":
                self.in_body = False
        return token

    def _whole_instructions(self, at: int) -> Token | None:
        """Return a run of instructions in XLA's spelling as one token."""
        if self._whole is None:
            return None
        run, end = self._whole.instructions(at)
        if not run:
            return None
        self.instruction_at = run[-1].at
        return self._run("INSTRUCTIONS", run, at, end)

    def _whole_computations(self, at: int) -> Token | None:
        """Return a run of computations in XLA's spelling as one token."""
        if self._whole is None or self.mode != "module":
            return None
        run, end = self._whole.computations(at)
        if not run:
            return None
        self.computation_at = run[-1].at
        return self._run("COMPUTATIONS", run, at, end)

    def _run(self, type: str, run: Sequence[object], at: int, end: int) -> Token:
        self.at = end
        self.previous = type
        return Token(type, run, at, end)

    def _piece(self, at: int) -> Token:
        """Return the token at `at`, read by itself."""
        found = _PIECE.match(self.text, at, self.end)
        if found is None:
            if self.mode == "operands" and self.text[at] == "#":
                return self._element(at)
            raise self._no_token(at)
        kind = found.lastgroup
        if kind == "name":
            return Token("NAME", found.group(), at, found.end())
        if kind == "attribute":
            return self._attribute(found)
        if kind == "ident":
            return self._ident(found)
        if kind == "arrow":
            return Token("ARROW", "->", at, found.end())
        if found.group() == "(":
            return self._parenthesis(at)
        if found.group() == ")":
            raise fault(self.source, at, at + 1, "unexpected ')'", "HLOC0101")
        return Token(_PUNCTUATION[found.group()], found.group(), at, found.end())

    def _element(self, at: int) -> Token:
        """Return the token for `#1`, which selects an element of a tuple."""
        number = _INT.match(self.text, after_blanks(self.text, at + 1, self.end), self.end)
        if number is None:
            note = "`p#0` is element 0 of the tuple `p`"
            raise fault(self.source, at, at + 1, "no index behind '#'", "HLOC0101", note)
        try:
            return Token("ELEMENT", int_of(number.group()), at, number.end())
        except BadValue as error:
            raise fault(self.source, at, number.end(), str(error), "HLOC0101") from None

    def _no_token(self, at: int) -> Exception:
        c = self.text[at]
        if (c == "/" and self.text.startswith("/*", at)) or c in "\"'":
            if c == "/" or not STRING.match(self.text, at, self.end):
                return unterminated(self.source, at)
            return fault(self.source, at, at + 1, "unexpected string", "HLOC0101")
        shown = repr(c) if c.isprintable() else f"character U+{ord(c):04X}"
        notes = [_NOTES[c]] if c in _NOTES else []
        return fault(self.source, at, at + 1, f"unexpected {shown}", "HLOC0101", *notes)

    def _ident(self, found: re.Match[str]) -> Token:
        """Return the token of a bare word, which may be a type, an opcode, a keyword or a name.

        What follows and what came before decide: `f32` before `[` is a shape, `add` after `=` an
        opcode.
        """
        word, at, end = found.group(), found.start(), found.end()
        if self.text.startswith(":", end) and end < self.end:
            return Token("NAME", word, at, end + 1)  # XLA's token for a name in a signature
        ahead = after_blanks(self.text, end, self.end)
        c = self.text[ahead : ahead + 1] if ahead < self.end else ""
        if c == "[" and self.previous != "OPCODE":
            return self._array_shape(at, ahead)
        if c == "(" and word == "b" and self.previous in ("EQUALS", "ARROW"):
            return self._shape_token(at, after_bracket(self.source, ahead, self.end))
        expects_opcode = self.previous in ("EQUALS", "SHAPE") and self.mode != "operands"
        opcode_ahead = c == "(" and (self.mode in ("operands", "single") or self.in_body)
        if expects_opcode or opcode_ahead:
            return Token("OPCODE", word, at, end)
        if word in TABLE_NAMES and not self.in_body:
            tables = TABLES.match(self.text, at, self.end)
            assert tables is not None
            return Token("TABLES", tables.group().rstrip(), at, tables.end())
        return Token(_WORDS.get(word, "NAME"), word, at, end)

    def _array_shape(self, at: int, bracket: int) -> Token:
        end = after_bracket(self.source, bracket, self.end)
        brace = after_blanks(self.text, end, self.end)
        if self.text.startswith("{", brace, self.end) and _IN_LAYOUT.match(
            self.text, after_blanks(self.text, brace + 1, self.end), self.end
        ):
            end = after_bracket(self.source, brace, self.end)
        return self._shape_token(at, end)

    def _shape_token(self, at: int, end: int) -> Token:
        return Token("SHAPE", self.text[at:end], at, end)

    def _parenthesis(self, at: int) -> Token:
        end = after_bracket(self.source, at, self.end)
        if self.previous == "OPCODE":
            return Token("OPERANDS", self.text[at + 1 : end - 1], at, end)
        if self.previous == "NAME" and self.mode == "module" and not self.in_body:
            return Token("PARAMETERS", self.text[at:end], at, end)
        return self._shape_token(at, end)

    def _attribute(self, found: re.Match[str]) -> Token:
        key = found.group(3)
        value_at = after_blanks(self.text, found.end(), self.end)
        end = self._after_value(key, value_at)
        if end == value_at:
            raise fault(
                self.source, found.start(), found.end(), f"attribute {key} has no value", "HLOC0101"
            )
        value = self.text[value_at:end]
        return Token(
            "ATTRIBUTE", AttributeAst(key, value, found.start(), value_at), found.start(), end
        )

    def _after_value(self, key: str, at: int) -> int:
        """Return where the value of `key` ends: after brackets, strings and words in a row.

        Values are not separated from what follows in one way only, so three keys have rules of
        their own.
        """
        end = here = at
        shape_seen = False
        while here < self.end:
            c = self.text[here]
            if c in "({[":
                end = after_bracket(self.source, here, self.end, c == "{" and key in _JSON_KEYS)
            elif c in "\"'":
                end = after_string(self.source, here, self.end)
            elif bare := _BARE_VALUE.match(self.text, here, self.end):
                end = bare.end()
            else:
                break
            here = after_blanks(self.text, end, self.end)
            if here >= self.end:
                break
            if key == "literal" and not shape_seen:
                shape_seen = self.text[here] not in "[{"
            elif (
                key == "replica_groups"
                and self.text.startswith("mesh", at)
                and (_DEVICE_IDS_AHEAD.match(self.text, here, self.end))
            ):
                here = self.text.index("device_ids", here)
            elif here > end and not self._continues(key, here):
                break
        return end

    def _continues(self, key: str, here: int) -> bool:
        """Tell whether a value continues after a blank: only with brackets or an iota list."""
        if self.text[here] in "({[":
            return True
        return key == "replica_groups" and self.text.startswith(("<=", "T("), here)

    def skip_to_next(self, at: int) -> Token:
        """Return a token for the broken text, ending before the next instruction or computation."""
        depth = 0
        for found in _SYNC.finditer(self.text, at, self.end):
            kind = found.lastgroup
            if kind == "open":
                depth += 1
            elif kind == "close":
                if depth == 0 and found.group() == "}" and self.in_body:
                    return self._broken("BAD_INSTRUCTION", found.start())
                depth = max(0, depth - 1)
            elif kind == "top":
                return self._broken("BAD_COMPUTATION", found.start())
            elif self.in_body and (kind == "line" or (kind == "next" and depth == 0)):
                return self._broken("BAD_INSTRUCTION", found.start())
        return self._broken("BAD_COMPUTATION", self.end)

    def _broken(self, type: str, end: int) -> Token:
        at = self.instruction_at if self.in_body else self.computation_at
        if type == "BAD_COMPUTATION":
            self.in_body = False
        end = max(end, self.at)
        self.at = end
        self.previous = "BAD_INSTRUCTION" if type == "BAD_INSTRUCTION" else "RBRACE"
        return Token(type, self.text[at : min(end, at + 400)], at, end)
