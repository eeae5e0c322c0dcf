"""Quick fixes, from the messages of diagnostics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from hloc.lsp.document import Document, read_document
from hloc.lsp.parts import Fault, Range
from hloc.parser.scanner import NAME
from hloc.source import SourceFile

_MEANT = re.compile(r"did you mean ([A-Za-z0-9_.\-]+)\?")
_GIVES = re.compile(r"is declared .*, but gives (\S.*)$", re.DOTALL)
_OPERAND_HAS = re.compile(
    r"operand \d+ has shape [a-z0-9]+(\[\S*\]), but the result has ([a-z0-9]+)\["
)
_HAS_SHAPE = re.compile(r", but (?:it|its root \S+) has shape (\S.*)$", re.DOTALL)
_DECLARED = re.compile(rf"{NAME}[ \t]*=[ \t]*(\S.*\S)[ \t]+[a-z][a-z0-9\-]*", re.DOTALL)
_ARRAY_LAYOUT = re.compile(r"[a-z0-9]+\[([^\]]*)\](\{[^{}]*\})")


class Fix(NamedTuple):
    """Replaces the text at `range` by `text`."""

    title: str
    range: Range
    text: str


def fixes(document: Document, fault: Fault) -> Iterator[Fix]:
    """Yield the fixes of `fault`, whose offsets count from the beginning of the text."""
    here = Range(fault.start, fault.end)
    written = document.text[fault.start : fault.end]
    meant = _MEANT.search("\n".join([fault.message, *fault.notes]))
    if meant and re.fullmatch(NAME, written):
        text = "%" * written.startswith("%") + meant.group(1)
        yield Fix(f"write {text}", here, text)
    if fault.code in ("HLOC0312", "HLOC0314") and (shape := _inferred(fault.message)):
        yield from _shape_fix(document, fault, shape)
    if fault.code in ("HLOC0207", "HLOC0208") and (has := _HAS_SHAPE.search(fault.message)):
        yield Fix(f"write {has.group(1)}", here, has.group(1))


def _inferred(message: str) -> str:
    if gives := _GIVES.search(message):
        return gives.group(1)
    has = _OPERAND_HAS.search(message)
    return f"{has.group(2)}{has.group(1)}" if has else ""


def _shape_fix(document: Document, fault: Fault, inferred: str) -> Iterator[Fix]:
    """Yield the fix of a declared shape; the layout is kept if the rank is the same.

    Operands may also disagree with each other, so the text is parsed with the fix: it must correct
    this instruction. Others may be wrong for other reasons.
    """
    declared = _DECLARED.match(document.text[fault.start : fault.end])
    if declared is None:
        return
    text = inferred
    layout = _ARRAY_LAYOUT.fullmatch(declared.group(1))
    if layout and inferred.count(",") == layout.group(1).count(",") and "(" not in inferred:
        text += layout.group(2)
    at = Range(fault.start + declared.start(1), fault.start + declared.end(1))
    fixed = document.text[: at.start] + text + document.text[at.end :]
    after = read_document(SourceFile(fixed, document.source.name), document)
    if all(other.start != fault.start for other in after.faults()):
        yield Fix(f"write {text}", at, text)
