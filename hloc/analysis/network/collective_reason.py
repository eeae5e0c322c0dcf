"""Why a collective is there, from the partitioner's note or from its neighbours.

XLA's partitioner leaves no note. Then a sum over devices is attributed to the instruction before
it, any other collective to the one after it, skipping instructions that only move data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hloc.analysis.network.collective_cost import exchange_of
from hloc.ir.instruction import Instruction
from hloc.ir.reshard_note import note_of
from hloc.lazy_dataclass import dataclass

_MOST_STEPS = 64


@dataclass(frozen=True, slots=True)
class Reason:
    """Which instruction needed a collective, and how it changes the sharding.

    Attributes:
        value: the instruction whose result is moved, "" if unknown.
        needed_by: name and opcode, or "the result".
        text: a sentence.
        before, after: shardings, as far as they are known.
    """

    value: str
    needed_by: str
    text: str
    before: str
    after: str


def reason_of(start: Instruction, axes: tuple[str, ...]) -> Reason:
    """Return why the collective that `start` is or starts is there.

    Args:
        start: a collective, or the instruction that starts one.
        axes: names of the mesh axes that it exchanges along.
    """
    collective = exchange_of(start)
    assert collective is not None
    along = ", ".join(axes) or "no axis"
    note = note_of(collective) or note_of(start)
    is_sum = collective.opcode.phases[0] == "scatter"
    # The producer of the operand, or the user of the result; None if only the root uses it.
    cause = _first(start, lambda at: at.operands[:1] if is_sum else at.users)
    if note is not None:
        needed = note.needed_by or "the result"
        text = f"{needed} needs {note.value} in another sharding"
        if is_sum:
            text = f"{note.value} sums over dimensions that are split along {along}"
        return Reason(note.value, needed, text, note.before, note.after)
    named = "the result" if cause is None else _named(cause)
    value = start.operands[0].name if start.operands else ""
    if cause is not None and cause.is_a("parameter"):
        text = f"every device has its own {cause.name}, and their sum is needed"
        return Reason(value, named, text, *_sentence(collective, named, along)[1:])
    return Reason(value, named, *_sentence(collective, named, along))


def _named(inst: Instruction) -> str:
    """Return `dot.3 (dot)`, for a fusion with the opcode it computes: `fusion.2 (dot)`."""
    if not inst.is_a("fusion"):
        return f"{inst.name} ({inst.opcode.name})"
    body = inst.called[0]
    inner = [i for i in body.instructions if i.opcode.contraction or i.called]
    return f"{inst.name} ({(inner[-1] if inner else body.root).opcode.name})"


def _sentence(collective: Instruction, named: str, along: str) -> tuple[str, str, str]:
    """Return the sentence, and both shardings as far as they are known."""
    phases = collective.opcode.phases
    dimensions = tuple(getattr(collective.attributes, "dimensions", None) or ())
    dim = f"dimension {dimensions[0]}" if dimensions else "a dimension"
    split = f"{dim} split along {along}"
    sums = f"partial sums along {along}"
    summed = f"{named} sums over a dimension that is split along {along}"
    if phases == ("scatter", "gather"):
        return summed, sums, f"the same along {along}"
    if phases == ("scatter",):
        return f"{summed}, and each device needs a piece", sums, split
    if phases == ("gather",):
        return f"{named} needs {dim} whole", split, f"{dim} whole"
    if phases == ("swap",):
        text = f"{named} needs another dimension split"
        return text, f"one dimension split along {along}", f"another split along {along}"
    if phases == ("relay",):
        return f"{named} needs the value of one device", "on one device", f"the same along {along}"
    return f"{named} needs data of other devices", f"along {along}", f"moved along {along}"


def _first(
    inst: Instruction, neighbours: Callable[[Instruction], Iterable[Instruction]]
) -> Instruction | None:
    """Return the first instruction reached from `inst` that does more than move data."""
    seen = [inst]
    for at in seen:  # grows on the way
        for other in neighbours(at):
            if other in seen:
                continue
            if not _only_moves(other):
                return other
            seen.append(other)
        if len(seen) > _MOST_STEPS:
            break
    return None


def _only_moves(inst: Instruction) -> bool:
    """True if `inst` is another collective, or renames or rearranges all elements of one array."""
    if inst.is_a("fusion"):
        body = [i for i in inst.called[0].instructions if not i.is_a("parameter")]
        return len(inst.operands) == 1 and all(not i.called and _only_moves(i) for i in body)
    row = inst.opcode
    if row.exchange is not None or row.ended_by or row.name.endswith("-done"):
        return True
    if not inst.operands:
        return False
    if row.data_movement or row.name == "bitcast":
        return (
            len(inst.operands) == 1 and inst.shape.size_bytes == inst.operands[0].shape.size_bytes
        )
    return row.nop or row.forwards
