"""Patterns over instructions: an opcode, patterns of operands, a name to bind, a condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from hloc.ir.instruction import Instruction
from hloc.ir.opcode import Opcode
from hloc.lazy_dataclass import dataclass

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
        more: the instruction may have further operands, which are not looked at.
        is_flat: no operand of an operand is looked at.
    """

    opcodes: tuple[str, ...]
    operands: tuple[P, ...] | None
    bind: str
    when: Callable[[Instruction], bool] | None
    more: bool
    is_flat: bool

    def __init__(
        self,
        opcode: str | tuple[str, ...] = (),
        operands: tuple[P, ...] | None = None,
        *,
        bind: str = "",
        when: Callable[[Instruction], bool] | None = None,
        more: bool = False,
    ) -> None:
        opcodes = (opcode,) if isinstance(opcode, str) else opcode
        object.__setattr__(self, "opcodes", opcodes)
        object.__setattr__(self, "operands", operands)
        object.__setattr__(self, "bind", bind)
        object.__setattr__(self, "when", when)
        object.__setattr__(self, "more", more)
        is_flat = operands is not None and all(o.operands is None for o in operands)
        object.__setattr__(self, "is_flat", is_flat)


def may_match(pattern: P, opcode: Opcode, operands: tuple[str, ...]) -> bool:
    """False if no instruction with this opcode, and operands of these opcodes, is of the form."""
    if pattern.opcodes and opcode.name not in pattern.opcodes:
        return False
    if pattern.operands is None:
        return True
    wanted = [operand.opcodes for operand in pattern.operands]
    if len(operands) < len(wanted) or (len(operands) > len(wanted) and not pattern.more):
        return False
    orders = (operands, operands[::-1]) if opcode.commutative else (operands,)
    return any(
        all(not names or name in names for names, name in zip(wanted, order, strict=False))
        for order in orders
    )


def match(pattern: P, inst: Instruction) -> dict[str, Instruction] | None:
    """Return what the names of `pattern` stand for if `inst` is of that form, else None.

    Of several ways to match, the first counts: operands as they are written before operands that
    have changed places.
    """
    if pattern.opcodes and inst.opcode.name not in pattern.opcodes:
        return None
    if pattern.is_flat:
        return _flat_match(pattern, inst)
    return next(_matches(pattern, inst, {}), None)


def _flat_match(pattern: P, inst: Instruction) -> dict[str, Instruction] | None:
    """Return what `_matches` yields first; the opcode is known to match.

    Each operand matches in one way or none, which takes half of the time to find out.
    """
    patterns = pattern.operands or ()
    operands = inst.operands[: len(patterns)] if pattern.more else inst.operands
    if len(patterns) != len(operands) or not (pattern.when is None or pattern.when(inst)):
        return None
    found = _in_order(pattern, patterns, inst, operands)
    if found is None and inst.opcode.commutative and len(operands) == 2:
        found = _in_order(pattern, patterns, inst, operands[::-1])
    return found


def _in_order(
    pattern: P, patterns: tuple[P, ...], inst: Instruction, operands: tuple[Instruction, ...]
) -> dict[str, Instruction] | None:
    for wanted, operand in zip(patterns, operands, strict=True):
        if wanted.opcodes and operand.opcode.name not in wanted.opcodes:
            return None
    found = {pattern.bind: inst} if pattern.bind else {}
    for wanted, operand in zip(patterns, operands, strict=True):
        if wanted.bind and found.setdefault(wanted.bind, operand) is not operand:
            return None
        if wanted.when is not None and not wanted.when(operand):
            return None
    return found


def _matches(
    pattern: P, inst: Instruction, found: dict[str, Instruction]
) -> Iterator[dict[str, Instruction]]:
    """Yield every way to match, each with `found` and what it adds to it."""
    if pattern.opcodes and inst.opcode.name not in pattern.opcodes:
        return
    if pattern.bind:
        known = found.get(pattern.bind)
        if known is None:
            found = {**found, pattern.bind: inst}
        elif known is not inst:
            return
    if pattern.when is not None and not pattern.when(inst):
        return
    if pattern.operands is None:
        yield found
        return
    operands = inst.operands[: len(pattern.operands)] if pattern.more else inst.operands
    if len(pattern.operands) != len(operands):
        return
    yield from _operand_matches(pattern.operands, operands, found)
    if inst.opcode.commutative and len(operands) == 2:
        yield from _operand_matches(pattern.operands, operands[::-1], found)


def _operand_matches(
    patterns: tuple[P, ...], operands: tuple[Instruction, ...], found: dict[str, Instruction]
) -> Iterator[dict[str, Instruction]]:
    if not patterns:
        yield found
        return
    for first in _matches(patterns[0], operands[0], found):
        yield from _operand_matches(patterns[1:], operands[1:], first)
