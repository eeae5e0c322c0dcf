"""Copies that keep buffers separate after passes have changed a module of XLA.

When XLA calls the hook, it has inserted the copies that its buffer assignment relies on: the
state of a loop has one buffer per leaf, which the body overwrites; results of the entry have
separate buffers; some instructions overwrite an operand. Even an exact rewrite can extend the live
range of a value beyond such a write. So changed computations get copies wherever an overwritten
value may have another reader. Control dependencies order the writes to the state of a changed loop.

Source: `CopyInsertion` of XLA, before it removes the copies that are not needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hloc.analysis.in_place import overwritten_operands
from hloc.ir.computation import Computation
from hloc.ir.events import Created, Event, Modified, Replaced
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.operand_alias import operand_aliases
from hloc.ir.traversal import live_computations
from hloc.opt.make import make
from hloc.shapes import ArrayShape, TupleShape

_ALIASES = frozenset(
    {"bitcast", "get-tuple-element", "tuple", "optimization-barrier", "add-dependency", "domain"}
)
"""Opcodes whose result aliases an operand."""

_BORROWED = _ALIASES | {"parameter", "constant", "call", "after-all", "token"}
"""Opcodes whose result is, or may be, in memory that others own."""


def keep_buffers_apart(module: Module, events: Sequence[Event]) -> None:
    """Add copies to the computations that `events` changed. Cost: O(instructions)."""
    changed = changed_computations(events)
    for computation in live_computations(module):
        if computation.uid in changed and not computation.is_fusion:
            _Copies(computation).add()


def changed_computations(events: Iterable[Event]) -> set[int]:
    """Return the uids of the computations in which a value got a new user.

    Uids, because the events may have been of copies of the module.
    """
    found = set()
    for event in events:
        if isinstance(event, Created):
            found.add(event.computation.uid)
        elif isinstance(event, Replaced):
            found.add(event.old.computation.uid)
        elif isinstance(event, Modified):
            fewer = event.field == "operands" and set(event.after) <= set(event.before)
            if event.field == "root" and isinstance(event.target, Computation):
                found.add(event.target.uid)
            elif isinstance(event.target, Instruction) and event.field == "operands" and not fewer:
                found.add(event.target.computation.uid)
    return found


class _Copies:
    """Adds the copies of one computation."""

    def __init__(self, computation: Computation) -> None:
        self.computation = computation

    def add(self) -> None:
        """Copy operands and results that need buffers of their own, by the computation's role."""
        computation = self.computation
        callers = {caller.opcode.name for caller in computation.callers}
        is_body = any(
            caller.is_a("while") and caller.called[1] is computation
            for caller in computation.callers
        )
        for inst in computation.instructions:
            if inst.is_a("while", "conditional", "call"):
                first = 1 if inst.is_a("conditional") else 0
                for number in range(first, len(inst.operands)):
                    self._own_operand(inst, number)
            else:
                self._own_overwritten(inst, is_body)
        if is_body:
            self._own_state()
        elif computation is computation.module.entry or callers & {"conditional", "call"}:
            self._own_root()

    # ---- operands

    def _own_operand(self, user: Instruction, number: int) -> None:
        """Make every leaf of an operand of `user` a value without other readers."""
        operand = user.operands[number]
        if operand.is_a("tuple") and set(operand.users) == {user} and not operand.is_root:
            self._own_leaves(operand)
        else:
            self._set_operand(user, number, self._copied(operand))

    def _own_leaves(self, pair: Instruction) -> None:
        """Make every operand of a tuple a value without other readers."""
        for number, leaf in enumerate(pair.operands):
            if not self._is_owned(leaf, pair):
                self._set_operand(pair, number, self._copied(leaf))

    def _own_overwritten(self, inst: Instruction, is_body: bool) -> None:
        """Make the operands that `inst` overwrites values without other readers."""
        if inst.is_a("copy"):
            return
        aliased = {alias.operand for alias in operand_aliases(inst)}
        for number in sorted({*overwritten_operands(inst), *aliased}):
            operand = inst.operands[number]
            if self._is_owned(operand, inst) or (is_body and self._ends_in_place(inst, operand)):
                continue
            self._set_operand(inst, number, self._copied(operand))

    def _ends_in_place(self, inst: Instruction, operand: Instruction) -> bool:
        """True if `inst` updates a leaf of the state that nothing else reads, for the root."""
        root = self.computation.root
        if not operand.is_a("get-tuple-element") or not operand.operands[0].is_a("parameter"):
            return False
        index = operand.attributes.index
        only = [user for user in operand.operands[0].users if _index_of(user) in (index, None)]
        return (
            only == [operand]
            and list(operand.users) == [inst]
            and inst.operands.count(operand) == 1
            and list(inst.users) == [root]
            and root.is_a("tuple")
            and [n for n, leaf in enumerate(root.operands) if leaf is inst] == [index]
        )

    # ---- roots

    def _own_root(self) -> None:
        root = self.computation.root
        if root.is_a("tuple"):
            self._own_leaves(root)
        elif not self._is_owned(root, None):
            self.computation.set_root(self._copied(root))

    def _own_state(self) -> None:
        """Write each leaf of a loop's state after the last read of its old value."""
        computation, root = self.computation, self.computation.root
        (parameter,) = computation.parameters
        if not root.is_a("tuple"):
            root = self._rebuilt(root)
            computation.set_root(root)
        kept = [
            (_index_of(leaf) == number and leaf.operands[0] is parameter)
            or leaf.is_a("parameter")
            or self._updates(leaf, number)
            or not isinstance(leaf.shape, ArrayShape)
            for number, leaf in enumerate(root.operands)
        ]
        leaves = list(root.operands)
        for number, leaf in enumerate(leaves):
            if not kept[number] and not self._is_owned(leaf, root):
                leaves[number] = make(computation, "copy", leaf.shape, leaf)
        for number, leaf in enumerate(leaves):
            if kept[number]:
                continue
            before = [i for i in _readers(parameter, number) if i is not root]
            if before or leaf.is_a("parameter"):
                written = make(computation, "copy", leaf.shape, leaf)
                computation.set_control_predecessors(written, before)
                leaves[number] = written
        computation.set_operands(root, leaves)

    def _updates(self, leaf: Instruction, number: int) -> bool:
        """True if `leaf` updates leaf `number` of the state in place."""
        return any(
            _index_of(leaf.operands[at]) == number and self._ends_in_place(leaf, leaf.operands[at])
            for at in overwritten_operands(leaf)
        )

    # ---- values

    def _is_owned(self, value: Instruction, user: Instruction | None) -> bool:
        """True if `value` is in memory that only `user` reads; None is the caller."""
        users = [] if user is None else [user]
        while True:
            if not isinstance(value.shape, ArrayShape) or list(value.users) != users:
                return False
            if user is not None and user.operands.count(value) != 1:
                return False
            if value.is_root and user is not None:
                return False
            if value.is_a("bitcast"):
                value, users = value.operands[0], [value]
                user = users[0]
                continue
            if value.is_a("get-tuple-element"):
                source = value.operands[0]
                if source.opcode.name in _BORROWED or source.is_root:
                    return False
                index = value.attributes.index
                readers = [reader for reader in source.users if _index_of(reader) in (index, None)]
                return readers == [value]
            return value.opcode.name not in _BORROWED

    def _copied(self, value: Instruction) -> Instruction:
        """Return `value` with every array in it copied."""
        if isinstance(value.shape, ArrayShape):
            return make(self.computation, "copy", value.shape, value)
        return self._rebuilt(value, copy=True)

    def _rebuilt(self, value: Instruction, copy: bool = False) -> Instruction:
        """Return a tuple of the elements of `value`, or of their copies with `copy`."""
        if not isinstance(value.shape, TupleShape):
            return value
        parts = []
        for index, shape in enumerate(value.shape.elements):
            part = make(self.computation, "get-tuple-element", shape, value, index=index)
            parts.append(self._copied(part) if copy else part)
        return make(self.computation, "tuple", value.shape, *parts)

    def _set_operand(self, user: Instruction, number: int, value: Instruction) -> None:
        operands = list(user.operands)
        operands[number] = value
        self.computation.set_operands(user, operands)


def _index_of(inst: Instruction) -> int | None:
    return inst.attributes.index if inst.is_a("get-tuple-element") else None


def _readers(parameter: Instruction, number: int) -> list[Instruction]:
    """Return the readers of leaf `number` of a loop's state, also through aliases, in order."""
    found: dict[Instruction, None] = {}
    pending = [user for user in parameter.users if _index_of(user) in (number, None)]
    for inst in _closure(pending):
        if inst.opcode.name not in _ALIASES:
            found[inst] = None
    return sorted(found, key=lambda inst: inst.uid)


def _closure(pending: list[Instruction]) -> Iterator[Instruction]:
    seen: set[Instruction] = set()
    while pending:
        inst = pending.pop()
        if inst in seen:
            continue
        seen.add(inst)
        yield inst
        if inst.opcode.name in _ALIASES:
            pending.extend(inst.users)
