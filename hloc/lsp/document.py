"""A module that is being edited, parsed computation by computation.

A computation whose text did not change, and whose callees have the same interface, keeps its parse
result, errors included; the others are parsed one by one, each with its callees. So a keystroke
costs the parsing of one computation. Small texts are always parsed as a whole, which also finds
errors across computations; large ones when they are opened or saved, and when computations are
added, removed or renamed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from hloc.errors import Diagnostic
from hloc.lazy_dataclass import dataclass
from hloc.lsp.parts import Fault, Part, split_parts
from hloc.parser import parse_leniently
from hloc.source import SourceFile

SMALL = 100_000
"""Maximum size, in characters, of texts that are parsed whole after each change: 700
instructions."""

_Known = Mapping[tuple[str, str], Part]
"""Parts that were parsed before, by name and text."""


@dataclass(eq=False)
class Document:
    """A text and its parts, in the order of the text.

    Attributes:
        between: errors outside of all parts; offsets count from the beginning of the text.
        parts_read: number of parts that were parsed for this version of the text.
    """

    source: SourceFile
    parts: tuple[Part, ...]
    between: tuple[Fault, ...] = ()
    parts_read: int = 0

    @property
    def text(self) -> str:
        return self.source.text

    @cached_property
    def by_name(self) -> dict[str, Part]:
        """Parts by name; the first of several with one name."""
        return {part.name: part for part in reversed(self.parts)}

    @cached_property
    def _starts(self) -> list[int]:
        return [part.at for part in self.parts]

    def part_at(self, offset: int) -> Part | None:
        """Return the part that contains `offset`, its end included."""
        index = bisect_right(self._starts, offset) - 1
        return self.parts[index] if index >= 0 and offset <= self.parts[index].end else None

    def parts_in(self, start: int, end: int) -> Iterator[Part]:
        """Yield the parts that share a character with `start..end`, or touch it."""
        for part in self.parts[max(bisect_right(self._starts, start) - 1, 0) :]:
            if part.at > end:
                break
            if part.end >= start:
                yield part

    def faults(self) -> Iterator[Fault]:
        """Yield all errors, with offsets from the beginning of the text."""
        yield from self.between
        for part in self.parts:
            for fault in part.faults:
                yield fault._replace(start=fault.start + part.at, end=fault.end + part.at)

    @cached_property
    def outside(self) -> str:
        """The text outside of all parts, and their names; a change of it affects all parts."""
        pieces = [f"{part.is_entry} {part.name}\n" for part in self.parts]
        ends = [0, *(part.end for part in self.parts)]
        starts = [*self._starts, len(self.text)]
        pieces += [self.text[end:start] for end, start in zip(ends, starts, strict=True)]
        return "".join(pieces)


def read_document(source: SourceFile, before: Document | None = None) -> Document:
    """Return the document of `source`.

    Args:
        source: one module.
        before: the document before the last change; without it the text is parsed as a whole.
    """
    fresh = Document(source, tuple(split_parts(source.text)))
    known: _Known = {}
    if before is not None:
        known = {(part.name, part.text): part for part in before.parts}
        if (
            len(source.text) > SMALL
            and fresh.parts
            and not before.between
            and fresh.outside == before.outside
        ):
            return _read_parts(fresh, known)
    return _read_whole(fresh, known)


def _read_whole(fresh: Document, known: _Known) -> Document:
    """Return `fresh` parsed as a whole, and part by part with `known` if it has errors."""
    reading = parse_leniently(fresh.source)
    if reading.module is None:
        document = _read_parts(fresh, known)
        _place_faults(document, reading.diagnostics)
        return document
    fresh.parts_read = len(fresh.parts)
    for part in fresh.parts:
        part.callees, part.base = {}, part.at
    for computation in reading.module.computations:  # nested ones come first
        spans = [inst.span for inst in computation.instructions if inst.span is not None]
        found = fresh.part_at(spans[0].start) if spans else None
        if found is not None:
            found.computation, found.read = computation, tuple(computation.instructions)
    seen: dict[str, Part] = {}
    for part in fresh.parts:
        part.callees = _interfaces(part, seen)
        seen.setdefault(part.name, part)
    return fresh


def _place_faults(document: Document, diagnostics: Iterable[Diagnostic]) -> None:
    """Assign each error of the whole text to its part, replacing those found part by part."""
    found: dict[Part | None, list[Fault]] = {}
    for diagnostic in diagnostics:
        part = document.part_at(diagnostic.span.start) if diagnostic.span else None
        fault = _fault(diagnostic, part.at if part else 0)
        found.setdefault(part, []).append(fault)
    for part in document.parts:
        part.faults = tuple(found.get(part, ()))
    document.between = tuple(found.get(None, ()))


def _fault(diagnostic: Diagnostic, base: int) -> Fault:
    start, end = diagnostic.span[1:] if diagnostic.span else (base, base + 1)
    return Fault(start - base, end - base, diagnostic.message, diagnostic.code, diagnostic.notes)


def _read_parts(fresh: Document, known: _Known) -> Document:
    """Return `fresh` with the parts in `known`; other parts are parsed, and their callers."""
    seen: dict[str, Part] = {}
    header = _device_counts(fresh.text[: fresh.parts[0].at] if fresh.parts else "")
    found: list[Part] = []
    count = 0
    for part in fresh.parts:
        old = known.get((part.name, part.text))
        interfaces = _interfaces(old or part, seen)
        if old is not None and old.callees == interfaces and old.is_entry == part.is_entry:
            part = old.moved(part.at)
        else:
            _read_alone(part, interfaces, fresh.source, header)
            count += 1
        found.append(part)
        seen.setdefault(part.name, part)
    return Document(fresh.source, tuple(found), parts_read=count)


def _interfaces(part: Part, seen: Mapping[str, Part]) -> dict[str, str | None]:
    """Return the interfaces of the callees; None for those with errors, none for missing ones."""
    return {name: seen[name].stand_in for name in part.callee_names if name in seen}


_COUNTS = re.compile(r"\b(?:replica_count|num_partitions)=[0-9]+")


def _device_counts(head: str) -> str:
    return "".join(f", {count}" for count in _COUNTS.findall(head))


def _read_alone(
    part: Part, interfaces: dict[str, str | None], source: SourceFile, header: str
) -> None:
    """Parse one part as the entry of a module that contains its callees too."""
    beside = [text for text in interfaces.values() if text is not None]
    before = "\n".join([f"HloModule m{header}", *beside, ""])
    line = source.line_column(part.at)[0] - before.count("\n")
    part.base, part.callees = len(before), interfaces
    reading = parse_leniently(SourceFile(before + part.text, source.name, line))
    part.computation = reading.module.entry if reading.module else None
    part.read = tuple(reading.module.entry.instructions) if reading.module else reading.instructions
    unknown = {name for name, text in interfaces.items() if text is None}
    part.faults = tuple(
        _fault(diagnostic, part.base)
        for diagnostic in reading.diagnostics
        if diagnostic.span is None or diagnostic.span.start >= part.base
        if diagnostic.code not in _NEEDS_CALLERS
        if diagnostic.code != "HLOC0107" or not _names(diagnostic, unknown)
    )


_NEEDS_CALLERS = ("HLOC0316", "HLOC0329")
"""Asynchronous operations may begin or end in the caller of a computation."""


def _names(diagnostic: Diagnostic, names: set[str]) -> bool:
    return diagnostic.span is not None and diagnostic.span.text.removeprefix("%") in names
