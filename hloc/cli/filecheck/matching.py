"""Matches an output against check lines, as LLVM's FileCheck does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field

from hloc.cli.filecheck.pattern import Directive, PatternFault, regex_of
from hloc.lazy_dataclass import dataclass

_FOLLOWING = ("NEXT", "SAME", "EMPTY")


class Mismatch(Exception):
    """A check that fails: which, why, and where in the output the search began."""

    def __init__(self, row: Directive, message: str, at: int) -> None:
        super().__init__(message)
        self.row, self.at = row, at


def match_output(output: str, rows: Sequence[Directive]) -> None:
    """Match `output` against `rows`, which share one set of prefixes.

    Raises:
        Mismatch: for the first check that fails.
    """
    _check_order(rows)
    _Matcher(output).run(rows)


def _check_order(rows: Sequence[Directive]) -> None:
    """Raise for a check that continues a missing one, or a variable in a label."""
    is_first = True
    for row in rows:
        if row.kind in _FOLLOWING and is_first:
            raise Mismatch(row, f"{row.name} without a check before it", 0)
        if row.kind == "LABEL" and "[[" in row.text and not row.is_literal:
            raise Mismatch(row, f"{row.name} cannot have variables", 0)
        if not row.text and row.kind != "EMPTY":
            raise Mismatch(row, f"{row.name} has no pattern", 0)
        if row.text and row.kind == "EMPTY":
            raise Mismatch(row, f"{row.name} takes no pattern", 0)
        is_first = is_first and row.kind == "NOT"


@dataclass(slots=True, eq=False)
class _Matcher:
    """The output, and the variables defined so far."""

    output: str
    values: dict[str, str] = field(default_factory=dict)

    def run(self, rows: Sequence[Directive]) -> None:
        """Match the labels first, which divide the output, then the checks between them."""
        at = 0
        for block, label in self._blocks(rows):
            if label is None:
                self._match_block(block, at, len(self.output))
                continue
            found = self._search(label, at, len(self.output))
            self._match_block(block, at, found.start())
            at = found.end()

    def _blocks(
        self, rows: Sequence[Directive]
    ) -> Iterator[tuple[list[Directive], Directive | None]]:
        """Yield the lines before each LABEL with it, then the last lines with None."""
        block: list[Directive] = []
        for row in rows:
            if row.kind == "LABEL":
                yield block, row
                block = []
            else:
                block.append(row)
        yield block, None

    def _match_block(self, rows: Sequence[Directive], at: int, end: int) -> None:
        """Match the lines of one block in order between positions `at` and `end` of the output.

        Lines with NOT must not match between what the lines before and after them match.
        """
        absent: list[Directive] = []
        number = 0
        while number < len(rows):
            row = rows[number]
            if row.kind == "NOT":
                absent.append(row)
                number += 1
                continue
            if row.kind == "DAG":
                group = _group(rows[number:])
                first, last = self._match_group(group, at, end)
                number += len(group)
            else:
                first, last = self._match(row, at, end)
                number += 1
            self._check_absent(absent, at, first)
            absent, at = [], last
        self._check_absent(absent, at, end)

    def _match(self, row: Directive, at: int, end: int) -> tuple[int, int]:
        """Match `row` as often as its count; returns the start of the first and end of the last."""
        if row.kind == "EMPTY":
            return self._match_empty(row, at, end)
        first = -1
        for _ in range(row.count):
            found = self._search(row, at, end)
            if first < 0:
                first = found.start()
                self._check_line(row, at, first)
            at = found.end()
        return first, at

    def _check_line(self, row: Directive, at: int, start: int) -> None:
        lines = self.output.count("\n", at, start)
        if row.kind == "NEXT" and lines != 1:
            where = "on the same line as" if not lines else f"{lines} lines after"
            raise Mismatch(row, f"{row.name}: the match is {where} the one before", start)
        if row.kind == "SAME" and lines:
            raise Mismatch(
                row, f"{row.name}: the match is not on the line of the one before", start
            )

    def _match_empty(self, row: Directive, at: int, end: int) -> tuple[int, int]:
        """Match the empty line after the line of the last match."""
        line_end = self.output.find("\n", at, end)
        is_empty = line_end >= 0 and self.output[line_end + 1 : line_end + 2] in ("\n", "")
        if not is_empty:
            raise Mismatch(row, f"{row.name}: the next line is not empty", max(line_end + 1, at))
        return line_end + 1, line_end + 1

    def _match_group(self, group: Sequence[Directive], at: int, end: int) -> tuple[int, int]:
        """Match `group` in any order, without overlaps."""
        taken: list[tuple[int, int]] = []
        for row in group:
            begin = at
            while True:
                found = self._search(row, begin, end, keep=False)
                inside = [b for a, b in taken if a < found.end() and found.start() < b]
                if not inside:
                    break
                begin = max(inside)
            self._keep(row, found)
            taken.append(found.span())
        return min(a for a, _ in taken), max(b for _, b in taken)

    def _check_absent(self, absent: Sequence[Directive], at: int, end: int) -> None:
        for row in absent:
            found = self._regex(row, at)[0].search(self.output, at, end)
            if found is not None:
                raise Mismatch(row, f"{row.name}: found what must not be there", found.start())

    def _search(self, row: Directive, at: int, end: int, *, keep: bool = True) -> re.Match[str]:
        found = self._regex(row, at)[0].search(self.output, at, end)
        if found is None:
            raise Mismatch(row, f"{row.name}: not found in what is left of the output", at)
        if keep:
            self._keep(row, found)
        return found

    def _keep(self, row: Directive, found: re.Match[str]) -> None:
        """Set the variables that a match defines."""
        for group, name in self._regex(row, found.start())[1].items():
            self.values[name] = found[group]

    def _regex(self, row: Directive, at: int) -> tuple[re.Pattern[str], dict[str, str]]:
        try:
            return regex_of(row, self.values)
        except PatternFault as fault:
            raise Mismatch(row, f"{row.name}: {fault}", at) from None


def _group(rows: Sequence[Directive]) -> list[Directive]:
    """Return the `-DAG` lines at the beginning of `rows`."""
    found: list[Directive] = []
    for row in rows:
        if row.kind != "DAG":
            break
        found.append(row)
    return found
