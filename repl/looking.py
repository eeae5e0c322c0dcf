"""Queries on the current module: neighbours, paths, costs, source places, searches."""

from __future__ import annotations

import linecache
import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hloc.analysis.cost import costs_of, instruction_cost
from hloc.analysis.diff.module_lines import Line, line_of
from hloc.analysis.kernel_count import kernel_counts
from hloc.analysis.statistics import module_statistics
from hloc.errors import HloError
from hloc.ir.computation import Computation
from hloc.ir.events import Created, Event, Modified, OperandReplaced, Replaced
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.origin import origin_of, origins_of
from hloc.ir.print_order import computation_order, instruction_order
from hloc.ir.traversal import post_order, reachable_computations
from hloc.quantities import count_text, size_text
from hloc.report.text import plural
from repl.results import Listing, Table, Tree

if TYPE_CHECKING:
    from repl.session import Session

_MOST_TREE = 200
_MOST_FOUND = 200


def grouped(instructions: Sequence[Instruction]) -> Listing:
    """Return lines of instructions under the names of their computations, in the given order."""
    groups: dict[str, list[Instruction]] = {}
    for inst in instructions:
        groups.setdefault(inst.computation.name, []).append(inst)
    return Listing(tuple((name, tuple(map(line_of, found))) for name, found in groups.items()))


def tree_of(inst: Instruction) -> Tree:
    """Return an instruction and what it depends on, each once, operands below their user."""
    rows: list[tuple[int, Line]] = []
    seen: set[Instruction] = set()
    stack = [(0, inst)]
    while stack:
        depth, here = stack.pop()
        if here in seen:
            continue
        seen.add(here)
        if len(rows) < _MOST_TREE:
            rows.append((depth, line_of(here)))
        stack.extend((depth + 1, operand) for operand in reversed(here.operands))
    return Tree(tuple(rows), len(seen) - len(rows))


def path_between(first: Instruction, last: Instruction) -> list[Instruction]:
    """Return the shortest path along users from one instruction to the other, in either direction.

    Raises:
        HloError: they are in different computations, or neither depends on the other.
    """
    if first.computation is not last.computation:
        raise HloError(
            f"{first.name} is in {first.computation.name}, {last.name} in {last.computation.name}"
        )
    found = _shortest(first, last) or _shortest(last, first)
    if not found:
        raise HloError(f"no path between {first.name} and {last.name}")
    return found


def _shortest(first: Instruction, last: Instruction) -> list[Instruction]:
    came_from: dict[Instruction, Instruction | None] = {first: None}
    queue = deque([first])
    while queue:
        inst = queue.popleft()
        if inst is last:
            found: list[Instruction] = []
            at: Instruction | None = inst
            while at is not None:
                found.append(at)
                at = came_from[at]
            return found[::-1]
        for user in inst.users:
            if user not in came_from:
                came_from[user] = inst
                queue.append(user)
    return []


def grep(module: Module, text: str) -> Listing:
    """Return the instructions whose short line matches the regular expression `text`.

    Raises:
        HloError: no regular expression, or no match.
    """
    try:
        wanted = re.compile(text)
    except re.error as fault:
        raise HloError(f"{text!r} is not a valid regular expression: {fault}") from None
    except RecursionError:
        raise HloError("the regular expression is nested too deeply") from None
    found = [inst for inst in _in_order(module) if wanted.search(line_of(inst).text())]
    if not found:
        raise HloError(f"no line matches {text!r}")
    return grouped(found)


def find_pattern(module: Module, text: str) -> Listing:
    """Return the instructions that match a pattern.

    Raises:
        HloError: no pattern, or no match.
    """
    found = module.find(text)
    if not found:
        raise HloError(f"no match for {text}")
    return grouped(found[:_MOST_FOUND])


def _in_order(module: Module) -> Iterator[Instruction]:
    for computation in computation_order(module):
        yield from instruction_order(computation)


def computations_table(module: Module, word: str) -> Table:
    """Return the computations whose names contain `word`."""
    rows = []
    for computation in computation_order(module):
        if word in computation.name:
            role = "entry" if computation is module.entry else _callers(computation)
            rows.append((computation.name, f"{len(computation):,}", role))
    if not rows:
        raise HloError(f"no computation name contains {word!r}")
    return Table("", ("computation", "count", "called by"), tuple(rows), right=(1,))


def _callers(computation: Computation) -> str:
    names = [f"{caller.name} ({caller.opcode.name})" for caller in computation.callers]
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(names[:2]) + more if names else "nothing"


