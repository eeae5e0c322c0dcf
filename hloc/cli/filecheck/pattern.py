"""Lines such as `// CHECK-NEXT: %[[X:.*]] = f32[4] add`, as LLVM's FileCheck reads them.

Source: https://llvm.org/docs/CommandGuide/FileCheck.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from hloc.lazy_dataclass import dataclass

KINDS = ("NEXT", "SAME", "NOT", "DAG", "LABEL", "EMPTY")
_CLASSES = {
    "[:alpha:]": "a-zA-Z",
    "[:digit:]": "0-9",
    "[:alnum:]": "a-zA-Z0-9",
    "[:space:]": r"\s",
    "[:upper:]": "A-Z",
    "[:lower:]": "a-z",
    "[:xdigit:]": "0-9a-fA-F",
    "[:punct:]": r"!-/:-@\[-`{-~",
}
_NAME = r"\$?[A-Za-z_]\w*"
_DEFINITION = re.compile(rf"({_NAME}):(.*)", re.DOTALL)
_NUMBER = re.compile(rf"#\s*(?:({_NAME})\s*:)?\s*(?:(@LINE|{_NAME})\s*([+-]\s*\d+)?)?\s*")
_LINE = re.compile(r"@LINE\s*([+-]\s*\d+)?")
_COMMENT = re.compile(r"(?<![\w-])(?:COM|RUN):")
_BLANKS = re.compile(r"[ \t]+")


class PatternFault(Exception):
    """A pattern that is invalid or uses an undefined variable: why, and where in its text."""

    def __init__(self, message: str, at: int = 0) -> None:
        super().__init__(message)
        self.at = at


@dataclass(frozen=True, slots=True)
class Directive:
    """One check line.

    Attributes:
        kind: "" for `CHECK`, else one of `KINDS`.
        line, column: where its text begins, from 1.
        text: the pattern.
        count: how often it is matched.
        is_literal: `{LITERAL}`: `{{` and `[[` are plain text.
    """

    name: str
    kind: str
    line: int
    column: int
    text: str
    count: int = 1
    is_literal: bool = False


def directives(text: str, prefixes: tuple[str, ...]) -> Iterator[Directive]:
    """Yield the check lines with one of `prefixes` in `text`.

    Raises:
        PatternFault: a count that is not above 0.
    """
    prefix = "|".join(map(re.escape, prefixes))
    kinds = "|".join(KINDS)
    found = re.compile(
        rf"(?<![\w-])(?P<name>(?:{prefix})(?:-(?:(?P<kind>{kinds})|COUNT-(?P<count>\d+)))?)"
        rf"(?P<literal>\{{LITERAL\}})?:(?P<text>.*)"
    )
    for number, line in enumerate(text.split("\n"), 1):
        match = found.search(line.rstrip("\r"))
        if match is None or _COMMENT.search(line, 0, match.start()):
            continue
        pattern = match["text"].strip(" \t")
        column = match.start("text") + len(match["text"]) - len(match["text"].lstrip(" \t")) + 1
        count = int(match["count"] or 1)
        if not count:
            raise PatternFault(f"line {number}: {match['name']} needs a count above 0")
        yield Directive(
            match["name"], match["kind"] or "", number, column, pattern, count,
            bool(match["literal"]),
        )  # fmt: skip


def regex_of(row: Directive, values: Mapping[str, str]) -> tuple[re.Pattern[str], dict[str, str]]:
    """Return the regular expression of `row`, and the variables it defines, by group name.

    Args:
        row: the check line.
        values: variables defined so far.

    Raises:
        PatternFault: an invalid regular expression, an open bracket, an undefined variable.
    """
    if row.is_literal:
        return re.compile(_literal(row.text)), {}
    parts: list[str] = []
    groups: dict[str, str] = {}  # variable -> group
    at = 0
    while at < len(row.text):
        openings = [o for o in (row.text.find("{{", at), row.text.find("[[", at)) if o >= 0]
        start = min(openings, default=len(row.text))
        parts.append(_literal(row.text[at:start]))
        if start == len(row.text):
            break
        if row.text.startswith("{{", start):
            end = row.text.find("}}", start)
            if end < 0:
                raise PatternFault("'{{' without '}}'", start)
            while row.text.startswith("}}}", end):  # `{{a{2}}}` ends with the last
                end += 1
            parts.append(f"(?:{_regex(row.text[start + 2 : end], start)})")
        else:
            end = _end_of_variable(row.text, start + 2)
            inner = row.text[start + 2 : end]
            parts.append(_variable(inner, start, row.line, values, groups))
        at = end + 2
    try:
        return re.compile("".join(parts), re.MULTILINE), {
            group: name for name, group in groups.items()
        }
    except re.error as fault:
        raise PatternFault(f"wrong regular expression: {fault}") from None


def _literal(text: str) -> str:
    """Return a regular expression for a text in which any run of blanks matches any other."""
    return r"[ \t]+".join(map(re.escape, _BLANKS.split(text)))


def _regex(text: str, at: int) -> str:
    """Translate a POSIX regular expression for Python; `[^a]` does not match a line end."""
    text = re.sub(r"(?<!\\)\[\^", r"[^\\n", text)
    for name, letters in _CLASSES.items():
        text = text.replace(name, letters)
    try:
        re.compile(text)
    except re.error as fault:
        raise PatternFault(f"wrong regular expression: {fault}", at) from None
    return text


def _end_of_variable(text: str, start: int) -> int:
    """Return the position of a variable's `]]`, after the brackets of its regular expression."""
    depth, at = 0, start
    while at < len(text):
        if text.startswith("]]", at) and depth == 0:
            return at
        if text[at] == "\\":
            at += 1
        elif text[at] == "[":
            depth += 1
        elif text[at] == "]":
            depth -= 1
        at += 1
    raise PatternFault("'[[' without ']]'", start - 2)


