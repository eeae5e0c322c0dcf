"""Which instruction of one module is which of another, when they share no history.

The stages, most certain first, each propagated to neighbours: equal expressions; parameters and
roots; equal surroundings, from wide to narrow; equal names; then neighbours and leftovers that
merely resemble each other, and what replaced an instruction of another opcode. Every stage visits
each
instruction a bounded number of times: 20,000 take two seconds. After the stages of GumTree
(Falleri et al., ASE 2014) and of XLA's hlo_diff.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import field

from hloc.analysis.diff.fingerprints import Fingerprints
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.print_order import instruction_order
from hloc.lazy_dataclass import dataclass

_RADII = (3, 2, 1)
"""Radii of the surroundings of an instruction, widest first."""

_MANY = 64
"""Maximum number of users, and of operands, that are used to match neighbours."""

Key = Callable[[Instruction], Hashable]


@dataclass(eq=False, slots=True)
class ModuleMatch:
    """Pairs of a match, from the old module to the new and back."""

    instructions: dict[Instruction, Instruction] = field(default_factory=dict)
    computations: dict[Computation, Computation] = field(default_factory=dict)
    back: dict[Instruction, Instruction] = field(default_factory=dict)
    computations_back: dict[Computation, Computation] = field(default_factory=dict)

    def pair(self, old: Instruction, new: Instruction) -> None:
        """Match two instructions, neither of which is matched yet."""
        assert old not in self.instructions
        assert new not in self.back
        self.instructions[old] = new
        self.back[new] = old

    def is_free(self, old: Instruction, new: Instruction) -> bool:
        """True if both may still be matched."""
        return old not in self.instructions and new not in self.back


def match_modules(old: Module, new: Module, *, layouts: bool = True) -> ModuleMatch:
    """Return the instructions and computations of `new` that correspond to those of `old`.

    Args:
        old: any module.
        new: any other module.
        layouts: whether instructions that differ in layout only are different.
    """
    found = Fingerprints(layouts)
    found.add(old)
    found.add(new)
    match = ModuleMatch()
    waiting: deque[tuple[Computation, Computation]] = deque()

    def pair(a: Computation, b: Computation) -> None:
        if a not in match.computations and b not in match.computations_back:
            match.computations[a] = b
            match.computations_back[b] = a
            waiting.append((a, b))

    def match_waiting() -> None:
        while waiting:
            a, b = waiting.popleft()
            _Matcher(found, match, a, b).run()
            for inst in a.instructions:
                other = match.instructions.get(inst)
                others = other.called if other else ()
                for called, other_called in zip(inst.called, others, strict=False):
                    pair(called, other_called)

    pair(old.entry, new.entry)
    match_waiting()
    for same in (found.computations.__getitem__, lambda c: c.name):
        free = [c for c in new.computations if c not in match.computations_back]
        for a, b in _in_order(_free(old.computations, match.computations), free, same):
            pair(a, b)
        match_waiting()
    _match_moved(found, match, old, new)
    return match


def _free(
    computations: Iterable[Computation], taken: dict[Computation, Computation]
) -> list[Computation]:
    return [c for c in computations if c not in taken]


def _in_order(
    old: Iterable[Computation], new: Iterable[Computation], key: Callable[[Computation], Hashable]
) -> Iterator[tuple[Computation, Computation]]:
    """Yield pairs with equal keys in order: the first with the first, and so on."""
    by_key: dict[Hashable, deque[Computation]] = {}
    for computation in new:
        by_key.setdefault(key(computation), deque()).append(computation)
    for computation in old:
        others = by_key.get(key(computation))
        if others:
            yield computation, others.popleft()


def _is_common(inst: Instruction) -> bool:
    """True for instructions too common to be recognised as moved between computations."""
    return inst.opcode.nop or inst.is_a("broadcast")


def _match_moved(found: Fingerprints, match: ModuleMatch, old: Module, new: Module) -> None:
    """Match the rest across computations, if it is the only one of its kind."""
    before = [
        inst
        for computation in old.computations
        for inst in computation.instructions
        if inst not in match.instructions and not _is_common(inst)
    ]
    after = [
        inst
        for computation in new.computations
        for inst in computation.instructions
        if inst not in match.back and not _is_common(inst)
    ]
    keys: tuple[Key, ...] = (
        lambda inst: (found.local[inst], inst.name),
        lambda inst: (found.local[inst], inst.op_name),
        found.local.__getitem__,
    )
    for key in keys:
        for a, b in _unique_pairs(match, before, after, key):
            match.pair(a, b)


def _unique_pairs(
    match: ModuleMatch, old: Iterable[Instruction], new: Iterable[Instruction], key: Key
) -> Iterator[tuple[Instruction, Instruction]]:
    """Yield the free instructions whose key is unique in both modules."""
    sides: list[dict[Hashable, Instruction | None]] = []
    for side, taken in ((old, match.instructions), (new, match.back)):
        by_key: dict[Hashable, Instruction | None] = {}
        for inst in side:
            if inst not in taken:
                it = key(inst)
                by_key[it] = None if it in by_key else inst
        sides.append(by_key)
    for it, one in sides[0].items():
        other = sides[1].get(it)
        if one is not None and other is not None:
            yield one, other


@dataclass(eq=False, slots=True)
class _Matcher:
    """The stages for one pair of computations.

    `sure` and `vague` hold matched pairs whose neighbours are still to be visited: first
    for equal ones, then for those of the same opcode.
    """

    found: Fingerprints
    match: ModuleMatch
    old: Computation
    new: Computation
    sure: deque[tuple[Instruction, Instruction]] = field(default_factory=deque)
    vague: deque[tuple[Instruction, Instruction]] = field(default_factory=deque)

    def run(self) -> None:
        """Match what can be matched."""
        local = self.found.local
        self._expressions()
        for a, b in zip(self.old.parameters, self.new.parameters, strict=False):
            self._try(a, b)
        if self.old.root.opcode is self.new.root.opcode:
            self._try(self.old.root, self.new.root)
        self._spread(sure_only=True)
        for key in self._surroundings():
            self._unique(key)
        self._unique(lambda inst: (local[inst], inst.name))
        self._unique(local.__getitem__)
        self._spread(sure_only=False)
        self._unique(lambda inst: (inst.opcode.name, inst.name))
        for similar in (
            local.__getitem__,
            lambda inst: (inst.opcode.name, inst.shape, inst.op_name or inst),
            lambda inst: (inst.opcode.name, inst.op_name or inst),
        ):
            self._leftovers(similar)
        self._other_opcodes()

    def _expressions(self) -> None:
        """Match equal expressions, unique ones first, largest first."""
        exact = self.found.exact
        old = list(reversed(instruction_order(self.old)))
        new = list(reversed(instruction_order(self.new)))
        for a, b in _unique_pairs(self.match, old, new, exact.__getitem__):
            self._try(a, b)
        self._operands_of_equals()
        self._zip(old, new, lambda inst: (exact[inst], inst.name))
        self._operands_of_equals()
        self._zip(old, new, exact.__getitem__)

    def _operands_of_equals(self) -> None:
        """Match the operands of equal expressions, which are equal too."""
        exact = self.found.exact
        stack = list(self.sure)
        while stack:
            a, b = stack.pop()
            for x, y in zip(a.operands, b.operands, strict=False):
                if exact[x] == exact[y] and self._try(x, y):
                    stack.append((x, y))

    def _zip(self, old: Iterable[Instruction], new: Iterable[Instruction], key: Key) -> None:
        """Match free instructions of one key in order."""
        by_key: dict[Hashable, deque[Instruction]] = {}
        for inst in new:
            if inst not in self.match.back:
                by_key.setdefault(key(inst), deque()).append(inst)
        for inst in old:
            others = by_key.get(key(inst)) if inst not in self.match.instructions else None
            if others:
                self._try(inst, others.popleft())

    def _leftovers(self, key: Key) -> None:
        self._zip(instruction_order(self.old), instruction_order(self.new), key)
        self._spread(sure_only=False)

    def _other_opcodes(self) -> None:
        """Match an instruction with its replacement: same operands, same users."""
        there = self.match.instructions
        keys: dict[Instruction, Hashable] = {}
        for inst in self.old.instructions:
            if inst not in there:
                around = [there.get(other) for other in (*inst.operands, *inst.users)]
                operands, users = around[: len(inst.operands)], around[len(inst.operands) :]
                known = None not in around
                keys[inst] = (tuple(operands), frozenset(users), inst.is_root) if known else inst
        for inst in self.new.instructions:
            if inst not in self.match.back:
                keys[inst] = (inst.operands, frozenset(inst.users), inst.is_root)
        old, new = self.old.instructions, self.new.instructions
        for a, b in list(_unique_pairs(self.match, old, new, keys.__getitem__)):
            self.match.pair(a, b)

    def _unique(self, key: Key) -> None:
        pairs = _unique_pairs(self.match, self.old.instructions, self.new.instructions, key)
        for a, b in list(pairs):
            self._try(a, b)
        self._spread(sure_only=True)

    def _surroundings(self) -> Iterator[Key]:
        """Yield keys of the surroundings, widest first (Weisfeiler-Leman colours)."""
        number, both = self.found.number, (*self.old.instructions, *self.new.instructions)
        rounds = [self.found.local]
        for _ in range(max(_RADII)):
            last = rounds[-1]
            rounds.append(
                {
                    inst: number(
                        (
                            "around",
                            last[inst],
                            tuple(last[o] for o in inst.operands),
                            tuple(sorted(last[u] for u in inst.users)),
                        )
                    )
                    for inst in both
                }
            )
        for radius in _RADII:
            yield rounds[radius].__getitem__

    def _try(self, a: Instruction, b: Instruction) -> bool:
        """Match `a` and `b` if both are free, and queue their neighbours."""
        if a.opcode is not b.opcode or not self.match.is_free(a, b):
            return False
        self.match.pair(a, b)
        self.sure.append((a, b))
        return True

    def _spread(self, sure_only: bool) -> None:
        """Match the neighbours of matched pairs, and theirs in turn."""
        local = self.found.local
        while self.sure or (self.vague and not sure_only):
            if self.sure:
                pair = self.sure.popleft()
                self.vague.append(pair)
                self._neighbours(*pair, local.__getitem__)
            else:
                self._neighbours(*self.vague.popleft(), lambda inst: inst.opcode.name)

    def _neighbours(self, a: Instruction, b: Instruction, key: Key) -> None:
        for x, y in zip(a.operands, b.operands, strict=False):
            if x.computation is self.old and self.match.is_free(x, y) and key(x) == key(y):
                self._try(x, y)
        if 0 < len(a.users) <= _MANY and 0 < len(b.users) <= _MANY:
            keys = {user: (key(user), _place(a, user)) for user in a.users}
            keys.update({user: (key(user), _place(b, user)) for user in b.users})
            for x, y in list(_unique_pairs(self.match, a.users, b.users, keys.__getitem__)):
                self._try(x, y)


def _place(operand: Instruction, user: Instruction) -> int:
    """Return the number of `operand` among the operands of `user`, -1 if there are too many."""
    return user.operands.index(operand) if len(user.operands) <= _MANY else -1
