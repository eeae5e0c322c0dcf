"""A text that is open in an editor: its modules, and their positions in lines and columns."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from hloc.lsp.document import Document, read_document
from hloc.lsp.parts import Fault, Range
from hloc.lsp.positions import Change, Encoding, Position, Positions, changed, without_surrogates
from hloc.parser.split import is_blank, pieces_of
from hloc.source import SourceFile

_log = logging.getLogger(__name__)


class PlacedDocument(NamedTuple):
    """A module of a text, which begins at `at`; offsets in the module count from there."""

    at: int
    document: Document

    def inside(self, within: Range) -> Range:
        """Return the part of `within` in the module, relative to its beginning."""
        size = len(self.document.text)
        start, end = (min(max(place - self.at, 0), size) for place in within)
        return Range(start, end)


class OpenText:
    """The text of a file in the editor.

    It is parsed on the first request after a change, so that quick keystrokes are
    parsed together.
    """

    def __init__(self, text: str, name: str = "<string>", encoding: Encoding = "utf-16") -> None:
        self.text = without_surrogates(text)
        self._name = name
        self._encoding = encoding
        self._before: tuple[PlacedDocument, ...] = ()

    def change(self, changes: Iterable[Change]) -> None:
        """Apply `changes`, one after the other."""
        self._forget(self.__dict__.get("documents", self._before))
        self.text = without_surrogates(changed(self.text, changes, self._encoding))

    def read_as_a_whole(self) -> None:
        """Drop the parse results of unchanged computations, to find errors across them again."""
        self._forget(())

    def _forget(self, before: tuple[PlacedDocument, ...]) -> None:
        self._before = before
        for name in ("documents", "positions"):
            self.__dict__.pop(name, None)

    @cached_property
    def positions(self) -> Positions:
        return Positions(self.text, self._encoding)

    @cached_property
    def documents(self) -> tuple[PlacedDocument, ...]:
        """The modules between lines `// -----`; if there are several, those that are not blank."""
        pieces: list[tuple[int, SourceFile]] = []
        at = 0
        for piece in pieces_of(SourceFile(self.text, self._name)):
            pieces.append((at, piece))
            line_end = self.text.find("\n", at + len(piece.text) + 1)
            at = line_end if line_end >= 0 else len(self.text)
        full = [(at, piece) for at, piece in pieces if not is_blank(piece.text)]
        found = []
        for number, (at, piece) in enumerate(full or pieces[:1]):
            before = self._before[number].document if number < len(self._before) else None
            found.append(PlacedDocument(at, _read(piece, before)))
        return tuple(found)

    def document_at(self, position: Position) -> tuple[PlacedDocument, int]:
        """Return the module at `position`, and the offset in it."""
        offset = self.positions.offset(position)
        found = self.documents[0]
        for placed in self.documents:
            if placed.at <= offset:
                found = placed
        return found, found.inside(Range(offset, offset)).start

    def faults(self) -> Iterator[tuple[PlacedDocument, Fault]]:
        """Yield the errors of all modules, with offsets from the beginning of the module."""
        for placed in self.documents:
            for fault in placed.document.faults():
                yield placed, fault


def _read(piece: SourceFile, before: Document | None) -> Document:
    """Return the document of `piece`; an internal error of hloc is reported as one of the text.

    The server must not end, since its state would be lost.
    """
    try:
        return read_document(piece, before)
    except Exception as error:
        message = f"hloc cannot read this text: {type(error).__name__}; this is a bug in hloc"
        _log.error(message, exc_info=os.environ.get("HLOC_DEBUG") == "1")
        return Document(piece, (), (Fault(0, 1, message, "", ()),))