def _variable(
    inner: str, at: int, line: int, values: Mapping[str, str], groups: dict[str, str]
) -> str:
    """Return the regular expression for `[[inner]]`."""
    here = _LINE.fullmatch(inner)
    if here is not None:
        return str(line + _offset(here[1]))
    if inner.startswith("#"):
        return _number(inner, at, line, values, groups)
    definition = _DEFINITION.fullmatch(inner)
    if definition is not None:
        name, text = definition.groups()
        return _defined(name, _regex(text, at), groups)
    if not re.fullmatch(_NAME, inner):
        raise PatternFault(f"{inner!r} is not the name of a variable", at)
    if inner in groups:
        return f"(?P={groups[inner]})"
    if inner not in values:
        raise PatternFault(f"variable {inner} has no value yet", at)
    return re.escape(values[inner])


def _defined(name: str, text: str, groups: dict[str, str]) -> str:
    groups[name] = f"v{len(groups)}"
    return f"(?P<{groups[name]}>{text})"


def _number(
    inner: str, at: int, line: int, values: Mapping[str, str], groups: dict[str, str]
) -> str:
    """Return the regular expression for `[[#X:]]`, `[[#X]]`, `[[#X+1]]` and `[[#@LINE-1]]`."""
    found = _NUMBER.fullmatch(inner)
    if found is None:
        raise PatternFault(f"cannot read the number {inner!r}", at)
    defined, used, offset = found.groups()
    text = "[0-9]+"
    if used == "@LINE":
        text = str(line + _offset(offset))
    elif used is not None:
        if used not in values:
            raise PatternFault(f"variable {used} has no value yet", at)
        if not values[used].isdecimal():
            raise PatternFault(f"variable {used} is {values[used]!r}, not a number", at)
        text = str(int(values[used]) + _offset(offset))
    return text if defined is None else _defined(defined, text, groups)


def _offset(text: str | None) -> int:
    return int(text.replace(" ", "")) if text else 0
