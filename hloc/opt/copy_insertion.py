"""Insert copies so that loop state, branch results and outputs each have one buffer.

Correct first: every leaf that changes gets a copy at each boundary. Buffer assignment then places
source and copy of most of them in one buffer, where the copy costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import ClassVar

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.dataflow import Dataflow, analyse_dataflow, nonempty_leaves
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.calls.flatten_call_graph import FlattenCallGraph
from hloc.opt.make import make
from hloc.opt.pass_base import PassContext
from hloc.shapes import ArrayShape, Shape, ShapeIndex, TupleShape, shape_at


@dataclass(frozen=True, slots=True)
class CopyInsertion:
    """Insert copies at the boundaries of loops, branches and the entry computation.

    Afterwards, for each leaf with elements:
    - while: operand and body root are copies, unless the body forwards the leaf unchanged; a root
      leaf that is another leaf of the state is copied twice, so that all old values are read before
      the first new one is written;
    - conditional: the root leaves of each branch are copies;
    - entry: no output is a parameter, a constant, or the value of another output;
    - anywhere: an array has one layout on both sides of a boundary.

    Runs `flatten-call-graph` first, since live ranges are those of one caller. Runs last before
    scheduling; idempotent.
    """

    name: ClassVar[str] = "copy-insertion"

    def run(self, module: Module, context: PassContext) -> bool:
        """Insert the copies, callees first."""
        changed = FlattenCallGraph().run(module, context)
        if context.spent:
            return changed
        work = _plan(module, analyse_dataflow(module))
        for boundary, wanted in work:
            if not wanted or context.spent:
                continue
            with context.rewriting(module, self.name):
                _apply(boundary, wanted)
            changed = True
        return changed


@dataclass(frozen=True, slots=True)
class _Boundary:
    """An insertion point for copies: operand `number` of `user`, or the root without a user."""

    computation: Computation
    user: Instruction | None = None
    number: int = 0

    @property
    def inst(self) -> Instruction:
        """The value that crosses the boundary."""
        return self.computation.root if self.user is None else self.user.operands[self.number]


Wanted = dict[ShapeIndex, tuple[int, ArrayShape]]
"""Leaf -> number of successive copies, and the shape of the last one."""


def _plan(module: Module, dataflow: Dataflow) -> list[tuple[_Boundary, Wanted]]:
    """Return all copies to insert, found before anything changes."""
    work: list[tuple[_Boundary, Wanted]] = []
    for computation in control_flow_computations(module):
        for inst in computation.instructions:
            if inst.opcode.name == "while":
                work += _around_loop(inst, dataflow)
            elif inst.opcode.name == "conditional":
                work += [(_Boundary(branch), _all_leaves(inst, branch)) for branch in inst.called]
                parameters = [branch.parameters[0] for branch in inst.called]
                work += _into_layouts(inst, 1, parameters)
            elif inst.opcode.name == "call":
                (body,) = inst.called
                work += _into_layouts(inst, 0, body.parameters)
                result = _Boundary(body)
                work.append((result, _layout_changes(result, inst.shape)))
    work.append((_Boundary(module.entry), _shared_outputs(module.entry, dataflow)))
    return work


def _around_loop(loop: Instruction, dataflow: Dataflow) -> list[tuple[_Boundary, Wanted]]:
    body = loop.called[1]
    (state,) = body.parameters
    invariant = dataflow.invariant(loop)
    entering = _Boundary(loop.computation, loop)
    before = _layout_changes(entering, state.shape)
    after: Wanted = {}
    for index, shape in nonempty_leaves(state.shape):
        if index in invariant:
            continue
        if not _is_own_copy(loop.operands[0], index):
            before[index] = (1, shape)
        times = _copies_after(body, index, dataflow)
        if times:
            after[index] = (times, shape)
    return [(entering, before), (_Boundary(body), after)]


def _into_layouts(
    user: Instruction, first: int, parameters: Sequence[Instruction]
) -> list[tuple[_Boundary, Wanted]]:
    """Return the copies that convert the operands from `first` on to the parameters' layouts."""
    found = []
    for number, parameter in enumerate(parameters, first):
        boundary = _Boundary(user.computation, user, number)
        found.append((boundary, _layout_changes(boundary, parameter.shape)))
    return found


