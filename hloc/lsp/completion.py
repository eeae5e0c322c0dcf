"""Completion at the cursor: opcodes, attributes, operands, computations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from hloc.editors.vocabulary import roles_of_computations
from hloc.ir.attribute_fields import attribute_fields
from hloc.lsp.document import Document
from hloc.lsp.parts import Part, Range
from hloc.ops import OPCODES
from hloc.parser.attributes import allowed_attributes
from hloc.parser.scanner import NAME

_WORD = re.compile(r"%?[A-Za-z0-9_.\-]*\Z")
_OPCODE_AND_OPEN = re.compile(r"([a-z][a-z0-9\-]*)\(")
_AFTER_EQUALS = re.compile(rf"^[ \t]*(?:ROOT[ \t]+)?{NAME}[ \t]*=[ \t]+(?:\S.*[ \t])?\Z")
_VALUE = re.compile(r"([A-Za-z_][A-Za-z0-9_\-]*)=\{?(?:[^{}()=]*,[ ]*)?\Z")

ItemKind = Literal["opcode", "attribute", "instruction", "computation", "value"]


_MOST_OPERANDS = 300
"""Maximum number of operands offered: the nearest instructions above the cursor."""


class Item(NamedTuple):
    """`label` with a note about it; `text` replaces the word at the cursor."""

    label: str
    kind: ItemKind
    note: str
    text: str


class Completion(NamedTuple):
    """The items, and the word that they replace; `is_partial`: more typing gives other items."""

    range: Range
    items: tuple[Item, ...]
    is_partial: bool = False


def complete(document: Document, offset: int) -> Completion:
    """Return the completion at `offset`, from the line before it."""
    line_start = document.text.rfind("\n", 0, offset) + 1
    line = document.text[line_start:offset]
    word = _WORD.search(line)
    start = word.start() if word else len(line)
    items = tuple(_items(document, offset, line[:start], line[start:]))
    is_partial = len(items) == _MOST_OPERANDS
    return Completion(Range(line_start + start, offset), items, is_partial)


def _items(document: Document, offset: int, before: str, word: str) -> Iterator[Item]:
    opened = list(_OPCODE_AND_OPEN.finditer(before))
    if not opened:
        if _AFTER_EQUALS.match(before) and not word.startswith("%"):
            for name, row in sorted(OPCODES.items()):
                yield Item(name, "opcode", row.reads, name)
        return
    opcode = opened[0].group(1)
    value = _VALUE.search(before)
    if value is not None:
        yield from _values(document, offset, opcode, value.group(1))
    elif _open_brackets(before[opened[0].end() - 1 :]) == "(":
        yield from _operands(document.part_at(offset), offset, word)
    elif before.rstrip().endswith(",") and opcode in OPCODES:
        yield from _attributes(opcode, before)


def _open_brackets(text: str) -> str:
    """Return the brackets of `text` that are open at its end."""
    found = ""
    for character in text:
        if character in "({[":
            found += character
        elif character in ")}]":
            found = found[:-1]
    return found


def _operands(part: Part | None, offset: int, word: str) -> Iterator[Item]:
    """Yield the instructions that are defined above `offset`, the nearest first.

    If there are many, only those that begin with `word`.
    """
    if part is None:
        return
    above = part.text[: offset - part.at]
    found = re.findall(rf"({NAME})[ \t]*=[ \t]", above[: above.rfind("\n") + 1])
    if len(found) > _MOST_OPERANDS:
        plain = word.removeprefix("%")
        found = [written for written in found if written.removeprefix("%").startswith(plain)]
    for written in found[: -_MOST_OPERANDS - 1 : -1]:
        inst = part.by_name.get(written.removeprefix("%"))
        yield Item(written, "instruction", str(inst.shape) if inst else "", written)


def _attributes(opcode: str, before: str) -> Iterator[Item]:
    row = OPCODES[opcode]
    fields = {field.name: field for field in attribute_fields(row.attributes)}
    for name in sorted(allowed_attributes(row), key=lambda name: (name not in fields, name)):
        if f"{name}=" in before or (row.parenthesis and name == row.parenthesis):
            continue
        field = fields.get(name)
        note = ""
        if field is not None:
            note = f"{field.kind.replace('_', ' ')}{', required' if field.required else ''}"
        yield Item(name, "attribute", note, f"{name}=")


def _values(document: Document, offset: int, opcode: str, attribute: str) -> Iterator[Item]:
    """Yield computations, or the choices of the attribute."""
    if attribute in roles_of_computations():
        for part in document.parts:
            if part.end < offset:
                text = "%" * (part.text[: part.name_at][-1:] == "%") + part.name
                yield Item(part.name, "computation", "", text)
    elif opcode in OPCODES:
        for field in attribute_fields(OPCODES[opcode].attributes):
            choices = ("true", "false") if field.kind == "bool" else field.choices
            for choice in choices if field.name == attribute else ():
                yield Item(choice, "value", attribute, choice)