def facts_of(inst: Instruction) -> Table:
    """Return the details of an instruction: shape, cost, live range, origin."""
    costs = costs_of(reachable_computations(*inst.called))
    cost = instruction_cost(inst, costs.__getitem__)
    order = post_order(inst.computation)
    place = {other: number for number, other in enumerate(order)}
    last = max((place[user] for user in inst.users), default=place[inst])
    metadata = inst.common.metadata
    rows = [
        ("shape", str(inst.shape)),
        ("size", size_text(inst.shape.size_bytes)),
        ("opcode", inst.opcode.name),
        ("computation", f"{inst.computation.name}{', its root' if inst.is_root else ''}"),
        ("operands", ", ".join(o.name for o in inst.operands) or "none"),
        ("users", _names(tuple(inst.users)) or "none"),
        ("calls", ", ".join(c.name for c in inst.called)),
        (
            "cost",
            f"{count_text(cost.flops, 'FLOP')}, "
            f"{count_text(cost.transcendentals, 'transcendental')}, {size_text(cost.bytes)} moved",
        ),
        ("live", f"instructions {place[inst]} to {last} of {len(order)}, operands first"),
        ("op_name", metadata.op_name if metadata else ""),
        ("origin", origin_of(inst)),
    ]
    shown = tuple(row for row in rows if row[1])
    return Table(line_of(inst).text(), (), shown)


def _names(insts: Sequence[Instruction]) -> str:
    more = f" and {len(insts) - 8} more" if len(insts) > 8 else ""
    return ", ".join(inst.name for inst in insts[:8]) + more


def cost_table(module: Module) -> Table:
    """Return the cost of a run and the instructions that move or compute most."""
    found = module_statistics(module)
    cost = found.cost
    title = (
        f"{count_text(cost.flops, 'FLOP')}, {count_text(cost.transcendentals, 'transcendental')}, "
        f"{size_text(cost.bytes_read)} read, {size_text(cost.bytes_written)} written, "
        f"{found.intensity:.3g} FLOP per byte, {plural(kernel_counts(module).total(), 'kernel')}"
    )
    costs = costs_of(reachable_computations(module.entry))
    own = {i: instruction_cost(i, costs.__getitem__) for i in module.entry.instructions}
    order = sorted(own.items(), key=lambda pair: (-pair[1].flops - pair[1].bytes, pair[0].name))
    rows = tuple(
        (
            inst.name,
            inst.opcode.name,
            inst.shape.text_without_layout[:40],
            count_text(c.flops + c.transcendentals, "").strip(),
            size_text(c.bytes),
        )
        for inst, c in order[:12]
        if c.flops or c.bytes
    )
    heads = ("instruction", "opcode", "shape", "FLOP", "bytes")
    return Table(title, heads, rows, right=(3, 4))


def source_table(inst: Instruction) -> Table:
    """Return the Python stack of an instruction, with the source lines if the files exist.

    Raises:
        HloError: the text has no source location for it.
    """
    places = origins_of(inst) or ((origin_of(inst),) if origin_of(inst) else ())
    if not places:
        raise HloError(f"{inst.name} has no source location")
    return Table(line_of(inst).text(), (), tuple((place, _code(place)) for place in places))


def _code(place: str) -> str:
    """Return the line of code at `train.py:31 in loss`, "" if there is no such file here."""
    found = re.match(r"(.+):(\d+)", place)
    if found is None or not os.path.isfile(found[1]):
        return ""
    return linecache.getline(found[1], int(found[2])).strip()


def blame_table(session: Session, name: str) -> Table:
    """Return the pass and rule behind each part of an instruction."""
    inst = session.find(name)
    changes: dict[str, tuple[str, str]] = {}
    for state in session.lineage():
        for event in state.events:
            for part in _parts_of(event, inst):
                changes[part] = (state.label, event.by)
    first = next((by for part, by in changes.items() if part == "instruction"), ("s0", "load"))
    rows = [("opcode", inst.opcode.name, *changes.get("opcode", first))]
    rows.append(("shape", str(inst.shape), *changes.get("shape", first)))
    for number, operand in enumerate(inst.operands):
        rows.append((f"operand {number}", operand.name, *changes.get(f"operand {number}", first)))
    if inst.attributes is not None:
        rows.append(("attributes", "", *changes.get("attributes", first)))
    return Table(line_of(inst).text(), ("part", "now", "state", "by"), tuple(rows))


def _parts_of(event: Event, inst: Instruction) -> Iterator[str]:
    """Yield which parts of `inst` an event has set."""
    if isinstance(event, Created) and event.inst.uid == inst.uid:
        yield "instruction"
    if isinstance(event, OperandReplaced) and event.user.uid == inst.uid:
        yield from (f"operand {place}" for place in event.places)
    if isinstance(event, Replaced) or not isinstance(event, Modified):
        return
    if event.target.uid != inst.uid or isinstance(event.target, Computation):
        return
    if event.field != "operands":
        yield event.field
        return
    for number, operand in enumerate(event.after):
        if number >= len(event.before) or event.before[number].uid != operand.uid:
            yield f"operand {number}"
