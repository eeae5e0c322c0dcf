"""Rematerialise arrays until peak memory fits in a limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import ClassVar, Literal

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.cost import Cost, computation_cost, instruction_cost
from hloc.analysis.dataflow import Dataflow, Position, analyse_dataflow, forwards, nonempty_leaves
from hloc.analysis.in_place import may_overwrite
from hloc.analysis.memory_order import depth_first_order, greedy_order
from hloc.analysis.memory_peak import MemoryFacts, memory_facts, peak_of
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order
from hloc.lazy_dataclass import dataclass
from hloc.opt.calls.flatten_call_graph import FlattenCallGraph
from hloc.opt.pass_base import PassContext
from hloc.shapes import ArrayShape, ShapeIndex

_MAX_RECIPE = 8
"""Limit on the instructions recomputed for one array."""

_MAX_ROUNDS = 200
_MAX_VISITS = 4_000_000
"""Limit on the instructions visited over all rounds."""

_MAX_ROUNDS_WITHOUT_GAIN = 4

_SLOW = frozenset({"sort", "cholesky", "triangular-solve", "rng-bit-generator"})
"""Opcodes that are too slow to recompute."""


@dataclass(frozen=True, slots=True)
class HloRematerialization:
    """Rematerialise arrays until peak memory fits in `memory-limit-bytes`.

    Starts at the peak of the schedule. An array that is live there but read only later may be freed
    and recomputed right before its later users, with up to seven of its producers, if their
    operands are live anyway. The cheapest per byte go first, until the peak is below the limit;
    then the next peak, in called computations too. Exact: the same instructions on the same
    operands. Leaves a scheduled module, since the estimate holds for that order; run it last. A
    module below the limit is not changed. The estimate includes in-place results, but not scratch
    memory of kernels, fragmentation, or temporaries placed in outputs. Cost: O(instructions) per
    round, at most 200 rounds.

    Source of the idea: the pass of this name in OpenXLA, read as a reference.

    Attributes:
        memory_limit_bytes: for temporaries, outputs and constants together; 0 does nothing.
    """

    name: ClassVar[str] = "hlo-rematerialization"
    memory_limit_bytes: int = 0

    def run(self, module: Module, context: PassContext) -> bool:
        """Rematerialise until the module fits or nothing helps; a remark says which."""
        if not self.memory_limit_bytes or context.spent:
            return False
        limit = max(0, self.memory_limit_bytes - _fixed_bytes(module))
        changed = FlattenCallGraph().run(module, context)
        work = _Work(module, context)
        before = work.measure()
        if before <= limit:
            return changed
        work.reduce(limit)
        text = f"temporaries {before} bytes, now {work.best} bytes, limit {limit} bytes"
        kind: Literal["passed", "missed"] = "passed" if work.best <= limit else "missed"
        context.remark(kind, self.name, module.entry.root, text)
        if work.done:
            work.store_order()
        return changed or work.done > 0


def _fixed_bytes(module: Module) -> int:
    """Return the bytes of outputs and constants."""
    constants = sum(
        inst.shape.size_bytes
        for computation in control_flow_computations(module)
        for inst in computation.instructions
        if inst.is_a("constant")
    )
    return constants + sum(s.size_bytes for _, s in nonempty_leaves(module.entry.root.shape))


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An array to free.

    Attributes:
        recipe: instructions to recompute, operands first; the last one is the array.
        uses: late readers, each with the forwarding instructions in between.
        relies_on: arrays that must be kept, since the recipe reads them.
        freed: bytes saved at the peak.
    """

    recipe: tuple[Instruction, ...]
    uses: tuple[tuple[Instruction, tuple[Instruction, ...]], ...]
    relies_on: frozenset[Position]
    freed: int
    cost: int

    @property
    def position(self) -> Position:
        return self.recipe[-1], ()


