"""States that no pass of hloc made: edited texts, and the steps of other compilers.

Matching instructions get the uids they had before, and the differences become a change log: `diff`,
`why` and `blame` then work as for hloc's own passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hloc.analysis.diff.module_match import match_modules
from hloc.ir.clone import clone_module
from hloc.ir.computation import Computation
from hloc.ir.events import (
    ComputationAdded,
    ComputationRemoved,
    Created,
    Event,
    Modified,
    Removed,
    Replaced,
)
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.print_order import instruction_order
from hloc.ir.traversal import all_instructions


def matched_by_name(old: Module, new: Module, highest_uid: int) -> Module:
    """Return `new`, an edited text, with the uids of `old` for instructions of the same name."""
    known: dict[tuple[str, str], int] = {("", c.name): c.uid for c in old.computations}
    for inst in all_instructions(old):
        known["%", inst.name] = inst.uid
    pairs = {c.uid: known.get(("", c.name)) for c in new.computations}
    pairs.update({inst.uid: known.get(("%", inst.name)) for inst in all_instructions(new)})
    return pairs_to_uids(new, pairs, highest_uid)


def matched_by_structure(old: Module, new: Module, highest_uid: int) -> Module:
    """Return `new` with the uids of `old` for instructions that staged matching pairs."""
    match = match_modules(old, new)
    pairs: dict[int, int | None] = dict.fromkeys(c.uid for c in new.computations)
    pairs.update(dict.fromkeys(inst.uid for inst in all_instructions(new)))
    pairs.update({b.uid: a.uid for a, b in match.computations.items()})
    pairs.update({b.uid: a.uid for a, b in match.instructions.items()})
    return pairs_to_uids(new, pairs, highest_uid)


def pairs_to_uids(new: Module, pairs: Mapping[int, int | None], highest_uid: int) -> Module:
    """Return `new` with the uids of `pairs`, and fresh ones for unpaired instructions."""
    taken = [uid for uid in pairs.values() if uid is not None]
    highest = max([highest_uid, *taken], default=highest_uid)
    uids: dict[int, int] = {}
    for uid, partner in pairs.items():
        if partner is None:
            highest += 1
        uids[uid] = highest if partner is None else partner
    return clone_module(new, uids)


# ---------------------------------------------------------------- the change log


def events_between(old: Module, new: Module, by: str) -> tuple[Event, ...]:
    """Return the change log from `old` to `new`, which have uids in common.

    A removed instruction whose users all moved to one added instruction counts as replaced.
    """
    return tuple(_events(old, new, by))


def _events(old: Module, new: Module, by: str) -> Iterator[Event]:
    """Yield the change log, made by `by`, from `old` to `new`; instructions match by uid."""
    before = {inst.uid: inst for inst in _ordered(old)}
    after = {inst.uid: inst for inst in _ordered(new)}
    homes = {computation.uid for computation in old.computations}
    for computation in new.computations:
        if computation.uid not in homes:
            yield ComputationAdded(computation, by)
    for uid, inst in after.items():
        if uid not in before:
            yield Created(inst, inst.computation, by)
        else:
            yield from _changes(before[uid], inst, by)
    for uid, inst in before.items():
        if uid not in after:
            successor = _successor(inst, after)
            if successor is not None:
                yield Replaced(inst, successor, by)
            yield Removed(inst, inst.computation, by)
    kept = {computation.uid for computation in new.computations}
    for computation in old.computations:
        if computation.uid not in kept:
            yield ComputationRemoved(computation, by)


def _ordered(module: Module) -> Iterator[Instruction]:
    for computation in module.computations:
        yield from instruction_order(computation)


def _changes(old: Instruction, new: Instruction, by: str) -> Iterator[Event]:
    if _uids(old.operands) != _uids(new.operands):
        yield Modified(new, "operands", old.operands, new.operands, by)
    if _uids(old.called) != _uids(new.called):
        yield Modified(new, "called", old.called, new.called, by)
    for field in ("name", "shape", "attributes"):
        before, after = getattr(old, field), getattr(new, field)
        if before != after and old.opcode is new.opcode:
            yield Modified(new, field, before, after, by)
    if old.opcode is not new.opcode:
        yield Modified(new, "opcode", old.opcode.name, new.opcode.name, by)


def _uids(parts: tuple[Instruction, ...] | tuple[Computation, ...]) -> list[int]:
    return [part.uid for part in parts]


def _successor(gone: Instruction, after: Mapping[int, Instruction]) -> Instruction | None:
    """Return the instruction that replaces `gone` in all of its users, None if there is none."""
    found: Instruction | None = None
    for user in gone.users:
        now = after.get(user.uid)
        if now is None or len(now.operands) != len(user.operands):
            continue
        for old_operand, operand in zip(user.operands, now.operands, strict=True):
            if old_operand is gone:
                if found not in (None, operand) or operand.shape != gone.shape:
                    return None
                found = operand
    return found
