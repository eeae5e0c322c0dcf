"""Patterns over instructions: an opcode, patterns of operands, a name to bind, a condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, TypeVar

from hloc.ir.instruction import Instruction
from hloc.ir.opcode import Opcode
from hloc.lazy_dataclass import dataclass

Found: TypeAlias = Mapping[str, Instruction]
"""The instructions bound to the names of a pattern."""

Condition: TypeAlias = Callable[[Instruction], bool]

C = TypeVar("C", bound=Condition)

_ONLY_OF: dict[Condition, tuple[str, ...]] = {}
"""Conditions that hold for few opcodes, and these opcodes."""


def only_of(*opcodes: str) -> Callable[[C], C]:
    """Say of a condition that it holds for instructions of these opcodes alone.

    Rules with it are then not tried where an operand has another opcode.
    """

    def note(condition: C) -> C:
        _ONLY_OF[condition] = opcodes
        return condition

    return note


@dataclass(frozen=True, slots=True, init=False)
class P:
    """One instruction of a pattern.

    Attributes:
        opcodes: names that match, () for any.
        operands: a pattern for each operand; None matches any operands. The two operands of a
            commutative opcode are tried in both orders, the written one first.
        bind: name of the matched instruction; a name used twice must match
            the same instruction.
        when: further condition on the instruction.
        more: the instruction may have further operands, which are not looked at.
        reads: the opcode that one of its operands has, whatever its place; "" for none.
        is_flat: no operand of an operand is looked at.
        possible: opcodes that can match, by `opcodes` or by the condition, () for any.
    """

    opcodes: tuple[str, ...]
    operands: tuple[P, ...] | None
    bind: str
    when: Condition | None
    more: bool
    reads: str
    is_flat: bool
    possible: tuple[str, ...]

    def __init__(
        self,
        opcode: str | tuple[str, ...] = (),
        operands: tuple[P, ...] | None = None,
        *,
        bind: str = "",
        when: Condition | None = None,
        more: bool = False,
        reads: str = "",
    ) -> None:
        opcodes = (opcode,) if isinstance(opcode, str) else opcode
        object.__setattr__(self, "opcodes", opcodes)
        object.__setattr__(self, "operands", operands)
        object.__setattr__(self, "bind", bind)
        object.__setattr__(self, "when", when)
        object.__setattr__(self, "more", more)
        object.__setattr__(self, "reads", reads)
        is_flat = operands is not None and not any(
            o.operands is not None or o.reads for o in operands
        )
        object.__setattr__(self, "is_flat", is_flat)
        possible = opcodes or (_ONLY_OF.get(when, ()) if when is not None else ())
        object.__setattr__(self, "possible", possible)


def may_match(pattern: P, opcode: Opcode, operands: tuple[str, ...]) -> bool:
    """False if no instruction with this opcode and operands of these opcodes matches."""
    if pattern.opcodes and opcode.name not in pattern.opcodes:
        return False
    if pattern.reads and pattern.reads not in operands:
        return False
    if pattern.operands is None:
        return True
    wanted = [operand.possible for operand in pattern.operands]
    if len(operands) < len(wanted) or (len(operands) > len(wanted) and not pattern.more):
        return False
    orders = (operands, operands[::-1]) if opcode.commutative else (operands,)
    return any(
        all(not names or name in names for names, name in zip(wanted, order, strict=False))
        for order in orders
    )


def match(pattern: P, inst: Instruction) -> dict[str, Instruction] | None:
    """Return the instructions bound by `pattern` if `inst` matches it, else None.

    Of several ways to match, the first is taken: operands as written
    before swapped ones.
    """
    if pattern.opcodes and inst.opcode.name not in pattern.opcodes:
        return None
    if pattern.reads and not _reads(inst, pattern.reads):
        return None
    if pattern.operands is None:
        if pattern.when is not None and not pattern.when(inst):
            return None
        return {pattern.bind: inst} if pattern.bind else {}
    if pattern.is_flat:
        return _flat_match(pattern, inst)
    return next(_matches(pattern, inst, {}), None)


def _flat_match(pattern: P, inst: Instruction) -> dict[str, Instruction] | None:
    """Return the first result of `_matches`; the opcode is known to match.

    Each operand matches in at most one way, which takes half the time.
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
    found = {pattern.bind: inst} if pattern.bind else {}
    for wanted, operand in zip(patterns, operands):  # noqa: B905 - as long as each other
        if wanted.opcodes and operand.opcode.name not in wanted.opcodes:
            return None
        if wanted.bind and found.setdefault(wanted.bind, operand) is not operand:
            return None
        if wanted.when is not None and not wanted.when(operand):
            return None
    return found


def _reads(inst: Instruction, opcode: str) -> bool:
    return any([operand.opcode.name == opcode for operand in inst.operands])


def _matches(
    pattern: P, inst: Instruction, found: dict[str, Instruction]
) -> Iterator[dict[str, Instruction]]:
    """Yield every way to match, each as `found` with its own bindings added."""
    if pattern.opcodes and inst.opcode.name not in pattern.opcodes:
        return
    if pattern.reads and not _reads(inst, pattern.reads):
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