@dataclass(slots=True)
class _Work:
    """One run of the pass; `orders` are kept consistent with the module."""

    module: Module
    context: PassContext
    orders: dict[Computation, list[Instruction]] = field(default_factory=dict)
    facts: dict[Computation, MemoryFacts] = field(default_factory=dict)
    peaks: dict[Computation, int] = field(default_factory=dict)
    best: int = 0
    done: int = 0
    _costs: dict[Computation, Cost] = field(default_factory=dict)
    _dataflow: Dataflow | None = None

    def measure(self) -> int:
        """Return the peak bytes of temporaries; schedules computations without an order."""
        dataflow = self._dataflow = analyse_dataflow(self.module)
        for computation in control_flow_computations(self.module):
            facts = memory_facts(computation, dataflow, self.peaks)
            if computation not in self.orders:
                self.orders[computation] = self._best_order(computation, facts)
            self.facts[computation] = facts
            order = self.orders[computation]
            self.peaks[computation] = peak_of(order, facts, may_overwrite).size_bytes
        return self.peaks[self.module.entry]

    def _best_order(self, computation: Computation, facts: MemoryFacts) -> list[Instruction]:
        base = post_order(computation)
        orders = (base, depth_first_order(base), greedy_order(base, facts))
        return min(orders, key=lambda o: peak_of(o, facts, may_overwrite).size_bytes)

    def reduce(self, limit: int) -> None:
        """Free arrays round by round until the peak is at most `limit` or nothing helps."""
        self.best = self.peaks[self.module.entry]
        rounds = min(_MAX_ROUNDS, 1 + _MAX_VISITS // max(1, self.module.instruction_count))
        idle = 0
        for _ in range(rounds):
            if not self._round(limit):
                return
            now = self.measure()
            idle = 0 if now < self.best else idle + 1
            self.best = min(self.best, now)
            if self.best <= limit or idle >= _MAX_ROUNDS_WITHOUT_GAIN or self.context.spent:
                return

    def _round(self, limit: int) -> bool:
        """Lower the peak, in the entry or in what runs at it; True if anything changed."""
        computation = self.module.entry
        while True:
            facts, order = self.facts[computation], self.orders[computation]
            peak = peak_of(order, facts, may_overwrite)
            chosen = self._choose(computation, peak.at, peak.size_bytes - limit)
            if chosen:
                self._apply(computation, chosen)
                return True
            called = [c for c in order[peak.at].called if c in self.peaks]
            if not called:
                return False
            inner = facts.inner.get(order[peak.at], 0)
            limit = max(0, limit - (peak.size_bytes - inner))
            computation = max(called, key=lambda c: self.peaks[c])

    # ---- choosing arrays

    def _choose(self, computation: Computation, at: int, excess: int) -> list[_Candidate]:
        """Return the cheapest candidates that together free `excess` bytes, or all of them."""
        view = _View(computation, self.orders[computation], self.facts[computation], at, self)
        found = sorted(
            view.candidates(), key=lambda c: (c.cost / c.freed, view.place[c.recipe[-1]])
        )
        chosen: list[_Candidate] = []
        picked: set[Position] = set()
        relied: set[Position] = set()
        for candidate in found:
            if excess <= 0:
                break
            if candidate.position in relied or candidate.relies_on & picked:
                continue
            chosen.append(candidate)
            picked.add(candidate.position)
            relied |= candidate.relies_on
            excess -= candidate.freed
        return chosen

    def cost_of(self, inst: Instruction) -> int:
        """Return operations and bytes of computing `inst` again."""
        cost = instruction_cost(inst, self._cost_of_computation)
        return cost.flops + 4 * cost.transcendentals + cost.bytes

    def _cost_of_computation(self, computation: Computation) -> Cost:
        found = self._costs.get(computation)
        if found is None:
            found = computation_cost(computation, self._cost_of_computation)
            self._costs[computation] = found
        return found

    def source(self, inst: Instruction, index: ShapeIndex) -> Position:
        """Return the position that first holds leaf `index` of `inst`."""
        assert self._dataflow is not None
        return self._dataflow.source(inst, index)

    # ---- rewriting

    def _apply(self, computation: Computation, chosen: list[_Candidate]) -> None:
        before: dict[Instruction, list[Instruction]] = {}
        place = {inst: i for i, inst in enumerate(self.orders[computation])}
        for candidate in chosen:
            if self.context.spent:
                break
            with self.context.rewriting(self.module, HloRematerialization.name):
                copies = _recompute(computation, candidate)
            first = min((user for user, _ in candidate.uses), key=place.__getitem__)
            before.setdefault(first, []).extend(copies)
            self.done += 1
        order: list[Instruction] = []
        for inst in self.orders[computation]:
            order += before.get(inst, ())
            order.append(inst)
        self.orders[computation] = [inst for inst in order if inst in computation]

    def store_order(self) -> None:
        """Store the order that was assumed, and mark the module as scheduled."""
        for computation in self.module.computations:
            order = self.orders.get(computation)
            computation.reorder(post_order(computation) if order is None else order)
        self.module.set_config(replace(self.module.config, is_scheduled=True))


def _recompute(computation: Computation, candidate: _Candidate) -> list[Instruction]:
    """Copy the recipe for the late readers; return the copies, in order."""
    copies: dict[Instruction, Instruction] = {}
    for inst in candidate.recipe:
        copies[inst] = _copy(computation, inst, copies)
    copied = list(copies.values())
    for user, chain in candidate.uses:
        for inst in chain:
            if inst not in copies:
                copies[inst] = _copy(computation, inst, copies)
                copied.append(copies[inst])
        last = chain[-1] if chain else candidate.recipe[-1]
        computation.set_operands(user, [copies[last] if o is last else o for o in user.operands])
    for _, chain in candidate.uses:
        for inst in reversed(chain):
            if inst in computation and not inst.users and not inst.is_root:
                computation.remove(inst)
    return copied


def _copy(
    computation: Computation, inst: Instruction, copies: Mapping[Instruction, Instruction]
) -> Instruction:
    operands = [copies.get(operand, operand) for operand in inst.operands]
    return computation.add_copy(inst, operands, name=f"{inst.name}.remat")


class _View:
    """One computation at its peak."""

    def __init__(
        self,
        computation: Computation,
        order: list[Instruction],
        facts: MemoryFacts,
        at: int,
        work: _Work,
    ) -> None:
        self.facts, self.at, self.work = facts, at, work
        self.order = order
        self.place = {inst: i for i, inst in enumerate(order)}
        self.last = {p: i for i, inst in enumerate(order) for p in facts.reads[inst]}
        self.controlled = {
            i for user in computation.controlled for i in (user, *user.control_predecessors)
        }

    def candidates(self) -> list[_Candidate]:
        """Return the arrays that are live but unused at the peak, and can be recomputed later."""
        needed_now = self.facts.reads[self.order[self.at]]
        found = []
        for inst in self.order[: self.at]:
            position = (inst, ())
            if position not in self.facts.sizes or self.last.get(position, 0) <= self.at:
                continue
            if position in needed_now or not self._may_repeat(inst):
                continue
            candidate = self._candidate(inst)
            if candidate is not None and candidate.freed > 0:
                found.append(candidate)
        return found

    def _may_repeat(self, inst: Instruction) -> bool:
        return not (
            not inst.opcode.has_kernel
            or inst.opcode.side_effect
            or inst.opcode.exchange is not None
            or inst.is_a("custom-call", "copy-start", *_SLOW)
            or inst in self.controlled
            or not isinstance(inst.shape, ArrayShape)
            or inst.shape.dynamic
        )

    def _candidate(self, inst: Instruction) -> _Candidate | None:
        uses = self._late_uses(inst)
        if not uses:
            return None
        first = min(self.place[user] for user, _ in uses)
        recipe, relied, kept = self._recipe(inst, first)
        size = self.facts.sizes[inst, ()]
        cost = sum(map(self.work.cost_of, recipe))
        return _Candidate(tuple(recipe), tuple(uses), frozenset(relied), size - kept, cost)

    def _late_uses(
        self, inst: Instruction
    ) -> list[tuple[Instruction, tuple[Instruction, ...]]] | None:
        """Return the readers after the peak; None if one of them cannot use a copy."""
        found: list[tuple[Instruction, tuple[Instruction, ...]]] = []
        stack: list[tuple[Instruction, tuple[Instruction, ...]]] = [(inst, ())]
        while stack:
            holder, chain = stack.pop()
            for user in holder.users:
                if user.is_a("tuple") or (forwards(user) and not self._is_name(user)):
                    return None
                if forwards(user):
                    stack.append((user, (*chain, user)))
                elif self.place[user] > self.at:
                    found.append((user, chain))
        return found

    def _is_name(self, inst: Instruction) -> bool:
        """True for an alias of an array, such as a bitcast, that is free to copy."""
        return (
            len(inst.operands) == 1
            and isinstance(inst.shape, ArrayShape)
            and isinstance(inst.operands[0].shape, ArrayShape)
            and not inst.is_root
            and inst not in self.controlled
        )

    def _recipe(
        self, inst: Instruction, first: int
    ) -> tuple[list[Instruction], set[Position], int]:
        """Return the instructions to recompute for `inst` at position `first`.

        Also the live arrays that they read, and the bytes kept alive only for them.
        """
        recipe: dict[Instruction, None] = {inst: None}
        relied: set[Position] = set()
        kept: dict[Position, int] = {}
        stack = [inst]
        while stack:
            for operand in dict.fromkeys(stack.pop().operands):
                for index, _ in nonempty_leaves(operand.shape):
                    source = self.work.source(operand, index)
                    size = self.facts.sizes.get(source)
                    if size is None or operand in recipe:
                        continue  # not a temporary, or recomputed as well
                    if self.last.get(source, 0) >= first:
                        relied.add(source)
                    elif (
                        operand is source[0]
                        and len(recipe) < _MAX_RECIPE
                        and self._is_cheap(operand)
                    ):
                        recipe[operand] = None
                        stack.append(operand)
                    else:
                        relied.add(source)
                        if self.last.get(source, 0) <= self.at:
                            kept[source] = size
        ordered = sorted(recipe, key=self.place.__getitem__)
        return ordered, relied, sum(kept.values())

    def _is_cheap(self, inst: Instruction) -> bool:
        """True if computing `inst` costs about as much as reading it from memory."""
        return self._may_repeat(inst) and not inst.is_a("dot", "convolution", "fft", "scatter")
