"""A candidate GPU kernel: its members, how often each is computed, and the estimated time.

Each member is read at some index maps (`index_maps`); members read at the same map are computed
once. A map also says along which dimension neighbouring threads read (`lanes`), which decides how
much of each memory transaction is useful.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from heapq import heapify, heappop, heappush

from hloc.analysis.cost import elements_of
from hloc.analysis.gpu_devices import DeviceSpec
from hloc.analysis.gpu_performance import (
    LAUNCH_SECONDS,
    ArrayRead,
    Pattern,
    Threads,
    operations_per_element,
    overlapped,
)
from hloc.analysis.rows import Rows
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.fusible import Role, role_of
from hloc.opt.fusion.index_maps import ROOT, IndexMaps, Maps
from hloc.opt.fusion.kernel_size import launch_count, thread_count
from hloc.opt.fusion.lanes import Lane, lane_of_operand, pattern_of, worst_lane
from hloc.opt.fusion.region import OWN_LOOPS


@dataclass(frozen=True, slots=True)
class Setting:
    """Data shared by the drafts of one computation.

    Attributes:
        positions: positions of instructions in an order with operands first.
    """

    device: DeviceSpec
    positions: Mapping[Instruction, int]


@dataclass(eq=False, slots=True)
class Draft:
    """One candidate kernel.

    Attributes:
        root: the member whose value it writes.
        indices: at which members and operands are read.
        launches: kernel launches; 0 for a view.
        members: the index maps at which each is read.
        operands: the same for arrays read from memory.
        operations: of all threads, in instructions on f32.
        made: values computed per thread, a proxy for code size.
        role: role of the root.
        results: the members that it writes to memory.
        version: incremented whenever a member joins.
    """

    root: Instruction
    setting: Setting
    indices: IndexMaps
    launches: int = 1
    role: Role = Role.LOOP
    results: tuple[Instruction, ...] = ()
    members: dict[Instruction, Maps] = field(default_factory=dict)
    operands: dict[Instruction, Maps] = field(default_factory=dict)
    operations: float = 0.0
    made: int = 0
    version: int = 0
    _read_seconds: dict[Instruction, float] = field(default_factory=dict)
    _patterns: dict[Lane | None, dict[Instruction, Pattern]] = field(default_factory=dict)
    _bandwidth: float = 0.0

    @staticmethod
    def of(root: Instruction, setting: Setting, inside: Callable[[Instruction], bool]) -> Draft:
        """Return the kernel of `root` and of the producers for which `inside` is true."""
        return Draft.of_results([root], root, None, setting, inside)

    @staticmethod
    def of_results(
        results: Sequence[Instruction],
        root: Instruction,
        rows: Rows | None,
        setting: Setting,
        inside: Callable[[Instruction], bool],
    ) -> Draft:
        """Return the kernel that writes `results` and whose threads are those of `root`."""
        role = role_of(root)
        launches = 0 if role is Role.VIEW else 1 if rows else launch_count(root)
        threads = thread_count(root)
        indices = IndexMaps(root, rows, threads, role in (Role.LOOP, Role.VIEW))
        draft = Draft(root, setting, indices, launches, role, tuple(results))
        draft._bandwidth = Threads(threads).bandwidth(setting.device)
        draft._take({result: indices.of_result(result) for result in results}, inside)
        return draft

    # ---- size

    @property
    def is_view(self) -> bool:
        """True if nothing is computed or copied."""
        return self.role is Role.VIEW

    @property
    def elements(self) -> int:
        """Elements of the result."""
        return elements_of(self.root.shape)

    # ---- time

    def seconds(self) -> float:
        """Return the time of the kernel with its launches."""
        if self.is_view and not self.operations:
            return 0.0
        return self._seconds(self.operations, sum(self._read_seconds.values()), self.made)

    def seconds_with(self, producer: Draft) -> float:
        """Return the time of the kernel if `producer`, which it reads, joins it."""
        maps = self.operands[producer.root]
        asked = sum(maps.values())
        share = asked / max(producer.elements, 1)
        memory = sum(self._read_seconds.values()) - self._read_seconds[producer.root]
        tile, own_tile = producer.indices.tile, self.indices.tile
        same_index = maps.keys() == {ROOT} and tile in (None, own_tile or tile)
        if same_index and self.indices.loops:
            patterns = producer.patterns(None)
        else:
            patterns = producer.patterns(self.indices.worst_lane(producer.root.array, maps))
        for operand, own in producer.operands.items():
            present = self.operands.get(operand, {})
            if same_index and own.keys() == {ROOT} and ROOT in present:
                continue  # the same elements that it already reads
            read = ArrayRead(
                operand.shape.size_bytes,
                operand.array.dtype.storage_bytes,
                sum(present.values()) + sum(own.values()) * share,
                patterns[operand],
            )
            memory += read.seconds(self.setting.device, self._bandwidth)
            memory -= self._read_seconds.get(operand, 0.0)
        operations = self.operations + producer.operations * share
        return self._seconds(operations, memory, self.made_with(producer))

    @property
    def write_seconds(self) -> float:
        """Time to write the results."""
        return sum(result.shape.size_bytes for result in self.results) / self._bandwidth

    def may_write(self, producer: Draft) -> bool:
        """True if the kernel needs each element of `producer` once, and could write it too."""
        if self.operands[producer.root].keys() != {ROOT}:
            return False
        rows = self.indices.rows
        if rows is not None:
            return producer.elements == rows.elements
        same = self.indices.loops and self.root.array.dims == producer.root.array.dims
        return same and self.root.opcode.name not in OWN_LOOPS

    def made_with(self, producer: Draft) -> int:
        """Return the values that one thread computes if `producer` joins."""
        return self.made + producer.made * len(self.operands[producer.root])

    def _seconds(self, operations: float, memory: float, made: int) -> float:
        device = self.setting.device
        threads = Threads(self.indices.thread_count, made)
        memory += self.write_seconds
        memory *= self._bandwidth / threads.bandwidth(device)
        compute = operations / threads.operations_per_second(device)
        return overlapped(compute, memory) + self.launches * LAUNCH_SECONDS

    # ---- members

    def absorb(self, producer: Draft) -> None:
        """Absorb all members of `producer`, which this kernel reads."""
        start = {producer.root: self.operands.pop(producer.root)}
        del self._read_seconds[producer.root]
        self._take(start, lambda inst: inst in producer.members or inst in self.members)

    def release(self, member: Instruction) -> None:
        """Remove a member without member operands; it becomes an operand."""
        self.operands[member] = self.members.pop(member)
        for operand in member.operands:
            if not any(user in self.members for user in operand.users):
                self.operands.pop(operand, None)

    def _take(self, start: dict[Instruction, Maps], inside: Callable[[Instruction], bool]) -> None:
        """Add the members of `start` at the given maps, and their producers in `inside`."""
        positions = self.setting.positions
        pending = start
        waiting = [(-positions[inst], inst.uid, inst) for inst in pending]
        heapify(waiting)
        touched: dict[Instruction, None] = {}
        while waiting:
            inst = heappop(waiting)[2]
            present = self.members.setdefault(inst, {})
            new = {m: n for m, n in pending.pop(inst).items() if m not in present}
            if not new:
                continue
            self.operations += self._operations(inst, new, is_first=not present)
            present.update(new)
            self.made += len(new)
            for place, operand in enumerate(inst.operands):
                maps = self.indices.of_operand(inst, place, new)
                if not inside(operand):
                    self.operands.setdefault(operand, {}).update(maps)
                    touched[operand] = None
                    continue
                if operand not in pending:
                    heappush(waiting, (-positions[operand], operand.uid, operand))
                pending.setdefault(operand, {}).update(maps)
        for operand in touched:
            self._read_seconds[operand] = self._seconds_to_read(operand)
        self._patterns.clear()
        self.version += 1

    def _operations(self, inst: Instruction, maps: Maps, *, is_first: bool) -> float:
        """Return the instructions of all threads for a member at new maps."""
        device = self.setting.device
        if inst.opcode.name != "reduce":
            return operations_per_element(inst, device) * sum(maps.values())
        body = sum(operations_per_element(m, device) for m in inst.called[0].instructions)
        return body * elements_of(inst.operands[0].shape) if is_first else 0.0

    def _seconds_to_read(self, operand: Instruction) -> float:
        maps = self.operands[operand]
        read = ArrayRead(
            operand.shape.size_bytes,
            operand.array.dtype.storage_bytes,
            sum(maps.values()),
            pattern_of(operand.array, self.indices.worst_lane(operand.array, maps)),
        )
        return read.seconds(self.setting.device, self._bandwidth)

    # ---- lanes

    def patterns(self, lane: Lane | None) -> dict[Instruction, Pattern]:
        """Return how threads read the operands if they read the result along `lane`.

        None is this kernel's own access, with its tiles.
        """
        if lane == self.indices.lane(ROOT) and self.indices.tile is None:
            lane = None
        if lane not in self._patterns:
            lanes = self._lanes_along(lane)
            self._patterns[lane] = {
                operand: pattern_of(operand.array, worst_lane(operand.array, lanes[operand]))
                for operand in self.operands
            }
        return self._patterns[lane]

    def _lanes_along(self, lane: Lane | None) -> dict[Instruction, set[Lane]]:
        """Return the lanes in which operands are read."""
        if lane is None:
            lane_at = self.indices.lane
            return {o: {lane_at(m) for m in maps} for o, maps in self.operands.items()}
        lanes: dict[Instruction, set[Lane]] = {self.root: {lane}}
        positions = self.setting.positions
        for inst in sorted(self.members, key=positions.__getitem__, reverse=True):
            for place, operand in enumerate(inst.operands):
                found = {lane_of_operand(inst, place, at) for at in lanes[inst]}
                lanes.setdefault(operand, set()).update(found)
        return lanes
