"""Modules, computations and instructions in the spelling that XLA prints, read without the lexer.

Each pattern stands beside the rule of the grammar that it abbreviates: one blank where XLA prints
one, brackets nested as deep as XLA nests them. Other spellings are left to the lexer and the
grammar, which give the same tree (tests/unit/parser/test_two_ways.py). Other kinds of brackets
inside a piece are not matched here: each piece is parsed by its own rule later, which rejects
unbalanced ones. Large modules are nearly all in this spelling: 2 us an instruction, not 30.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hloc.parser.ast import AttributeAst, ComputationAst, InstructionAst, ModuleAst, Piece
from hloc.parser.grammar_file import terminal
from hloc.parser.scanner import NAME, TABLE_NAMES, TABLES, after_blanks


def _nested(brackets: str, inside: str, depth: int) -> str:
    """Return a pattern for a bracketed text with up to `depth` levels of the bracket inside."""
    opening, closing = map(re.escape, brackets)
    plain = rf"[^{opening}{closing}\"'/\n]*+"
    deeper = f"|{_nested(brackets, inside, depth - 1)}" if depth else ""
    return f"{opening}{plain}(?:(?:{inside}{deeper}){plain})*+{closing}"


# SHAPE, OPERANDS, PARAMETERS and the values of ATTRIBUTE. Only double quotes: a dictionary knows no
# others.
_BLANKS = r"[ \t\r\n]*+"
_STRING = terminal("DOUBLE_QUOTED")
_ARRAY = r"[a-z][A-Za-z0-9_]*+\[[0-9,<=]*+\](?:\{(?=[0-9:])[0-9,]*+(?::[^{}\"'/\n]*+)?\})?+"
_INDEX = r"/\*(?:index|i[0-9]++)=[0-9]++\*/"  # before parts of tuples and of constants
_PARENS = _nested("()", _INDEX, 2)
_SHAPE = rf"(?:{_ARRAY}|{_PARENS})"
_METADATA = _nested("{}", _STRING, 0)
_IOTA = r"\[[0-9,]++\]<=\[[0-9,]++\](?:T\([0-9,]++\))?+"
_VALUE = rf"(?:{_nested('{}', f'{_STRING}|{_INDEX}', 3)}|{_STRING}|[A-Za-z0-9_.\-%>?]++|{_IOTA})"
_KEY = terminal("IDENT")

# attributes: (COMMA ATTRIBUTE)*
_ATTRIBUTE = rf", (?!metadata=){_KEY}={_VALUE}"
_ATTRIBUTE_PIECE = re.compile(rf", ({_KEY})=({_VALUE})")
# spelled: root? NAME EQUALS SHAPE? OPCODE OPERANDS attributes
_INSTRUCTION = re.compile(
    rf"{_BLANKS}(ROOT )?+({NAME}) = ({_SHAPE}) ([a-z][a-z0-9\-]*+)({_PARENS})"
    rf"((?:{_ATTRIBUTE})*+)(?:, metadata=({_METADATA})((?:{_ATTRIBUTE})*+))?+"
    r"(?=[ \t\r]*+\n[ \t]*+[%A-Za-z_}])"
)
# computation: entry? NAME signature? body attributes
_HEAD = re.compile(rf"{_BLANKS}(ENTRY )?+({NAME}) (?:({_PARENS}) -> ({_SHAPE}) )?+\{{[ \t\r]*+\n")
_TAIL = re.compile(
    rf"{_BLANKS}\}}((?:{_ATTRIBUTE})*+)(?=[ \t\r]*+\n{_BLANKS}[%A-Za-z_]|{_BLANKS}\Z)"
)
# header: HLO_MODULE NAME attributes
_HEADER = re.compile(rf"HloModule[ \t]++({NAME})(?=[, \t\r\n])")
_ONLY_BLANKS = re.compile(_BLANKS)
_LINE_END = re.compile(r"[ \t\r]*+\n")
_NO_NAMES = frozenset(("HloModule", "ENTRY", "ROOT", *TABLE_NAMES))


class WholeText:
    """Reads `text[:end]`; keeps attribute lists, of which real modules have few distinct ones."""

    def __init__(self, text: str, end: int) -> None:
        self._text = text
        self._end = end
        self._attributes: dict[str, tuple[AttributeAst, ...]] = {}
        self._found: dict[int, tuple[list[ComputationAst], int]] = {}

    def module(self) -> ModuleAst | None:
        """Return the module, None if any of it is in another spelling."""
        text, end = self._text, self._end
        head = _HEADER.match(text, after_blanks(text, 0, end), end)
        if head is None or head.group(1) in _NO_NAMES:
            return None
        at, attributes, first = head.end(), [], head.end() + 2
        while found := _ATTRIBUTE_PIECE.match(text, at, end):
            key_at, value_at = found.start(1) - first, found.start(2) - first
            attributes.append(AttributeAst(found.group(1), found.group(2), key_at, value_at))
            at = found.end()
        line_end = _LINE_END.match(text, at, end)
        if line_end is None:
            return None
        at, tables = after_blanks(text, line_end.end(), end), None
        if text.startswith(f"{TABLE_NAMES[0]}\n", at) and (found := TABLES.match(text, at, end)):
            at, tables = found.end(), Piece(found.group().rstrip(), at)
        computations, at = self.computations(at)
        if not computations or not _ONLY_BLANKS.fullmatch(text, at, end):
            return None
        return ModuleAst(
            head.group(1), head.start(1), tuple(attributes), first if attributes else 0, tables,
            tuple(computations),
        )  # fmt: skip

    def instructions(self, at: int) -> tuple[list[InstructionAst], int]:
        """Return the instructions that follow each other from `at`, and the end of the last one."""
        text, end = self._text, self._end
        match, known = _INSTRUCTION.match, self._attributes
        run: list[InstructionAst] = []
        while found := match(text, at, end):
            at = found.end()
            root, name, shape, opcode, operands, before, metadata, after = found.groups()
            attributes: tuple[AttributeAst, ...] = ()
            attributes_at = 0
            if before:
                attributes_at = found.start(6) + 2
                attributes = known.get(before, ())
                if not attributes:
                    attributes = known[before] = tuple(_split_attributes(before, -2))
            if after:
                attributes_at = attributes_at or found.start(8) + 2
                attributes += tuple(_split_attributes(after, found.start(8) - attributes_at))
            run.append(
                InstructionAst(
                    name, found.start(2), root is not None, shape, found.start(3), opcode,
                    found.start(4), operands[1:-1], found.start(5) + 1, attributes, attributes_at,
                    None if metadata is None else Piece(metadata, found.start(7)),
                )
            )  # fmt: skip
        return run, at

    def computations(self, at: int) -> tuple[list[ComputationAst], int]:
        """Return the computations that follow each other from `at`, and the end of the last one.

        They are kept: if the text is not a whole module after all, the lexer needs them again.
        """
        blanks = _ONLY_BLANKS.match(self._text, at, self._end)
        start = blanks.end() if blanks else at
        if start not in self._found:
            found: list[ComputationAst] = []
            while (one := self._computation(at)) is not None:
                computation, at = one
                found.append(computation)
            self._found[start] = (found, at)
        return self._found[start]

    def _computation(self, at: int) -> tuple[ComputationAst, int] | None:
        head = _HEAD.match(self._text, at, self._end)
        if head is None or head.group(2) in _NO_NAMES:
            return None
        instructions, at = self.instructions(head.end())
        tail = _TAIL.match(self._text, at, self._end) if instructions else None
        if tail is None:
            return None
        entry, name, parameters, result = head.groups()
        attributes = tuple(_split_attributes(tail.group(1), -2))
        computation = ComputationAst(
            name, head.start(2), entry is not None,
            None if parameters is None else Piece(parameters, head.start(3)),
            None if result is None else Piece(result, head.start(4)), tuple(instructions),
            attributes, tail.start(1) + 2 if attributes else 0,
        )  # fmt: skip
        return computation, tail.end()


def _split_attributes(text: str, shift: int) -> Iterator[AttributeAst]:
    for found in _ATTRIBUTE_PIECE.finditer(text):
        yield AttributeAst(
            found.group(1), found.group(2), found.start(1) + shift, found.start(2) + shift
        )
