"""Patterns over instructions: an opcode, patterns of operands, a name to bind, a condition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from hloc.ir.instruction import Instruction

Found: TypeAlias = Mapping[str, Instruction]
"""What the names of a pattern stand for."""


@dataclass(frozen=True, slots=True, init=False)
class P:
    """One instruction of a pattern.

    Attributes:
        opcodes: names that match, () for any.
        operands: a pattern for each operand; None looks no deeper. The two operands of a
            commutative opcode are tried in both orders, the written one first.
        bind: name under which the instruction is found; a name used twice stands for the same
            instruction both times.
        when: further condition on the instruction.
    """

    opcodes: tuple[str, ...]
    operands: tuple[P, ...] | None
    bind: str
    when: Callable[[Instruction], bool] | None

    def __init__(
        self,
        opcode: str | tuple[str, ...] = (),
        operands: tuple[P, ...] | None = None,
        *,
        bind: str = "",
        when: Callable[[Instruction], bool] | None = None,
    ) -> None:
        opcodes = (opcode,) if isinstance(opcode, str) else opcode
        object.__setattr__(self, "opcodes", opcodes)
        object.__setattr__(self, "operands", operands)
        object.__setattr__(self, "bind", bind)
        object.__setattr__(self, "when", when)


def match(pattern: P, inst: Instruction) -> dict[str, Instruction] | None:
    """Return what the names of `pattern` stand for if `inst` is of that form, else None."""
    return _match(pattern, inst, {})


def _match(
    pattern: P, inst: Instruction, found: dict[str, Instruction]
) -> dict[str, Instruction] | None:
    if pattern.opcodes and inst.opcode.name not in pattern.opcodes:
        return None
    if pattern.bind:
        known = found.get(pattern.bind)
        if known is None:
            found = {**found, pattern.bind: inst}
        elif known is not inst:
            return None
    if pattern.when is not None and not pattern.when(inst):
        return None
    if pattern.operands is None:
        return found
    if len(pattern.operands) != len(inst.operands):
        return None
    matched = _match_operands(pattern.operands, inst.operands, found)
    if matched is None and inst.opcode.commutative and len(inst.operands) == 2:
        matched = _match_operands(pattern.operands, inst.operands[::-1], found)
    return matched


def _match_operands(
    patterns: tuple[P, ...], operands: tuple[Instruction, ...], found: dict[str, Instruction]
) -> dict[str, Instruction] | None:
    matched: dict[str, Instruction] | None = found
    for pattern, operand in zip(patterns, operands, strict=True):
        assert matched is not None
        matched = _match(pattern, operand, matched)
        if matched is None:
            return None
    return matched
