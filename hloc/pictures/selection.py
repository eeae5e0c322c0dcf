"""Select parts of a computation to draw: around an instruction, between two, all operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hloc.analysis.extract import find_instruction
from hloc.errors import HloError
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.pictures.labels import written_in_users


@dataclass(frozen=True, slots=True)
class Picked:
    """A computation and those of its instructions to draw, None for all."""

    computation: Computation
    members: frozenset[Instruction] | None = None


def picked(
    module: Module,
    name: str | None = None,
    *,
    radius: int = 2,
    until: Iterable[str] = (),
    direction: str = "",
) -> Picked:
    """Return the selection for a name.

    Args:
        module: the module to search.
        name: name of a computation, which is drawn whole, or of an instruction; None for the entry
            computation.
        radius: steps along operands and users from the instruction.
        until: names of instructions at which the selection ends.
        direction: `backward` for all that the instruction depends on, `forward` for all that depend
            on it; the radius is ignored then.

    Raises:
        HloError: nothing has that name.
    """
    if name is None:
        return Picked(module.entry)
    plain = name.removeprefix("%")
    computation = next((c for c in module.computations if c.name == plain), None)
    if computation is not None:
        return Picked(computation)
    inst = find_instruction(module, name)
    ends = {find_instruction(module, end) for end in until}
    steps: list[_Step] = [] if direction else [_operands, _users]
    if direction:
        steps = [_operands if direction == "backward" else _users]
        radius = len(inst.computation)
    return Picked(inst.computation, _near(inst, radius, ends, steps))


def between(module: Module, first: str, last: str) -> Picked:
    """Return all instructions on paths between two instructions, in either direction.

    Raises:
        HloError: a name is unknown, or no path leads from one to the other.
    """
    a, b = find_instruction(module, first), find_instruction(module, last)
    if a.computation is not b.computation:
        raise HloError(f"{a.name} and {b.name} are in different computations")
    for start, end in ((a, b), (b, a)):
        size = len(a.computation)
        found = _near(start, size, set(), [_users]) & _near(end, size, set(), [_operands])
        if found:
            return Picked(a.computation, found)
    raise HloError(f"no path between {a.name} and {b.name}")


_Step = Callable[[Instruction], Iterable[Instruction]]


def _operands(inst: Instruction) -> Iterable[Instruction]:
    return (*inst.operands, *inst.control_predecessors)


def _users(inst: Instruction) -> Iterable[Instruction]:
    return inst.users


def _near(
    start: Instruction, radius: int, ends: set[Instruction], steps: list[_Step]
) -> frozenset[Instruction]:
    """Return what can be reached; what is written in its users is neither followed nor a box."""
    written = written_in_users(start.computation)
    found, border = {start}, [start]
    for _ in range(radius):
        border = [
            near
            for inst in border
            if inst not in ends
            for step in steps
            for near in step(inst)
            if near not in written and near not in found
        ]
        border = list(dict.fromkeys(border))
        found.update(border)
        if not border:
            break
    return frozenset(found)
