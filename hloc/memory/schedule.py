"""Instruction schedules.

The order determines live ranges: copies run as late as possible, readers of an array before its
in-place writer, and new loop state is written last.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, islice
from types import MappingProxyType
from typing import Literal, TypeAlias

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.dataflow import analyse_dataflow, forwards
from hloc.analysis.in_place import may_overwrite, overwritten_operands
from hloc.analysis.memory_order import depth_first_order, greedy_order
from hloc.analysis.memory_peak import MemoryFacts, memory_facts, no_scratch, peak_of
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ShapeIndex

_SEARCH_BUDGET = 200_000
"""Budget of visited instructions per computation for moving readers before writers."""

_MAX_READERS = 64
"""Arrays with more readers are skipped; ordering them would cost more than a copy."""


Order: TypeAlias = tuple[Instruction, ...]

Heuristic = Literal["post-order", "depth-first", "greedy"]
HEURISTICS: tuple[Heuristic, ...] = ("post-order", "depth-first", "greedy")

_MAX_INSTRUCTIONS = 100_000
"""A computation with more keeps its post order."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Schedules of the entry and of all computations run by control flow."""

    orders: Mapping[Computation, Order]

    def order(self, computation: Computation) -> Order:
        """Return the instructions of `computation` in the order they run."""
        return self.orders[computation]

    def __iter__(self) -> Iterator[Computation]:
        return iter(self.orders)


def schedules(
    module: Module,
    scratch_bytes: Callable[[Instruction], int] = no_scratch,
    heuristics: Sequence[Heuristic] = HEURISTICS,
) -> list[Schedule]:
    """Return the best schedule, then those of single heuristics that differ from it.

    The best one takes, per computation, the heuristic order with the lowest peak of live bytes, the
    first one on a tie. A module marked `is_scheduled` keeps its order except for late copies.
    Expects `copy-insertion`. Cost: O(n log n) in the instructions.

    Args:
        module: not changed.
        scratch_bytes: scratch bytes that an instruction needs while it runs.
        heuristics: to choose from.
    """
    dataflow = analyse_dataflow(module)
    peaks: dict[Computation, int] = {}
    best: dict[Computation, Order] = {}
    single: dict[Heuristic, dict[Computation, Order]] = {h: {} for h in heuristics}
    for computation in control_flow_computations(module):  # callees come first
        facts = memory_facts(computation, dataflow, peaks, scratch_bytes)
        found = _orders(computation, facts, heuristics)
        different = tuple(dict.fromkeys(found.values()))
        sizes = [peak_of(order, facts, may_overwrite).size_bytes for order in different]
        peaks[computation] = min(sizes)
        best[computation] = different[sizes.index(min(sizes))]
        for heuristic, order in found.items():
            single[heuristic][computation] = order
    different_orders: list[dict[Computation, Order]] = []
    for orders in (best, *single.values()):
        if orders not in different_orders:
            different_orders.append(orders)
    return [Schedule(MappingProxyType(orders)) for orders in different_orders]


def _orders(
    computation: Computation, facts: MemoryFacts, heuristics: Sequence[Heuristic]
) -> dict[Heuristic, Order]:
    """Return the order of `computation` by each heuristic."""
    base = _base_order(computation)
    final = _final_copies(computation)
    readers = _readers_of_overwritten(base, final)
    is_free = not computation.module.config.is_scheduled and len(base) <= _MAX_INSTRUCTIONS
    if not is_free or not facts.sizes:
        return dict.fromkeys(heuristics, _finished(base, final, readers))
    found: dict[Heuristic, Order] = {}
    finished: dict[Order, Order] = {}
    for heuristic in heuristics:
        start = tuple(_order_by(heuristic, base, facts))
        if start not in finished:
            finished[start] = _finished(start, final, readers)
        found[heuristic] = finished[start]
    return found


def _order_by(
    heuristic: Heuristic, base: list[Instruction], facts: MemoryFacts
) -> list[Instruction]:
    if heuristic == "depth-first":
        return depth_first_order(base)
    return greedy_order(base, facts) if heuristic == "greedy" else base


