"""The computations of a text, found without parsing it: their ranges and callees."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import copy
from functools import cache, cached_property
from typing import NamedTuple

from hloc.editors.tokens import Token, tokens
from hloc.editors.vocabulary import roles_of_computations
from hloc.errors import HloError
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.parser.scanner import NAME, after_bracket
from hloc.source import SourceFile

_SHORT = 2_000
"""A callee of at most this many characters is parsed with its caller; of longer ones, the
shapes."""

_LONGEST_LINE = 10_000
"""Maximum length of a line that has tokens: a constant can be a line of megabytes."""


class Range(NamedTuple):
    """Offsets `start..end` in a text."""

    start: int
    end: int


class Fault(NamedTuple):
    """A diagnostic at `start..end`, relative to the beginning of its part."""

    start: int
    end: int
    message: str
    code: str
    notes: tuple[str, ...]


@dataclass(eq=False)
class Part:
    """One computation of a text.

    Attributes:
        name: as in the text, without `%`.
        name_at: where the name begins in the part.
        at: where the part begins in the document; changes with the text above.
        computation: the parsed computation; None if it has errors.
        read: the instructions that could be parsed, in spite of errors.
        base: where the part begins in the text that `read` comes from.
        callees: the interfaces of the computations that it calls, by name.
    """

    name: str
    name_at: int
    text: str
    at: int
    is_entry: bool
    computation: Computation | None = None
    read: tuple[Instruction, ...] = ()
    base: int = 0
    faults: tuple[Fault, ...] = ()
    callees: Mapping[str, str | None] | None = None

    @property
    def end(self) -> int:
        return self.at + len(self.text)

    @property
    def name_range(self) -> Range:
        """The range of the name in the document, without `%`."""
        start = self.at + self.name_at
        return Range(start, start + len(self.name))

    def moved(self, at: int) -> Part:
        """Return a part of the same text that begins at `at`, with its parse result."""
        part = copy(self)
        part.at = at
        return part

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens of the part; offsets count from its beginning."""
        return tuple(tokens(without_long_lines(self.text)))

    @cached_property
    def callee_names(self) -> tuple[str, ...]:
        """The computations that the part calls, each once, in text order."""
        lists = (found.group(1) for found in _calls().finditer(self.text))
        names = (name.removeprefix("%") for names in lists for name in re.findall(NAME, names))
        return tuple(dict.fromkeys(names))

    @cached_property
    def instructions(self) -> tuple[tuple[int, Instruction], ...]:
        """The offset in the part of each instruction that could be parsed."""
        found = [
            (inst.span.start - self.base, inst)
            for inst in self.read
            if inst.span is not None and 0 <= inst.span.start - self.base < len(self.text)
        ]
        return tuple(sorted(found, key=lambda pair: pair[0]))

    @cached_property
    def by_name(self) -> dict[str, Instruction]:
        """Instructions by their names in the text, which may differ in the module."""
        match = re.compile(NAME).match
        found: dict[str, Instruction] = {}
        for at, inst in self.instructions:
            if name := match(self.text, at):
                found.setdefault(name.group().removeprefix("%"), inst)
        return found

    @cached_property
    def names(self) -> dict[Instruction, str]:
        """The names of the text, by instruction."""
        return {inst: name for name, inst in self.by_name.items()}

    @cached_property
    def stand_in(self) -> str | None:
        """The text parsed with callers: the part itself if it is short, else only its shapes."""
        if self.computation is None:
            return None
        if len(self.text) <= _SHORT and not self.callees and not self.is_entry:
            return self.text
        parameters = self.computation.parameters
        names = [f"p{number}" for number in range(len(parameters))]
        lines = [
            f"{name} = {parameter.shape} parameter({number})"
            for number, (name, parameter) in enumerate(zip(names, parameters, strict=True))
        ]
        root = f"ROOT r = {self.computation.root.shape} custom-call({', '.join(names)})"
        thread = self.computation.execution_thread
        tail = "" if thread == "main" else f', execution_thread="{thread}"'
        body = " ".join([*lines, f'{root}, custom_call_target="stand-in"'])
        return f"%{self.name} {{ {body} }}{tail}"


def split_parts(text: str) -> Iterator[Part]:
    """Yield the computations of `text`, not parsed yet; text between them is in no part."""
    at = 0
    while head := _heading().search(text, at):
        at = _end_of_computation(text, head.end() - 1)
        written = head.group(2)
        name_at = head.start(2) - head.start() + written.startswith("%")
        body = text[head.start() : at]
        is_entry = head.group(1) is not None
        yield Part(written.removeprefix("%"), name_at, body, head.start(), is_entry)


@cache
def _heading() -> re.Pattern[str]:
    """Return the pattern of the first line of a computation."""
    return re.compile(
        rf"^(ENTRY[ \t]+)?({NAME})[ \t]*(?:\([^\n]*?->[^\n]*?)?"
        rf"\{{(?=[ \t\r]*(?:$|//|(?:ROOT[ \t]+)?{NAME}[ \t]*=[ \t]))",
        re.MULTILINE,
    )


def _end_of_computation(text: str, brace: int) -> int:
    """Return the end of the line with the brace that closes the one at `brace`."""
    closing = text.find("\n}", brace)
    line_end = text.find("\n", brace)
    line_end = len(text) if line_end < 0 else line_end
    if text[brace + 1 : line_end].strip():
        try:
            closing = after_bracket(SourceFile(text), brace, len(text)) - 1
        except HloError:
            closing = line_end
    if closing < 0:
        return len(text)
    end = text.find("\n", closing + 1)
    return len(text) if end < 0 else end


@cache
def _calls() -> re.Pattern[str]:
    roles = "|".join(map(re.escape, sorted(roles_of_computations(), key=len, reverse=True)))
    return re.compile(rf"(?<![A-Za-z0-9_.\-])(?:{roles})=[ ]*(\{{[^{{}}=]*\}}|{NAME})")


def without_long_lines(text: str) -> str:
    """Return `text` with long lines blanked after their beginning."""
    if len(text) <= _LONGEST_LINE:
        return text
    return _long_lines().sub(lambda found: found[1] + " " * len(found[2]), text)


@cache
def _long_lines() -> re.Pattern[str]:
    return re.compile(rf"^([^\n]{{{_LONGEST_LINE}}})([^\n]+)", re.MULTILINE)
