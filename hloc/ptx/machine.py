"""Runs blocks of a kernel: groups of lanes that share a program position, the smallest first.

A position is a tuple: the numbers of the calling blocks, outermost first, then the block to run
next. Running the smallest position lets diverged lanes reconverge: loops wait for their last lane,
and a function finishes before its caller continues. Lanes wait at barriers and warp-level
instructions until all lanes that take part have arrived.
"""

from __future__ import annotations

import numpy as np

from hloc.ptx.barriers import Barriers
from hloc.ptx.clocks import WarpClocks
from hloc.ptx.code import (
    BlockBarrier,
    Branch,
    Call,
    Code,
    Fall,
    IndexedBranch,
    Leave,
    PhaseWait,
    WarpCollective,
)
from hloc.ptx.faults import LaneFault, PtxFault
from hloc.ptx.gathering import WarpGathering
from hloc.ptx.lanes import WARPGROUP, Lanes, chosen, count_of, numbers_of, union
from hloc.ptx.product_registers import Accesses
from hloc.ptx.program import Instruction
from hloc.ptx.threads import Threads

Place = tuple[int, ...]
_PATIENCE = 1 << 12  # rounds after which later lanes run, for which others may wait


class Machine:
    """One run of some blocks of a kernel."""

    def __init__(
        self, code: Code, threads: Threads, clocks: WarpClocks | None, step_limit: int | None
    ) -> None:
        self.code = code
        self.threads = threads
        self.steps = 0
        self.thread_instructions = 0
        self._step_limit = step_limit
        self._groups: dict[Place, Lanes] = {}
        self._place: Place = (0,)
        self._asleep: list[tuple[Place, Lanes]] = []  # at mbarriers
        self._completions = 0  # of phases of mbarriers, at the last check of the sleepers
        self._barriers = Barriers(threads.geometry, clocks)
        self._gathering = WarpGathering(threads.geometry)

    def run(self) -> None:
        """Run until every thread has exited.

        Raises:
            PtxFault: a fault of the kernel, with its position.
        """
        groups = self._groups
        groups[(0,)] = self.threads.geometry.start()
        rounds = 0
        while groups:
            rounds += 1
            place = min(groups) if len(groups) > 1 else next(iter(groups))
            if rounds % _PATIENCE == 0:
                place = max(groups)
            self._run_block(place, groups.pop(place))
            if self._asleep and self.threads.mbarriers.completions != self._completions:
                self._wake()
            if not groups and not self._let_a_copy_arrive():
                self._check_all_left()
                self._check_all_products()

    def _run_block(self, place: Place, lanes: Lanes) -> None:
        """Run one block for the lanes at `place`; a fault is given its line and thread."""
        self._place = place
        threads = self.threads
        block = self.code.blocks[place[-1]]
        threads.active = lanes
        done = 0
        if block.accesses:
            self._check_products(block.accesses, lanes)
        try:
            for operation in block.operations:
                operation(threads, lanes)
                done += 1
            self._end(place, lanes)
        except LaneFault as fault:
            raise self._fault(fault.what, done, self._lane(fault)) from None
        count = len(block.instructions)
        self.steps += count
        threads.clock += count
        self.thread_instructions += count * count_of(lanes)
        if threads.metrics is not None:
            threads.metrics.count_block(place[-1], count_of(lanes))
        if self._step_limit is not None and self.steps > self._step_limit:
            lane = int(numbers_of(lanes)[0])
            raise self._fault(f"no end after {self._step_limit} steps", done - 1, lane)

    def _check_products(self, accesses: Accesses, lanes: Lanes) -> None:
        """Fault if lanes access registers of a wgmma product before the wait for it."""
        stride = self.threads.geometry.stride
        numbers = numbers_of(lanes)
        for first in np.unique(numbers - numbers % stride % WARPGROUP):
            found = self.threads.products.check(int(first), accesses)
            if found is not None:
                position, what = found
                raise self._fault(what, position, int(first))

    def _lane(self, fault: LaneFault) -> int:
        if fault.lane is None:
            return int(numbers_of(self.threads.active)[0])
        return int(numbers_of(self.threads.active)[fault.lane])

    def _fault(self, what: str, position: int, lane: int, place: Place = ()) -> PtxFault:
        instructions = self.code.blocks[(place or self._place)[-1]].instructions
        at = max(0, min(position, len(instructions) - 1))
        return self._fault_of(what, instructions[at] if instructions else None, lane)

    def _fault_of(self, what: str, instruction: Instruction | None, lane: int) -> PtxFault:
        geometry = self.threads.geometry
        return PtxFault(
            what,
            kernel=self.code.kernel.name,
            line=instruction.line if instruction else 0,
            text=instruction.text if instruction else "",
            block=geometry.block_of(lane),
            thread=geometry.thread_of(lane),
        )

    def _add(self, place: Place, lanes: Lanes | None) -> None:
        if lanes is None:
            return
        present = self._groups.get(place)
        self._groups[place] = lanes if present is None else union(present, lanes)

    def _split(
        self, lanes: Lanes, row: int | None, negated: bool
    ) -> tuple[Lanes | None, Lanes | None]:
        """Return the lanes whose guard holds, and the others."""
        if row is None:
            return lanes, None
        mask = self.threads.rows[row][lanes]
        taken = np.count_nonzero(mask)
        if taken == len(mask):
            return (None, lanes) if negated else (lanes, None)
        if not taken:
            return (lanes, None) if negated else (None, lanes)
        if negated:
            mask = ~mask
        return chosen(lanes, mask), chosen(lanes, ~mask)

    def _end(self, place: Place, lanes: Lanes) -> None:
        """Send the lanes to the block that follows, by how this one ends."""
        end = self.code.blocks[place[-1]].end
        following = (*place[:-1], place[-1] + 1)
        if isinstance(end, Fall):
            self._add(following, lanes)
            return
        taken, others = self._split(lanes, end.row, end.negated)
        self._add(following, others)
        if taken is None:
            return
        self.threads.active = taken
        if isinstance(end, Branch):
            self._add((*place[:-1], end.target), taken)
        elif isinstance(end, WarpCollective):
            self._collective(end, place, following, taken)
        elif isinstance(end, BlockBarrier):
            for after, released in self._barriers.arrive(end, self.threads, following, taken):
                self._add(after, released)
        elif isinstance(end, Leave):
            self._leave(end, place, taken)
        elif isinstance(end, PhaseWait):
            self._wait_for_phase(end, place, following, taken)
        elif isinstance(end, Call):
            end.before(self.threads, taken)
            self._add((*place, end.target), taken)
        else:
            self._indexed(end, place, taken)

    def _leave(self, end: Leave, place: Place, lanes: Lanes) -> None:
        if end.whole or len(place) < 2:
            return
        caller = self.code.blocks[place[-2]].end
        assert isinstance(caller, Call)
        caller.after(self.threads, lanes)
        self._add((*place[:-2], place[-2] + 1), lanes)

    def _indexed(self, end: IndexedBranch, place: Place, lanes: Lanes) -> None:
        index = self.threads.rows[end.index][lanes]
        if int(index.max()) >= len(end.targets):
            raise LaneFault("brx.idx with an index beyond its targets", int(index.argmax()))
        for i, target in enumerate(end.targets):
            self._add((*place[:-1], target), chosen(lanes, index == i))

    def _collective(
        self, end: WarpCollective, place: Place, following: Place, lanes: Lanes
    ) -> None:
        for ready in self._gathering.gather(end, self.threads, place, lanes):
            self.threads.active = ready
            end.operation(self.threads, ready)
            self._add(following, ready)

    def _wait_for_phase(self, end: PhaseWait, place: Place, following: Place, lanes: Lanes) -> None:
        threads = self.threads
        phases = threads.rows[end.phase][lanes]
        over = threads.mbarriers.passed(
            threads, lanes, end.address(threads, lanes), phases, end.by_parity
        )
        through, waiting = chosen(lanes, over), chosen(lanes, ~over)
        if through is not None:
            threads.rows[end.target][through] = True
            self._add(following, through)
        if waiting is not None:
            self._asleep.append((place, waiting))

    def _wake(self) -> None:
        """Let all lanes that wait for a phase check again."""
        self._completions = self.threads.mbarriers.completions
        self.threads.mbarriers.forget_waits()
        asleep, self._asleep = self._asleep, []
        for place, lanes in asleep:
            self._add(place, lanes)

    def _let_a_copy_arrive(self) -> bool:
        """Complete bulk copies until a thread can continue; return whether one can."""
        mbarriers = self.threads.mbarriers
        try:
            while not self._groups and mbarriers.finish_a_copy(self.threads):
                if mbarriers.completions != self._completions:
                    self._wake()
        except LaneFault as fault:
            raise self._fault_of(fault.what, fault.instruction, self._lane(fault)) from None
        return bool(self._groups)

    def _check_all_products(self) -> None:
        """Fault if a warpgroup exited without waiting for a wgmma that it issued."""
        forgotten = self.threads.products.forgotten()
        if forgotten is not None:
            lane, instruction = forgotten
            raise self._fault_of("no thread waits for this product", instruction, lane)

    def _check_all_left(self) -> None:
        """Fault if no thread can run but some still wait."""
        stuck = self._gathering.stuck(self.threads)
        if stuck is not None:
            place, lane, what = stuck
            raise self._fault(what, len(self.code.blocks[place[-1]].instructions), lane, place)
        if self._asleep:
            place, lanes = self._asleep[0]
            what = "waits for a phase of an mbarrier that never ends"
            raise self._fault(what, 0, int(numbers_of(lanes)[0]), place)
        waiting = self._barriers.stuck()
        if waiting is not None:
            following, lane, what = waiting
            place = (*following[:-1], following[-1] - 1)
            raise self._fault(what, len(self.code.blocks[place[-1]].instructions), lane, place)
