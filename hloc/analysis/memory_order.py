"""Schedules of a computation with a small peak of live bytes, by XLA's heuristics.

None of them is best for all modules; callers try all and keep the best.
Source of the heuristics: the memory schedulers of OpenXLA, read as a reference.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from hloc.analysis.memory_peak import MemoryFacts
from hloc.ir.instruction import Instruction
from hloc.shapes import ArrayShape

_MOST = 1 << 62


def depth_first_order(base: Sequence[Instruction]) -> list[Instruction]:
    """Return a post order that visits first the operands with many users and large subtrees.

    Args:
        base: any order with operands first; it breaks ties. Cost: O(n log n).
    """
    weight: dict[Instruction, tuple[int, int]] = {}
    for inst in base:
        users = max(0, len(inst.users) - 1)
        size = inst.shape.size_bytes if isinstance(inst.shape, ArrayShape) else 0
        for operand in dict.fromkeys(inst.operands):
            below = weight[operand]
            users, size = users + below[0], size + below[1]
        weight[inst] = (min(users, _MOST), min(size, _MOST))
    place = {inst: i for i, inst in enumerate(base)}

    def first(inst: Instruction) -> list[Instruction]:
        needed = dict.fromkeys((*inst.operands, *inst.control_predecessors))
        return sorted(needed, key=lambda i: (*weight[i], -place[i]))  # popped from the end

    order: list[Instruction] = []
    done: set[Instruction] = set()
    ends = [inst for inst in base if not inst.users]
    for root in (*(inst for inst in ends if not inst.is_root), *ends):
        stack = [(root, first(root))]
        while stack:
            inst, waiting = stack[-1]
            if inst in done:
                stack.pop()
            elif waiting:
                following = waiting.pop()
                if following not in done:
                    stack.append((following, first(following)))
            else:
                stack.pop()
                done.add(inst)
                order.append(inst)
    return order


def greedy_order(base: Sequence[Instruction], facts: MemoryFacts) -> list[Instruction]:
    """Return the list schedule that always takes the instruction that frees most bytes.

    Args:
        base: any order with operands first; it breaks ties. Cost: O(n log n).
        facts: the memory facts of the computation.
    """
    place = {inst: i for i, inst in enumerate(base)}
    readers: dict[object, dict[Instruction, None]] = {}
    for inst in base:
        for position in facts.reads[inst]:
            readers.setdefault(position, {})[inst] = None
    waiting: dict[Instruction, int] = {}
    followers: dict[Instruction, list[Instruction]] = {}
    for inst in base:
        needed = dict.fromkeys((*inst.operands, *inst.control_predecessors))
        waiting[inst] = len(needed)
        for other in needed:
            followers.setdefault(other, []).append(inst)

    def entry(inst: Instruction) -> tuple[int, int, int, Instruction]:
        freed = sum(facts.sizes[p] for p in facts.reads[inst] if len(readers[p]) == 1)
        defined_bytes = sum(facts.sizes[p] for p in facts.makes.get(inst, ()))
        return defined_bytes - freed, -len(inst.users), place[inst], inst

    current = {inst: entry(inst) for inst in base if not waiting[inst]}
    ready = list(current.values())
    heapq.heapify(ready)
    order: list[Instruction] = []
    while ready:
        found = heapq.heappop(ready)
        inst = found[3]
        if current.get(inst) is not found:
            continue  # its rank has improved since, or it has run
        del current[inst]
        order.append(inst)
        changed = []
        for position in facts.reads[inst]:
            left = readers[position]
            del left[inst]
            if len(left) == 1:
                changed += [i for i in left if i in current]
        for follower in followers.get(inst, ()):
            waiting[follower] -= 1
            if not waiting[follower]:
                changed.append(follower)
        for other in dict.fromkeys(changed):
            current[other] = entry(other)
            heapq.heappush(ready, current[other])
    return order