def store_schedule(module: Module, schedule: Schedule) -> None:
    """Put the instructions of `module` in the order of `schedule` and mark it as scheduled."""
    for computation in schedule:
        computation.reorder(schedule.order(computation))
    module.set_config(replace(module.config, is_scheduled=True))


def _finished(
    base: Sequence[Instruction],
    final: dict[Instruction, int],
    readers: dict[Instruction, list[Instruction]],
) -> Order:
    """Return `base` with copies late and readers before writers."""
    return _ordered(base, _ranks(base, final), _readers_before_writers(base, readers))


def _base_order(computation: Computation) -> list[Instruction]:
    if computation.module.config.is_scheduled:
        return _stored_order(computation)
    return post_order(computation)


def _stored_order(computation: Computation) -> list[Instruction]:
    """Return the stored order; an instruction added later goes right before its first user."""
    stored = {inst: i for i, inst in enumerate(computation.instructions)}
    ranks: dict[Instruction, Rank] = {}
    for inst in reversed(post_order(computation)):
        first = min((ranks[user][0] for user in inst.users), default=len(stored))
        ranks[inst] = (min(stored[inst], first), 0, stored[inst])
    return list(_ordered(list(stored), ranks, {}))


Rank = tuple[int, int, int]
"""Position of the anchor, 1 for the anchor and 0 for what moves before it, base position."""


def _ranks(base: Sequence[Instruction], final: dict[Instruction, int]) -> dict[Instruction, Rank]:
    """Return sort keys that put copies and forwarding instructions before their first user."""
    ranks: dict[Instruction, Rank] = {}
    for place in range(len(base) - 1, -1, -1):
        inst = base[place]
        if inst in final:
            ranks[inst] = (len(base), final[inst], place)
        elif _waits(inst) and inst.users:
            first = min(ranks[user] for user in inst.users)
            ranks[inst] = (first[0], min(first[1], 0), place)
        else:
            ranks[inst] = (place, 1, place)
    return ranks


def _waits(inst: Instruction) -> bool:
    is_group = inst.opcode.nop and bool(inst.operands)
    return is_group or inst.is_a("copy", "parameter") or forwards(inst)


def _final_copies(computation: Computation) -> dict[Instruction, int]:
    """Return the root and the copies that only feed it, maybe by bitcasts; they run last."""
    root = computation.root
    found = {root: 2} if _is_final(root) and not root.users else {}
    stack = [root] if root in found else []
    while stack:
        inst = stack.pop()
        if inst.is_a("copy"):
            continue
        for operand in inst.operands:
            if _is_final(operand) and all(user in found for user in operand.users):
                if operand not in found:
                    stack.append(operand)
                found[operand] = 1
    return found


def _is_final(inst: Instruction) -> bool:
    return inst.is_a("tuple", "copy") or (inst.is_a("bitcast") and forwards(inst))


def _readers_of_overwritten(
    base: Sequence[Instruction], final: dict[Instruction, int]
) -> dict[Instruction, list[Instruction]]:
    """Return, per instruction that could overwrite an operand, the other readers of that operand.

    The final copies are left out, since they must stay last.
    """
    kept = _kept_parameters(base[0].computation.module)
    parts = cache(_parts)
    updates = _updates_of_state(final)
    found: dict[Instruction, list[Instruction]] = {}
    for writer in base:
        numbers = (*overwritten_operands(writer), *updates.get(writer, ()))
        users = chain.from_iterable(_readers(writer.operands[n], kept, parts) for n in numbers)
        others = (user for user in users if user is not writer and user not in final)
        readers = list(islice(others, _MAX_READERS + 1))
        if 0 < len(readers) <= _MAX_READERS:
            found[writer] = list(dict.fromkeys(readers))
    return found


def _readers_before_writers(
    base: Sequence[Instruction], readers: dict[Instruction, list[Instruction]]
) -> dict[Instruction, list[Instruction]]:
    """Return, per writer, those of its `readers` that can run before it.

    Readers that depend on the writer are left out, since they keep the old value live anyway.
    """
    before: dict[Instruction, list[Instruction]] = {}
    after: dict[Instruction, list[Instruction]] = {}
    for inst in base:
        for predecessor in inst.control_predecessors:
            after.setdefault(predecessor, []).append(inst)
    budget = _SEARCH_BUDGET
    for writer in base:
        if writer not in readers:
            continue
        later = _depends_on(writer, after, budget)
        if later is None:
            break
        budget -= len(later)
        before[writer] = [reader for reader in readers[writer] if reader not in later]
        for reader in before[writer]:
            after.setdefault(reader, []).append(writer)
    return before


