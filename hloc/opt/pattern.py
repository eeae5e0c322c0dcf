"""Patterns over instructions: an opcode, patterns of operands, a name to bind, a condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias, TypeVar

from hloc.ir.instruction import Instruction
from hloc.ir.opcode import Opcode, opcode_row
from hloc.lazy_dataclass import dataclass

Found: TypeAlias = Mapping[str, Instruction]
"""The instructions bound to the names of a pattern."""

Condition: TypeAlias = Callable[[Instruction], bool]

C = TypeVar("C", bound=Condition)

SPLAT = "broadcast of a constant"
"""The kind of such a broadcast; the kind of any other instruction is its opcode."""

_ONLY_OF: dict[Condition, tuple[str, ...]] = {}
"""Conditions that hold for few kinds, and these kinds."""


def only_of(*kinds: str) -> Callable[[C], C]:
    """Say of a condition that it holds for instructions of these kinds alone.

    Rules with it are then not tried where an operand is of another kind.
    """

    def note(condition: C) -> C:
        _ONLY_OF[condition] = kinds
        return condition

    return note


def _kinds_with(opcodes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the kinds of instructions with these opcodes."""
    return (*opcodes, SPLAT) if "broadcast" in opcodes else opcodes


def kinds_of(insts: tuple[Instruction, ...]) -> tuple[str, ...]:
    """Return the kind of each instruction: its opcode, or `SPLAT`."""
    names = [inst.opcode.name for inst in insts]
    if "broadcast" in names:
        for place, inst in enumerate(insts):
            if names[place] == "broadcast" and inst.operands[0].opcode.name == "constant":
                names[place] = SPLAT
    return tuple(names)


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
        kinds: kinds that can match, by `opcodes` or by the condition, () for any.
        roots: their opcodes.
    """

    opcodes: tuple[str, ...]
    operands: tuple[P, ...] | None
    bind: str
    when: Condition | None
    more: bool
    reads: str
    is_flat: bool
    kinds: tuple[str, ...]
    roots: tuple[str, ...]

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
        """Set the fields, and derive from them what the rewriter asks of every instruction.

        By `object.__setattr__`, since patterns are frozen. Derived are `is_flat` (no operand has a
        pattern of its own), `kinds` (what the condition demands of the root) and `roots` (the
        opcodes to try).
        """
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
        kinds = _kinds_with(opcodes)
        if not kinds and when is not None:
            kinds = _ONLY_OF.get(when, ())
        object.__setattr__(self, "kinds", kinds)
        roots = dict.fromkeys("broadcast" if kind == SPLAT else kind for kind in kinds)
        object.__setattr__(self, "roots", tuple(roots))


Matcher: TypeAlias = Callable[[Instruction], dict[str, Instruction] | None]
"""`match` for one pattern."""


def matcher(pattern: P, opcode: Opcode, kinds: tuple[str, ...]) -> Matcher | None:
    """Return `match` for instructions with this opcode and operands of these kinds.

    It need not look at what opcode and kinds decide. None if no such instruction matches.
    """
    if pattern.opcodes and opcode.name not in pattern.opcodes:
        return None
    if pattern.reads and set(kinds).isdisjoint(_kinds_with((pattern.reads,))):
        return None
    if pattern.operands is None:
        return _matcher_alone(pattern)
    count = len(pattern.operands)
    if len(kinds) < count or (len(kinds) > count and not pattern.more):
        return None
    places = tuple(range(count))
    orders = (places, places[::-1]) if opcode.commutative and count == 2 else (places,)
    possible = [
        order
        for order in orders
        if all(
            not operand.kinds or kinds[place] in operand.kinds
            for place, operand in zip(order, pattern.operands, strict=True)
        )
    ]
    if not possible:
        return None
    if not pattern.is_flat:
        return _nested_matcher(pattern, possible)
    names = {operand.bind for operand in pattern.operands if operand.bind and not operand.when}
    if len(names) == count:
        return _naming_matcher(pattern, [operand.bind for operand in pattern.operands])
    return _flat_matcher(pattern, [_Places.of(order, pattern.operands) for order in possible])


class _Places(NamedTuple):
    """What a flat pattern says of the operands at their places, for one order of these.

    Attributes:
        conditions: place -> condition.
        names: name -> place.
        same: pairs of places that have the same instruction.
    """

    conditions: list[tuple[int, Condition]]
    names: list[tuple[str, int]]
    same: list[tuple[int, int]]

    @staticmethod
    def of(order: tuple[int, ...], patterns: tuple[P, ...]) -> _Places:
        """Return it for `patterns` of the operands at the places `order`."""
        placed = list(zip(order, patterns, strict=True))
        names: dict[str, int] = {}
        same = [(names.setdefault(p.bind, place), place) for place, p in placed if p.bind]
        return _Places(
            [(place, p.when) for place, p in placed if p.when is not None],
            list(names.items()),
            [(first, place) for first, place in same if first != place],
        )


def _matcher_alone(pattern: P) -> Matcher:
    """Match a pattern that says nothing about operands, if the opcodes are known to match."""
    bind, when = pattern.bind, pattern.when

    def matches(inst: Instruction) -> dict[str, Instruction] | None:
        if when is not None and not when(inst):
            return None
        return {bind: inst} if bind else {}

    return matches


def _naming_matcher(pattern: P, names: list[str]) -> Matcher:
    """Match a pattern that only names its operands, if the opcodes are known to match."""
    bind, when = pattern.bind, pattern.when
    if len(names) == 1 and not bind and when is None:
        (name,) = names
        return lambda inst: {name: inst.operands[0]}

    def matches(inst: Instruction) -> dict[str, Instruction] | None:
        if when is not None and not when(inst):
            return None
        found = {bind: inst} if bind else {}
        found.update(zip(names, inst.operands))  # noqa: B905 - there may be more operands
        return found

    return matches


def _flat_matcher(pattern: P, orders: list[_Places]) -> Matcher:
    """Match a flat pattern, if the opcodes are known to match, with operands in one of `orders`.

    Most instructions fail a condition: nothing is bound before all conditions hold.
    """
    bind, when = pattern.bind, pattern.when

    def matches(inst: Instruction) -> dict[str, Instruction] | None:
        if when is not None and not when(inst):
            return None
        operands = inst.operands
        for conditions, names, same in orders:
            for place, holds in conditions:
                if not holds(operands[place]):
                    break
            else:
                if same and any([operands[i] is not operands[j] for i, j in same]):
                    continue
                found = {bind: inst} if bind else {}
                for name, place in names:
                    found[name] = operands[place]
                return found
        return None

    return matches


def _nested_matcher(pattern: P, orders: list[tuple[int, ...]]) -> Matcher:
    """Match a pattern with patterns inside its operands, with operands in one of `orders`."""
    parts, bind, when = pattern.operands or (), pattern.bind, pattern.when
    if not all(map(_matches_in_one_way, parts)):
        return lambda inst: match(pattern, inst)

    def matches(inst: Instruction) -> dict[str, Instruction] | None:
        if when is not None and not when(inst):
            return None
        operands = inst.operands
        for order in orders:
            found = {bind: inst} if bind else {}
            for part, place in zip(parts, order, strict=True):
                if not _bind(part, operands[place], found):
                    break
            else:
                return found
        return None

    return matches


def _matches_in_one_way(pattern: P) -> bool:
    """False if operands of a commutative opcode may have to be tried in both orders."""
    operands = pattern.operands or ()
    may_swap = not pattern.opcodes or any(opcode_row(name).commutative for name in pattern.opcodes)
    return not (len(operands) == 2 and may_swap) and all(map(_matches_in_one_way, operands))


def _bind(pattern: P, inst: Instruction, found: dict[str, Instruction]) -> bool:
    """Match a pattern that matches in one way, and add its names to `found`."""
    if pattern.opcodes and inst.opcode.name not in pattern.opcodes:
        return False
    if pattern.reads and not _reads(inst, pattern.reads):
        return False
    if pattern.bind and found.setdefault(pattern.bind, inst) is not inst:
        return False
    if pattern.when is not None and not pattern.when(inst):
        return False
    parts, operands = pattern.operands, inst.operands
    if parts is None:
        return True
    if len(parts) != len(operands) and not (pattern.more and len(parts) < len(operands)):
        return False
    for place, part in enumerate(parts):
        if not _bind(part, operands[place], found):
            break
    else:
        return True
    return False


def match(pattern: P, inst: Instruction) -> dict[str, Instruction] | None:
    """Return the instructions bound by `pattern` if `inst` matches it, else None.

    Of several ways to match, the first is taken: operands as written
    before swapped ones.
    """
    return next(_matches(pattern, inst, {}), None)


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
