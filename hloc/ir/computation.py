"""A computation: a graph of instructions with one root, and the only way to change it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from hloc.ir.attributes import NO_COMMON, CommonAttributes
from hloc.ir.events import Created, Modified, OperandReplaced, Removed, Replaced
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import Opcode
from hloc.ir.users import with_user, without_user
from hloc.ir.wide_operands import WideOperands
from hloc.lazy_dataclass import dataclass
from hloc.shapes import Shape, compatible
from hloc.source import Span

if TYPE_CHECKING:
    from hloc.ir.module import Module

R = TypeVar("R")

_WIDE = 64
"""Instructions of at least this many operands are not searched for each one that is replaced."""


@dataclass(eq=False, slots=True)
class Computation:
    """Instructions in the order they were added; the execution order is in a schedule.

    Every change keeps users, callers, versions and the module's change log consistent.

    Attributes:
        callers: ordered set of the instructions that call this computation.
        version: incremented by every change, so that analyses know when they are stale.
        execution_thread: `main` unless the text says otherwise.
    """

    uid: int
    name: str
    module: Module
    execution_thread: str = "main"
    callers: dict[Instruction, None] = field(default_factory=dict)
    version: int = 0
    _root: Instruction | None = None
    _instructions: dict[int, Instruction] = field(default_factory=dict)
    _controlled: dict[int, Instruction] = field(default_factory=dict)
    _calling: dict[int, Instruction] = field(default_factory=dict)
    _derived: dict[Any, tuple[int, Any]] = field(default_factory=dict)
    _wide: WideOperands[Instruction] | None = None

    def __repr__(self) -> str:
        return f"computation {self.name} ({len(self._instructions)} instructions)"

    # ---- reading

    @property
    def root(self) -> Instruction:
        """The instruction whose value the computation returns."""
        assert self._root is not None, f"computation {self.name} has no root yet"
        return self._root

    @property
    def has_root(self) -> bool:
        return self._root is not None

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """All instructions in the order they were added (a snapshot)."""
        return tuple(self._instructions.values())

    def __len__(self) -> int:
        return len(self._instructions)

    def __contains__(self, inst: Instruction) -> bool:
        return self._instructions.get(inst.uid) is inst

    @property
    def parameters(self) -> tuple[Instruction, ...]:
        """Parameters by number."""
        return self.derived(_parameters)

    @property
    def controlled(self) -> tuple[Instruction, ...]:
        """The instructions that have control predecessors."""
        return tuple(self._controlled.values())

    @property
    def calling(self) -> tuple[Instruction, ...]:
        """The instructions that call computations, in the order of `instructions`."""
        return tuple(self._calling.values())

    @property
    def awaited(self) -> set[Instruction]:
        """The control predecessors of its instructions."""
        return {p for inst in self._controlled.values() for p in inst.control_predecessors}

    @property
    def is_fusion(self) -> bool:
        """True if a fusion instruction calls it."""
        return any([caller.opcode.name == "fusion" for caller in self.callers])

    def derived(self, analyse: Callable[[Computation], R]) -> R:
        """Return `analyse(self)`, cached until the next change; the result must not be changed.

        `analyse` may depend only on the instructions of this computation.
        """
        found = self._derived.get(analyse)
        if found is None or found[0] != self.version:
            found = self._derived[analyse] = (self.version, analyse(self))
        result: R = found[1]
        return result

    # ---- changing

    def add(
        self,
        opcode: Opcode,
        shape: Shape,
        operands: Sequence[Instruction] = (),
        attributes: Any = None,
        called: Sequence[Computation] = (),
        *,
        name: str = "",
        common: CommonAttributes = NO_COMMON,
        control_predecessors: Sequence[Instruction] = (),
        span: Span | None = None,
    ) -> Instruction:
        """Add an instruction and return it; its name is made unique in the module."""
        module = self.module
        inst = Instruction(
            module.new_uid(),
            module.instruction_names.unique(name or opcode.name),
            opcode,
            shape,
            tuple(operands),
            attributes,
            tuple(called),
            self,
            common,
            tuple(control_predecessors),
            (),
            span,
        )
        self.adopt(inst)
        if module.log.recording:
            module.log.record(Created, inst, self)
        return inst

    def add_copy(
        self,
        inst: Instruction,
        operands: Iterable[Instruction],
        *,
        name: str = "",
        common: CommonAttributes | None = None,
        control_predecessors: Iterable[Instruction] = (),
    ) -> Instruction:
        """Add a copy of `inst` with other operands, by default with its name and metadata."""
        module = self.module
        copy = Instruction(
            module.new_uid(),
            module.instruction_names.unique(name or inst.name),
            inst.opcode,
            inst.shape,
            tuple(operands),
            inst.attributes,
            inst.called,
            self,
            inst.common if common is None else common,
            tuple(control_predecessors),
            (),
            inst.span,
        )
        self.adopt(copy)
        if module.log.recording:
            module.log.record(Created, copy, self)
        return copy

    def adopt(self, inst: Instruction) -> None:
        """Insert an existing instruction (`clone` keeps uids this way)."""
        assert inst.computation is self
        module = self.module
        self._instructions[inst.uid] = inst
        name, opcodes = inst.opcode.name, module.opcodes
        opcodes[name] = opcodes.get(name, 0) + 1
        if inst.control_predecessors:
            self._controlled[inst.uid] = inst
        for operand in inst.operands:
            users = operand.users
            operand.users = with_user(users, inst) if users else (inst,)
        if inst.called:
            self._calling[inst.uid] = inst
            for computation in inst.called:
                computation.callers[inst] = None
        self.version += 1
        module.version += 1

    def set_root(self, inst: Instruction) -> None:
        """Make `inst` the root."""
        assert inst in self, f"{inst.name} is not in {self.name}"
        self._modified(self, "root", self._root, inst)
        self._root = inst

    def set_operands(self, inst: Instruction, operands: Iterable[Instruction]) -> None:
        """Give `inst` other operands."""
        new = tuple(operands)
        if new == inst.operands:
            return
        self._modified(inst, "operands", inst.operands, new)
        for operand in inst.operands:
            operand.users = without_user(operand.users, inst)
        inst.operands = new
        for operand in new:
            operand.users = with_user(operand.users, inst)

    def set_called(self, inst: Instruction, called: Iterable[Computation]) -> None:
        """Set the called computations of `inst`."""
        new = tuple(called)
        if new == inst.called:
            return
        self._modified(inst, "called", inst.called, new)
        for computation in inst.called:
            computation.callers.pop(inst, None)
        inst.called = new
        if bool(new) != (inst.uid in self._calling):
            self._calling = _calling(self._instructions.values())
        for computation in new:
            computation.callers[inst] = None

    def set_shape(self, inst: Instruction, shape: Shape) -> None:
        """Give `inst` another shape, which must be valid for its users."""
        if shape != inst.shape:
            self._modified(inst, "shape", inst.shape, shape)
            inst.shape = shape

    def set_attributes(self, inst: Instruction, attributes: Any) -> None:
        """Give `inst` other attributes of the same row."""
        if attributes != inst.attributes:
            self._modified(inst, "attributes", inst.attributes, attributes)
            inst.attributes = attributes

    def set_common(self, inst: Instruction, common: CommonAttributes) -> None:
        """Give `inst` other common attributes."""
        if common != inst.common:
            self._modified(inst, "common", inst.common, common)
            inst.common = common

    def set_control_predecessors(
        self, inst: Instruction, predecessors: Iterable[Instruction]
    ) -> None:
        """Give `inst` other control predecessors."""
        new = tuple(predecessors)
        if new != inst.control_predecessors:
            self._modified(inst, "control_predecessors", inst.control_predecessors, new)
            inst.control_predecessors = new
            if new:
                self._controlled[inst.uid] = inst
            else:
                self._controlled.pop(inst.uid, None)

    def rename(self, inst: Instruction, name: str) -> None:
        """Give `inst` the name `name`, made unique."""
        unique = self.module.instruction_names.unique(name)
        self._modified(inst, "name", inst.name, unique)
        inst.name = unique

    def replace(self, old: Instruction, new: Instruction) -> None:
        """Replace all uses of `old` by `new`, an equal value.

        Metadata moves to an instruction that has none, and so does the sharding of the root, which
        is that of the results; `old` stays until removed (`dce`).
        """
        assert old is not new
        assert compatible(old.shape, new.shape), f"{old!r} cannot be replaced by {new!r}"
        log = self.module.log
        if log.recording:
            log.record(Replaced, old, new)
        users = old.users
        for user in users:
            if user is not new:
                self._exchange(user, old, new)
        old.users = (new,) if new in users else ()
        if self._root is old:
            self.set_root(new)
            if old.common.sharding is not None and new.common.sharding is None:
                self.set_common(new, replace(new.common, sharding=old.common.sharding))
        if new.common.metadata is None and old.common.metadata is not None:
            self.set_common(new, new.common.with_metadata(old.common.metadata))
        self._changed()

    def _exchange(self, user: Instruction, old: Instruction, new: Instruction) -> None:
        """Make `user` use `new` instead of `old`; `replace` takes it from the users of `old`."""
        operands, log = user.operands, self.module.log
        if len(operands) < _WIDE:
            user.operands = tuple([new if operand is old else operand for operand in operands])
        else:
            if self._wide is None or self._wide.operands is not operands:
                self._wide = WideOperands(operands)
            user.operands = self._wide.exchanged(old, new)
        if log.recording:
            places = tuple([place for place, operand in enumerate(operands) if operand is old])
            log.record(OperandReplaced, user, places, old, new)
        new.users = with_user(new.users, user)

    def remove(self, inst: Instruction) -> None:
        """Remove `inst`, which has no users and is not the root."""
        assert not inst.users, f"{inst.name} still has users"
        assert self._root is not inst, f"{inst.name} is the root"
        module = self.module
        if module.log.recording:
            module.log.record(Removed, inst, self)
        for operand in inst.operands:
            operand.users = without_user(operand.users, inst)
        if inst.called:
            del self._calling[inst.uid]
            for computation in inst.called:
                computation.callers.pop(inst, None)
        del self._instructions[inst.uid]
        if inst.control_predecessors:
            del self._controlled[inst.uid]
        elif not inst.called:
            module.removals += 1
        module.uncount_opcode(inst.opcode.name)
        self.version += 1
        module.version += 1

    def reorder(self, order: Sequence[Instruction]) -> None:
        """Store the instructions in `order`, a permutation of them."""
        assert len(order) == len(self._instructions)
        self._instructions = {inst.uid: inst for inst in order}
        self._calling = _calling(order)
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self.module.version += 1

    def _modified(
        self, target: Instruction | Computation, what: str, before: Any, after: Any
    ) -> None:
        self.module.log.record(Modified, target, what, before, after)
        self._changed()


def _calling(instructions: Iterable[Instruction]) -> dict[int, Instruction]:
    return {inst.uid: inst for inst in instructions if inst.called}


def _parameters(computation: Computation) -> tuple[Instruction, ...]:
    found = [inst for inst in computation.instructions if inst.opcode.name == "parameter"]
    return tuple(sorted(found, key=attrgetter("attributes.number")))