def _layout_changes(boundary: _Boundary, shape: Shape) -> Wanted:
    """Return the leaves whose layout differs from that in `shape`."""
    given = dict(nonempty_leaves(boundary.inst.shape))
    return {
        index: (1, wanted)
        for index, wanted in nonempty_leaves(shape)
        if given[index].minor_to_major != wanted.minor_to_major
    }


def _copies_after(body: Computation, index: ShapeIndex, dataflow: Dataflow) -> int:
    """Return how many copies leaf `index` of the root of `body` still needs."""
    inst, _ = dataflow.source(body.root, index)
    own = _is_own_copy(body.root, index)
    if own:
        inst, _ = dataflow.source(inst.operands[0], ())
    takes_other_leaf = inst.is_a("parameter") and inst.computation is body
    return (2 if takes_other_leaf else 1) - own


def _all_leaves(conditional: Instruction, branch: Computation) -> Wanted:
    return {
        index: (1, shape)
        for index, shape in nonempty_leaves(conditional.shape)
        if not _is_own_copy(branch.root, index)
    }


def _shared_outputs(entry: Computation, dataflow: Dataflow) -> Wanted:
    wanted: Wanted = {}
    seen = set()
    for index, shape in nonempty_leaves(entry.root.shape):
        source = dataflow.source(entry.root, index)
        if source in seen or source[0].is_a("parameter", "constant"):
            wanted[index] = (1, shape)
        seen.add(source)
    return wanted


def _is_own_copy(inst: Instruction, index: ShapeIndex) -> bool:
    """True if leaf `index` of `inst` is a copy made for this one use."""
    for i in index:
        if not inst.is_a("tuple") or _uses(inst) != 1:
            return False
        inst = inst.operands[i]
    return inst.is_a("copy") and _uses(inst) == 1


def _uses(inst: Instruction) -> int:
    """Return how often `inst` is an operand, plus one if it is the root."""
    return inst.is_root + sum(operand is inst for user in inst.users for operand in user.operands)


def _apply(boundary: _Boundary, wanted: Wanted) -> None:
    computation, user, old = boundary.computation, boundary.user, boundary.inst
    new = _with_copies(computation, old, (), wanted)
    if user is None:
        computation.set_root(new)
    else:
        operands = list(user.operands)
        operands[boundary.number] = new
        computation.set_operands(user, operands)
    if old.is_a("tuple") and not old.users and not old.is_root:
        computation.remove(old)


def _with_copies(
    computation: Computation, inst: Instruction, index: ShapeIndex, wanted: Wanted
) -> Instruction:
    """Return `inst`, which is leaf or subtuple `index`, with the wanted leaves copied."""
    if index in wanted:
        times, shape = wanted[index]
        for _ in range(times):
            inst = make(computation, "copy", shape, inst)
        return inst
    if not isinstance(inst.shape, TupleShape) or not _any_below(wanted.keys(), index):
        return inst
    elements = [
        _with_copies(computation, _element(computation, inst, i), (*index, i), wanted)
        for i in range(len(inst.shape.elements))
    ]
    shapes: tuple[Shape, ...] = tuple(element.shape for element in elements)
    return make(computation, "tuple", TupleShape(shapes), *elements)


def _any_below(wanted: Set[ShapeIndex], index: ShapeIndex) -> bool:
    return not index or any(found[: len(index)] == index for found in wanted)


def _element(computation: Computation, inst: Instruction, i: int) -> Instruction:
    if inst.is_a("tuple"):
        return inst.operands[i]
    return make(computation, "get-tuple-element", shape_at(inst.shape, (i,)), inst, index=i)
