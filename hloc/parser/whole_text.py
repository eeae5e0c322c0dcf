"""Instructions and computations in the spelling that XLA prints, each by one regular expression.

What is spelled in another way is left to the lexer, which goes piece by piece; both ways give the
same syntax tree. Large modules are nearly all in this spelling: 2 us an instruction, not 30. A
module that is nothing but a header and such computations needs no parser above them either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hloc.parser.ast import AttributeAst, ComputationAst, InstructionAst, ModuleAst, Piece

_ARRAY = r"[a-z]\w*+\[[\d,<=]*+\](?:\{(?=[\d:])[\d,]*+(?::[^{}\"'/\n]*+)?\})?+"
_MARK = r"/\*index=\d++\*/"
_QUOTED = r'"(?:[^"\\\n]++|\\.)*+"'
_NAME = r"%?[A-Za-z_][\w.\-]*+"


def _nested(opening: str, closing: str, plain: str, other: str, depth: int) -> str:
    """Return a pattern for a bracketed text with up to `depth` levels of the bracket inside."""
    inside = f"|{_nested(opening, closing, plain, other, depth - 1)}" if depth else ""
    return f"{opening}{plain}(?:(?:{other}{inside}){plain})*+{closing}"


_PARENS = _nested(r"\(", r"\)", r"[^()\"'/\n]*+", _MARK, 2)
_BRACES = _nested(r"\{", r"\}", r"[^{}\"'/\n]*+", _QUOTED, 3)
_METADATA = _nested(r"\{", r"\}", r"[^{}\"'/\n]*+", _QUOTED, 0)
_VALUE = rf"(?:{_BRACES}|{_QUOTED}|[\w.\-%>?]++|\[[\d,]++\]<=\[[\d,]++\](?:T\([\d,]++\))?+)"
_ATTRIBUTE = rf",[ ](?!metadata=)[\w\-]++={_VALUE}"
_INSTRUCTION = re.compile(
    rf"[ \t\r\n]*+(ROOT )?+({_NAME}) = ({_ARRAY}|{_PARENS}) ([a-z][a-z0-9\-]*+)({_PARENS})"
    rf"((?:{_ATTRIBUTE})*+)"
    rf"(?:, metadata=({_METADATA})((?:{_ATTRIBUTE})*+))?+"
    r"(?=[ \t\r]*+\n[ \t]*+[%A-Za-z_}])",
    re.ASCII,
)
_ATTRIBUTE_PIECE = re.compile(rf", ([\w\-]++)=({_VALUE})", re.ASCII)
_HEAD = re.compile(
    rf"[ \t\r\n]*+(ENTRY )?+({_NAME}) (?:({_PARENS}) -> ({_ARRAY}|{_PARENS}) )?+\{{[ \t\r]*+\n",
    re.ASCII,
)
_TAIL = re.compile(
    rf"[ \t\r\n]*+\}}((?:{_ATTRIBUTE})*+)(?=[ \t\r]*+\n[ \t\r\n]*+[%A-Za-z_]|[ \t\r\n]*+\Z)",
    re.ASCII,
)
_HEADER = re.compile(rf"[ \t\r\n]*+HloModule[ \t]++({_NAME})(?=[,\s])", re.ASCII)
_LINE_END = re.compile(r"[ \t\r]*+\n")
_BLANKS = re.compile(r"[ \t\r\n]*+")
_NO_NAMES = frozenset(
    ("HloModule", "ENTRY", "ROOT", "FileNames", "FunctionNames", "FileLocations", "StackFrames")
)


class WholeText:
    """Reads `text[:end]`; remembers attribute lists, of which real modules have few."""

    def __init__(self, text: str, end: int) -> None:
        self._text = text
        self._end = end
        self._attributes: dict[str, tuple[AttributeAst, ...]] = {}
        self._found: dict[int, tuple[list[ComputationAst], int]] = {}

    def module(self) -> ModuleAst | None:
        """Return the module, None if it holds anything in another spelling."""
        text, end = self._text, self._end
        head = _HEADER.match(text, 0, end)
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
        computations, at = self.computations(line_end.end())
        if not computations or not _BLANKS.fullmatch(text, at, end):
            return None
        return ModuleAst(
            head.group(1), head.start(1), tuple(attributes), first if attributes else 0, None,
            tuple(computations),
        )  # fmt: skip

    def instructions(self, at: int) -> tuple[list[InstructionAst], int]:
        """Return the instructions that follow each other from `at`, and where the last one ends."""
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
        """Return the computations that follow each other from `at`, and where the last one ends.

        They are kept: if the text is no whole module after all, the lexer asks for them again.
        """
        blanks = _BLANKS.match(self._text, at, self._end)
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
