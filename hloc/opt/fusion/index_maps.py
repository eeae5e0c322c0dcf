"""Index maps at which the members of a GPU kernel are read, and their lanes.

An index map gives the index of a read element as a function of the root's index. Maps
are numbered in order of discovery; reads with equal numbers read the same elements.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import TypeAlias

from hloc.analysis.cost import elements_of
from hloc.analysis.rows import Rows
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.folding import works_per_element
from hloc.opt.fusion.group import read_law
from hloc.opt.fusion.kernel_size import reads_per_element
from hloc.opt.fusion.lanes import UNIFORM, Lane, fastest, lane_of_operand, worst_lane
from hloc.shapes import ArrayShape

IndexMap: TypeAlias = int
Maps: TypeAlias = dict[IndexMap, float]
"""Number of elements read at each index map."""

ROOT: IndexMap = 0
SCALAR: IndexMap = 1
"""The map of the root, and that of arrays with a single element."""

_UPDATES = ("dynamic-update-slice", "scatter")
"""As roots these loop over their operands."""


@dataclass(eq=False, slots=True)
class IndexMaps:
    """The index maps of one kernel.

    Attributes:
        root: the member whose index all others derive from.
        rows: the rows of a row-wise kernel, which computes each element of a row once.
        thread_count: threads of its largest launch.
        loops: the kernel loops over the elements of its result.
        tile: the dimension of the root along which tiles are read, if it transposes.
    """

    root: Instruction
    rows: Rows | None
    thread_count: float
    loops: bool
    tile: Lane | None = None
    _numbers: dict[object, IndexMap] = field(default_factory=dict)
    _lanes: list[Lane] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Set the lanes of the two maps that all kernels have."""
        self._lanes = [self._root_lane(), UNIFORM]

    def lane(self, index_map: IndexMap) -> Lane:
        """Return along which dimension neighbouring threads read at a map."""
        return self._lanes[index_map]

    def worst_lane(self, shape: ArrayShape, maps: Iterable[IndexMap]) -> Lane:
        """Return the lane of several maps in which reading an array takes longest."""
        return worst_lane(shape, [self._lanes[index_map] for index_map in maps])

    def of_result(self, result: Instruction) -> Maps:
        """Return the map of a result; results of other sizes have separate maps."""
        count = elements_of(result.shape)
        if self.rows is None:
            if result.shape == self.root.shape or not isinstance(result.shape, ArrayShape):
                return {ROOT: count}
            return {self._number(result.shape, fastest(result.shape)): count}
        if count == self.rows.elements:
            return {ROOT: count}
        return {self._number("a row", UNIFORM): count}

    def of_operand(self, user: Instruction, place: int, maps: Maps) -> Maps:
        """Return at which maps `user`, itself read at `maps`, reads operand `place`."""
        operand = user.operands[place]
        if elements_of(operand.shape) == 1:
            return {SCALAR: self.thread_count}
        if works_per_element(user) or user.is_a("get-tuple-element"):
            return maps
        if user is self.root and user.opcode.name in _UPDATES:
            count = min(elements_of(operand.shape), elements_of(user.operands[-1].shape))
            count = count if place else elements_of(operand.shape)
            return self._all_of(user, place, count)
        if user.opcode.name == "reduce":  # computed once, before its result is used
            return self._all_of(user, place, elements_of(operand.shape))
        factor = reads_per_element(user, place)
        rows = self.rows
        if rows and elements_of(operand.shape) == rows.count < elements_of(user.shape):
            factor = self.thread_count / elements_of(user.shape)  # each thread once for its row
        return {
            self._number((m, read_law(user, place)), self._lane(user, place, m)): asked * factor
            for m, asked in maps.items()
        }

    def _all_of(self, user: Instruction, place: int, count: int) -> Maps:
        """Return the map at which a loop reads an operand in memory order."""
        if self.rows is not None and count == self.rows.elements:
            return {ROOT: float(count)}
        lane = fastest(user.operands[place].array)
        return {self._number((ROOT, read_law(user, place)), lane): float(count)}

    def _number(self, key: object, lane: Lane) -> IndexMap:
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._lanes)
            self._lanes.append(lane)
        return found

    # ---- lanes

    def _root_lane(self) -> Lane:
        if self.rows is not None:
            return fastest(self.root.operands[0].array)
        return fastest(self.root.array) if isinstance(self.root.shape, ArrayShape) else UNIFORM

    def _lane(self, user: Instruction, place: int, index_map: IndexMap) -> Lane:
        operand = user.operands[place].array
        if user is self.root and user.opcode.name == "reduce-window":
            return fastest(operand)
        lane = self._lanes[index_map]
        if index_map == ROOT and self.loops and user.is_a("transpose", "copy"):
            return self._lane_of_tile(user, operand, lane)
        return lane_of_operand(user, place, lane)

    def _lane_of_tile(self, user: Instruction, operand: ArrayShape, written: Lane) -> Lane:
        """Return the lane in which a transposed array is read: its own if it goes through tiles."""
        minor = fastest(operand)
        if minor < 0:
            return UNIFORM
        read = minor if user.is_a("copy") else user.attributes.dimensions.index(minor)
        if read == written:
            return minor
        if user.array.dims != self.root.array.dims or self.tile not in (None, read):
            return lane_of_operand(user, 0, written)
        self.tile = read
        return minor
