"""A candidate fusion: its members, how often each is computed, and its operands.

For each member the group knows the index maps at which it is read, starting from the root's own
index. Members read at the same map are computed once, as in the kernel emitter.
"""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple, TypeAlias

from hloc.analysis.cost import elements_of
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.folding import works_per_element

IndexMap: TypeAlias = int
"""Number of an index map within its group; 0 is the index of the root."""


class Reads(NamedTuple):
    """The number of elements read at one index map.

    Attributes:
        asked: one for each element of the reader.
        computed: without those that are invariant in the innermost loop, which LLVM hoists.
    """

    asked: int
    computed: int

    def times(self, factor: int) -> Reads:
        return Reads(self.asked * factor, self.computed * factor)


Maps: TypeAlias = dict[IndexMap, Reads]

ROOT_INDEX: IndexMap = 0
SCALAR: IndexMap = -1
"""The index map of arrays with one element: computed once, outside loops."""

_ONCE: Maps = {SCALAR: Reads(1, 1)}

_ROOTS_WITH_LOOPS_OF_THEIR_OWN = frozenset({"concatenate", "dynamic-update-slice", "scatter"})
"""Their kernels loop over an operand, not over the result."""


@dataclass(eq=False, slots=True)
class Group:
    """Members of one fusion.

    Attributes:
        root: the member that nothing else in the fusion reads; decides its loops.
        maps: for each member, its index maps and the number of elements read at each.
        operands: arrays that the members read from outside.
        outputs: members whose values are used outside, `root` first.
    """

    root: Instruction
    maps: dict[Instruction, Maps] = field(default_factory=dict)
    operands: dict[Instruction, None] = field(default_factory=dict)
    outputs: list[Instruction] = field(default_factory=list)
    _numbers: dict[object, IndexMap] = field(default_factory=dict)

    @staticmethod
    def of(root: Instruction) -> Group:
        """Return a group of `root` alone."""
        count = elements_of(root.shape)
        group = Group(root, {root: {ROOT_INDEX: Reads(count, count)}})
        group.operands.update(dict.fromkeys(root.operands))
        group.outputs.append(root)
        return group

    def reads(self, user: Instruction, producer: Instruction) -> Maps:
        """Return the index maps at which member `user` reads `producer`, with element counts.

        The result must not be changed.
        """
        if elements_of(producer.shape) == 1:
            return _ONCE
        maps = self.maps[user]
        if works_per_element(user):
            return maps
        found: Maps = {}
        for place, operand in enumerate(user.operands):
            if operand is producer:
                found.update(self._reads(user, place, maps))
        return found

    def _reads(self, user: Instruction, place: int, maps: Maps) -> Maps:
        """Return the maps at which `user`, itself read at `maps`, reads operand `place`."""
        if user is self.root and user.opcode.name in _ROOTS_WITH_LOOPS_OF_THEIR_OWN:
            count = _reads_by_root(user, place)
            return {self._number((0, *read_law(user, place))): Reads(count, count)}
        if user.opcode.name == "broadcast" and _repeats_innermost(user):
            return {
                self._number((index_map, *read_law(user, place))): _before_loop(reads, user)
                for index_map, reads in maps.items()
            }
        factor = _reads_per_element(user, place)
        return {
            self._number((index_map, *read_law(user, place))): reads.times(factor)
            for index_map, reads in maps.items()
        }

    def _number(self, key: object) -> IndexMap:
        return self._numbers.setdefault(key, len(self._numbers) + 1)

    def join(self, member: Instruction, reads: Maps) -> None:
        """Add `member`, which is read at `reads`."""
        self.maps[member] = reads
        self.operands.pop(member, None)
        for operand in member.operands:
            if operand not in self.maps:
                self.operands[operand] = None

    def leave(self, member: Instruction) -> None:
        """Remove `member`, which has no member operands; it becomes an operand."""
        del self.maps[member]
        self.operands[member] = None
        for operand in member.operands:
            if not any(user in self.maps for user in operand.users):
                self.operands.pop(operand, None)


def _repeats_innermost(broadcast: Instruction) -> bool:
    """True if the new dimensions are the minor ones."""
    dims = broadcast.attributes.dimensions
    plain = broadcast.array.layout is None and broadcast.operands[0].array.layout is None
    return plain and dims == tuple(range(len(dims)))


def _before_loop(reads: Reads, broadcast: Instruction) -> Reads:
    source, result = elements_of(broadcast.operands[0].shape), elements_of(broadcast.shape)
    return Reads(reads.asked, max(1, reads.computed * source // result))


def _reads_by_root(root: Instruction, place: int) -> int:
    """Return how many elements of operand `place` the root reads."""
    if root.opcode.name == "scatter" and place == 1:
        return elements_of(root.operands[2].shape)
    return elements_of(root.operands[place].shape)


def _reads_per_element(user: Instruction, place: int) -> int:
    name = user.opcode.name
    operand = user.operands[place]
    if name == "reduce":
        return max(1, elements_of(operand.shape) // elements_of(user.shape))
    if name == "gather" and place == 1:
        return max(1, len(user.attributes.start_index_map))
    return 1


def read_law(user: Instruction, place: int) -> tuple[object, ...]:
    """Return a key of the index map from `user` to operand `place`."""
    name = user.opcode.name
    if name in ("broadcast", "reshape", "transpose", "reverse", "slice", "reduce"):
        operand = user.operands[place]
        shape = operand.shape.text_without_layout.partition("[")[2]  # any element type
        return name, user.attributes, shape
    return name, user.uid, place
