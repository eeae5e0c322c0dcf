"""Leaf-by-leaf rewriting: split, rebuild and partially copy tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from hloc.analysis.dataflow import Position
from hloc.analysis.leaf_source import SourceWalk, leaf_source
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.make import make
from hloc.shapes import Shape, ShapeIndex, TupleShape


def has_control_dependencies(inst: Instruction) -> bool:
    """True if `inst` has control predecessors or successors."""
    return bool(inst.control_predecessors) or any(
        inst in other.control_predecessors for other in inst.computation.controlled
    )


def part_of(inst: Instruction, index: ShapeIndex) -> Instruction:
    """Return part `index` of `inst`, looking through tuples; adds `get-tuple-element` if needed."""
    inst, index = leaf_source(inst, index)
    for i in index:
        assert isinstance(inst.shape, TupleShape)
        inst = make(inst.computation, "get-tuple-element", inst.shape.elements[i], inst, index=i)
    return inst


def assembled(computation: Computation, shape: Shape, parts: Sequence[Instruction]) -> Instruction:
    """Return an instruction of `shape` whose leaves are `parts`, nested tuples and all."""
    waiting = iter(parts)

    def build(part: Shape) -> Instruction:
        if not isinstance(part, TupleShape):
            return next(waiting)
        return make(computation, "tuple", part, *[build(e) for e in part.elements])

    return build(shape)


def copied_constant(known: Instruction, into: Computation) -> Instruction:
    """Add a copy of `known` and its operands, a few instructions over constants."""
    operands = [copied_constant(operand, into) for operand in known.operands]
    return into.add(known.opcode, known.shape, operands, known.attributes, name=known.name)


def remove_uncalled(*computations: Computation) -> None:
    """Remove the computations without callers."""
    for computation in dict.fromkeys(computations):
        module = computation.module
        if not computation.callers and computation is not module.entry:
            module.remove_computation(computation)


def replace_leaves(
    inst: Instruction, number: Mapping[ShapeIndex, int], result: Callable[[int], Instruction]
) -> None:
    """Replace the leaves of `inst` by `result` in all its users; `inst` itself stays."""
    computation = inst.computation
    for user in tuple(inst.users):
        if not user.is_a("get-tuple-element") or has_control_dependencies(user):
            continue
        n = number.get((user.attributes.index,))
        if n is not None and (user.users or user.is_root):
            value = result(n)
            if value.is_a("get-tuple-element"):
                _name_like(value, user)
            computation.replace(user, value)
        if not user.users and not user.is_root:
            computation.remove(user)
    if inst.users or inst.is_root:
        parts = [result(n) for n in number.values()]
        computation.replace(inst, assembled(computation, inst.shape, parts))


@dataclass(frozen=True, slots=True)
class Copier:
    """Copies instructions of a computation with one parameter into one with another parameter.

    Attributes:
        into: where the copies go.
        of_parameter: returns the new value of a part of the old parameter.
        parts: positions copied so far, or replaced from the start.
    """

    into: Computation
    of_parameter: Callable[[ShapeIndex], Instruction]
    parts: dict[Position, Instruction] = field(default_factory=dict)
    _copies: dict[Instruction, Instruction] = field(default_factory=dict)

    def copy(self, positions: Iterable[Position]) -> None:
        """Copy the operands of `positions`, operands first; parts of the parameter on demand."""
        walk = SourceWalk(frozenset(self.parts))
        for inst, index in positions:
            walk.add(inst, index)
        for inst in walk.order:
            operands = [self.part(operand) for operand in inst.operands]
            predecessors = [self.part(p) for p in inst.control_predecessors]
            self._copies[inst] = self.into.add_copy(
                inst, operands, control_predecessors=predecessors
            )

    def part(self, inst: Instruction, index: ShapeIndex = ()) -> Instruction:
        """Return part `index` of `inst` in the new computation."""
        at = leaf_source(inst, index)
        found = self.parts.get(at)
        if found is None:
            source, index = at
            if source.is_a("parameter"):
                found = self.of_parameter(index)
            else:
                found = part_of(self._copies[source], index)
            if inst.is_a("get-tuple-element") and found.is_a("get-tuple-element"):
                _name_like(found, inst)
            self.parts[at] = found
        return found


def _name_like(new: Instruction, old: Instruction) -> None:
    """Give a new, still unused `get-tuple-element` the name of the one it replaces."""
    if not new.users and new.name.startswith("get-tuple-element"):
        new.computation.rename(new, old.name)
