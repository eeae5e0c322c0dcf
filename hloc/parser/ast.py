"""The syntax tree, before any name, shape or attribute is resolved.

Every text carries the offset it was found at. Named tuples instead of dataclasses, because a
20,000-instruction module makes 60,000 of them: 0.4 us each against 2 us for a frozen dataclass.
"""

from __future__ import annotations

from typing import NamedTuple


class Piece(NamedTuple):
    """A piece of source text and its offset."""

    text: str
    at: int

    @property
    def end(self) -> int:
        return self.at + len(self.text)


class AttributeAst(NamedTuple):
    """`key=value`; `at` counts from the start of the instruction's (or header's) attributes."""

    key: str
    value: str
    at: int
    value_at: int


class InstructionAst(NamedTuple):
    """`[ROOT] name = [shape] opcode(operands), key=value, ...`.

    Attributes:
        name: as written, with `%`; empty for a nameless single instruction.
        shape: None if left out.
        operands: the text between the parentheses.
        attributes: all but `metadata`, with offsets relative to `attributes_at`, so that
            equal texts give equal tuples.
        metadata: the raw `{...}`, decoded on demand.
    """

    name: str
    at: int
    is_root: bool
    shape: str | None
    shape_at: int
    opcode: str
    opcode_at: int
    operands: str
    operands_at: int
    attributes: tuple[AttributeAst, ...]
    attributes_at: int
    metadata: Piece | None


class BrokenAst(NamedTuple):
    """An instruction with a syntax fault that has been reported, and its name if known."""

    name: str
    at: int


class ComputationAst(NamedTuple):
    """`[ENTRY] name [(parameters) -> result] { instructions }`."""

    name: str
    at: int
    is_entry: bool
    parameters: Piece | None
    result: Piece | None
    instructions: tuple[InstructionAst | BrokenAst, ...]
    attributes: tuple[AttributeAst, ...]
    attributes_at: int


class BrokenComputationAst(NamedTuple):
    """A computation whose head has a syntax fault that has been reported."""

    name: str
    at: int


class ModuleAst(NamedTuple):
    """The whole text; `name` is None without a `HloModule` line, `single` for one instruction."""

    name: str | None
    at: int
    attributes: tuple[AttributeAst, ...]
    attributes_at: int
    tables: Piece | None
    computations: tuple[ComputationAst | BrokenComputationAst, ...]
    single: InstructionAst | None = None


class NamedOperand(NamedTuple):
    """`[shape] name`, or `[shape] name#1#0`, whose `path` is (1, 0)."""

    name: str
    at: int
    shape: Piece | None
    path: tuple[int, ...] = ()


class NestedOperand(NamedTuple):
    """`[shape] opcode(operands)` inside an operand list."""

    opcode: str
    at: int
    shape: Piece | None
    operands: Piece


class ShapeOperand(NamedTuple):
    """A bare shape: an unnamed parameter of a single instruction."""

    shape: Piece


OperandAst = NamedOperand | NestedOperand | ShapeOperand