def _updates_of_state(
    final: dict[Instruction, int],
) -> dict[Instruction, list[int]]:
    """Return the instructions that update loop state, and the operand with the old state.

    An update in place needs no copy if all other readers of the old state run before it.
    """
    found: dict[Instruction, list[int]] = {}
    for copy in final:
        if not copy.is_a("copy"):
            continue
        inst = copy.operands[0]
        index: ShapeIndex = ()
        if inst.is_a("get-tuple-element"):
            inst, index = inst.operands[0], (inst.attributes.index,)
        for number, operand in enumerate(inst.operands):
            is_state = operand.is_a("get-tuple-element") and operand.operands[0].is_a("parameter")
            if is_state and may_overwrite(inst, number, index):
                found.setdefault(inst, []).append(number)
    return found


def _kept_parameters(module: Module) -> frozenset[Instruction]:
    """Return the entry parameters that no output may alias."""
    config = module.config
    given = {alias.parameter for alias in config.aliases}
    given.update(number for number, _ in config.buffer_donors)
    return frozenset(p for p in module.entry.parameters if p.attributes.number not in given)


def _parts(inst: Instruction) -> dict[int, list[Instruction]]:
    """Return the `get-tuple-element` users of the tuple `inst`, by tuple index."""
    found: dict[int, list[Instruction]] = {}
    for user in inst.users:
        if user.is_a("get-tuple-element"):
            found.setdefault(user.attributes.index, []).append(user)
    return found


def _readers(
    inst: Instruction,
    kept: frozenset[Instruction],
    parts: Callable[[Instruction], dict[int, list[Instruction]]],
) -> Iterator[Instruction]:
    """Yield the users of the array `inst`, through forwarding instructions.

    Control flow that has the array in a tuple is a user. Nothing may overwrite a constant or the
    parameters `kept`, so their readers do not matter.
    """
    source = inst
    while forwards(source):
        source = source.operands[0]
    if source in kept or source.is_a("constant"):
        return
    if source.is_a("get-tuple-element"):
        stack = list(parts(source.operands[0])[source.attributes.index])
    else:
        stack = [source]
    seen: set[Instruction] = set(stack)
    while stack:
        for user in stack.pop().users:
            if user in seen:
                continue
            seen.add(user)
            if forwards(user):
                stack.append(user)
            elif user.is_a("tuple"):
                yield from (reader for reader in user.users if reader.opcode.control_flow)
            else:
                yield user


def _depends_on(
    writer: Instruction, after: dict[Instruction, list[Instruction]], budget: int
) -> set[Instruction] | None:
    """Return what must run after `writer`: its users and those in `after`; None over the budget."""
    found = {writer}
    stack = [writer]
    while stack:
        inst = stack.pop()
        for later in (*inst.users, *after.get(inst, ())):
            if later not in found:
                found.add(later)
                stack.append(later)
        if len(found) > budget:
            return None
    return found


def _ordered(
    base: Sequence[Instruction],
    ranks: dict[Instruction, Rank],
    before: dict[Instruction, list[Instruction]],
) -> Order:
    """Return `base` in order of rank as far as dependencies allow."""
    waiting: dict[Instruction, int] = {}
    followers: dict[Instruction, list[Instruction]] = {}
    for inst in base:
        needed = dict.fromkeys((*inst.operands, *inst.control_predecessors, *before.get(inst, ())))
        waiting[inst] = len(needed)
        for other in needed:
            followers.setdefault(other, []).append(inst)
    ready = [(ranks[inst], inst.uid, inst) for inst in base if not waiting[inst]]
    heapq.heapify(ready)
    order: list[Instruction] = []
    while ready:
        inst = heapq.heappop(ready)[2]
        order.append(inst)
        for follower in followers.get(inst, ()):
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, (ranks[follower], follower.uid, follower))
    assert len(order) == len(base), "cyclic control dependencies"
    return tuple(order)
