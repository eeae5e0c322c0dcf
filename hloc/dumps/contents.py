"""Huge constants, unrolled loops, collectives and custom calls of a compiled module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hloc.analysis.network.collective_cost import exchange_of, members, operand_bytes
from hloc.analysis.network.collective_reason import reason_of
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.origin import origin_of
from hloc.ir.traversal import live_computations
from hloc.lazy_dataclass import dataclass

HUGE_BYTES = 16 << 10
"""Minimum size of a constant that is listed."""

UNROLLED_PRODUCTS, UNROLLED = 8, 64
"""Minimum number of equal instructions of one source line that count as an unrolled loop."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A large constant; `source` is the line of its first reader if it has none itself."""

    name: str
    shape: str
    size_bytes: int
    readers: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Unrolled:
    """Equal instructions from one line of the program."""

    opcode: str
    shape: str
    count: int
    source: str


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective.

    Attributes:
        size_bytes: size of the operands on each device.
        members: number of devices in the largest group.
        needed_by: the instruction that needs it.
    """

    opcode: str
    name: str
    size_bytes: int
    members: int
    needed_by: str
    source: str


def large_constants(module: Module) -> tuple[Constant, ...]:
    """Return the constants of at least `HUGE_BYTES`, largest first."""
    rows = []
    for inst in _instructions(module):
        if inst.is_a("constant") and inst.shape.size_bytes >= HUGE_BYTES:
            readers = [*inst.users, *inst.computation.callers]
            source = next(filter(None, map(origin_of, (inst, *readers))), "")
            text = inst.shape.text_without_layout
            names = tuple(user.name for user in inst.users)
            rows.append(Constant(inst.name, text, inst.shape.size_bytes, names, source))
    return tuple(sorted(rows, key=lambda row: -row.size_bytes))


def constant_bytes(module: Module) -> int:
    """Return the bytes of all constants."""
    return sum(inst.shape.size_bytes for inst in _instructions(module) if inst.is_a("constant"))


def unrolled_loops(module: Module) -> tuple[Unrolled, ...]:
    """Return the lines of the program with many equal instructions, one row for each line."""
    counts: Counter[tuple[str, str, str, bool]] = Counter()
    for inst in _instructions(module):
        source = origin_of(inst)
        if source and inst.opcode.has_kernel and not inst.opcode.data_movement:
            shape, is_product = inst.shape.text_without_layout, bool(inst.opcode.contraction)
            counts[source, inst.opcode.name, shape, is_product] += 1
    lines: dict[str, Unrolled] = {}
    for (source, opcode, shape, is_product), count in counts.most_common():
        if count >= (UNROLLED_PRODUCTS if is_product else UNROLLED):
            lines.setdefault(source, Unrolled(opcode, shape, count, source))
    return tuple(lines.values())


def loop_count(module: Module) -> int:
    """Return how many `while` instructions the module has."""
    return sum(inst.is_a("while") for inst in _instructions(module))


def collectives(module: Module) -> tuple[Collective, ...]:
    """Return the collectives, most bytes first."""
    rows = []
    for inst in _instructions(module):
        exchange = exchange_of(inst)
        callers = inst.computation.callers
        if exchange is None or any(caller.is_a("async-start") for caller in callers):
            continue
        size = operand_bytes(exchange)
        needed = reason_of(inst, ()).needed_by
        group = members(exchange)
        rows.append(Collective(inst.opcode.name, inst.name, size, group, needed, origin_of(inst)))
    return tuple(sorted(rows, key=lambda row: -row.size_bytes))


def custom_calls(module: Module) -> dict[str, int]:
    """Return how often each target is called, most frequent first."""
    counts: Counter[str] = Counter()
    for inst in _instructions(module):
        if inst.is_a("custom-call"):
            counts[inst.attributes.custom_call_target] += 1
    return dict(counts.most_common())


def _instructions(module: Module) -> Iterator[Instruction]:
    for computation in live_computations(module):
        yield from computation.instructions
