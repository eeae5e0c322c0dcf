"""Differences of two compilations: of one program with other flags, or of two programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields

from hloc.analysis.diff.file_diff import config_text, table_of_modules
from hloc.analysis.diff.module_hash import HashOptions, module_hash
from hloc.dumps.examine import CONTENT, Examined, Findings, examine
from hloc.dumps.folder import DumpModule
from hloc.dumps.unfused import Unfused
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.quantities import size_text
from hloc.report.text import plural

SAME_PROGRAM = "the same program"
_MOST_ARRAYS = 8
_ABOUT_DUMPS = "xla_dump_"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference, and what it means.

    Attributes:
        what: `kernels`, `traffic`, `memory`, `flags` ...
        text: a sentence with both values.
        why: why it matters, "" if `text` is enough.
        rows: details.
    """

    what: str
    text: str
    why: str = ""
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two compilations.

    Attributes:
        old, new: names of the modules.
        program: comparison of the modules before the first pass, "" if a dump has none.
        same: True if the last modules are equal.
        differences: most important first.
        files: the last modules, for `hloc diff`.
        unreadable: files that could not be read.
    """

    old: str
    new: str
    program: str
    same: bool
    differences: tuple[Difference, ...]
    files: tuple[str, str]
    unreadable: tuple[tuple[str, str], ...]


def compare(
    old: DumpModule, new: DumpModule, on_file: Callable[[str], None] = lambda name: None
) -> Comparison:
    """Read two modules of dumps and return their differences."""
    sides = examine(old, on_file), examine(new, on_file)
    a, b = (side.findings for side in sides)
    last = [side.last for side in sides]
    same = all(last) and len({module_hash(m) for m in last if m is not None}) == 1
    program = _program(sides[0].first, sides[1].first)
    found = list(_differences(*sides, same=same, same_program=program == SAME_PROGRAM))
    paths = [side.stages[-1].path for side in (old, new)]
    unreadable = (*a.unreadable, *b.unreadable)
    return Comparison(
        old.name, new.name, program, same, tuple(found), (paths[0], paths[1]), unreadable
    )


def _program(old: Module | None, new: Module | None) -> str:
    """Return the comparison of two modules before the first pass."""
    if old is None or new is None:
        return ""
    options = (
        (SAME_PROGRAM, HashOptions()),
        ("the same program but for constants", HashOptions(constants=False)),
        ("the same program but for shapes", HashOptions(shapes=False)),
        (
            "the same program but for shapes and constants",
            HashOptions(shapes=False, constants=False),
        ),
    )
    for text, option in options:
        if module_hash(old, option) == module_hash(new, option):
            return text
    return f"different programs: {table_of_modules(old, new, CONTENT).summary()}"


def _differences(
    old: Examined, new: Examined, *, same: bool, same_program: bool
) -> Iterator[Difference]:
    """Yield the differences: flags, header, kernels, traffic, memory, then their reasons.

    If the optimised modules are the `same`, only flags, header and memory can differ.
    """
    a, b = old.findings, new.findings
    yield from _flags(a.flags, b.flags)
    if old.last is not None and new.last is not None:
        yield from _header(old.last, new.last)
        if not same:
            yield from _kernels(a, b)
            yield from _traffic(a, b, same_program)
    yield from _memory(a, b)
    if same:
        return
    yield from _inserted(a, b)
    yield from _unfused(a.unfused, b.unfused)
    yield from _constants(a, b)
    yield from _collectives(a, b)
    yield from _custom_calls(a, b)
    yield from _passes(a, b)


def _flags(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Difference]:
    names = [name for name in dict.fromkeys((*old, *new)) if not name.startswith(_ABOUT_DUMPS)]
    rows = tuple(
        (name, f"{old.get(name, 'default')} -> {new.get(name, 'default')}")
        for name in sorted(names)
        if old.get(name) != new.get(name)
    )
    if rows:
        yield Difference("flags", plural(len(rows), "option"), "which may explain the rest", rows)


def _header(old: Module, new: Module) -> Iterator[Difference]:
    rows = []
    for field in fields(old.config):
        before, after = (config_text(module, field.name) for module in (old, new))
        if before != after:
            rows.append((field.name, f"{before or 'none'} -> {after or 'none'}"))
    if rows:
        yield Difference("header", plural(len(rows), "field"), "", tuple(rows))


def _kernels(a: Findings, b: Findings) -> Iterator[Difference]:
    if a.kernels == b.kernels or a.after is None or b.after is None:
        return
    changes = _count_changes(Counter(a.kernels), Counter(b.kernels))
    text = f"{a.after.kernels:,} -> {b.after.kernels:,}: {changes}"
    yield Difference("kernels", text, "each is started alone and passes arrays through memory")


def _traffic(a: Findings, b: Findings, same_program: bool) -> Iterator[Difference]:
    """Yield the differences in bytes and operations; more for one program is recomputation."""
    if a.after is None or b.after is None:
        return
    old, new = a.after.cost, b.after.cost
    if old.bytes != new.bytes:
        share = f" ({(new.bytes - old.bytes) / old.bytes:+.1%})" if old.bytes else ""
        text = (
            f"{size_text(old.bytes)} -> {size_text(new.bytes)}{share} read and written by kernels"
        )
        yield Difference("traffic", text, "a kernel that computes little is as slow as its memory")
    for what, before, after in (
        ("operations", old.flops, new.flops),
        ("transcendentals", old.transcendentals, new.transcendentals),
    ):
        if before != after:
            why = "values are computed again in several fusions"
            text = f"{before:,} -> {after:,}"
            yield Difference(what, text, why if same_program and after > before else "")


def _memory(a: Findings, b: Findings) -> Iterator[Difference]:
    if a.memory is None or b.memory is None:
        return
    old, new = a.memory, b.memory
    if old.total_bytes == new.total_bytes and old.by_kind == new.by_kind:
        return
    rows = tuple(
        (kind, f"{size_text(size)} -> {size_text(new.by_kind[kind])}")
        for kind, size in old.by_kind.items()
        if size != new.by_kind[kind]
    )
    text = f"{size_text(old.total_bytes)} -> {size_text(new.total_bytes)}"
    if old.peak_bytes is not None and new.peak_bytes is not None:
        text += f", alive at the peak {size_text(old.peak_bytes)} -> {size_text(new.peak_bytes)}"
    yield Difference("memory", text, "", rows)


def _inserted(a: Findings, b: Findings) -> Iterator[Difference]:
    old, new = (
        Counter((row.opcode, row.shape, row.why, row.alone) for row in found.inserted)
        for found in (a, b)
    )
    rows = []
    for sign, more in (("-", old - new), ("+", new - old)):
        for (opcode, shape, why, alone), count in sorted(more.items()):
            where = "in a kernel of its own" if alone else "in a fusion"
            rows.append((f"{sign}{count} {opcode}", shape, why, where))
    if rows:
        text = f"{len(a.inserted):,} -> {len(b.inserted):,} copies, transposes and converts"
        yield Difference("inserted", text, "", tuple(rows))


def _unfused(old: Sequence[Unfused], new: Sequence[Unfused]) -> Iterator[Difference]:
    """Yield the arrays between kernels that only one side has, by shape and reason."""
    keys = [Counter((row.shape, row.why) for row in side) for side in (old, new)]
    rows: list[tuple[str, ...]] = []
    for sign, side, more in (("-", old, keys[0] - keys[1]), ("+", new, keys[1] - keys[0])):
        for row in side:
            if more[row.shape, row.why] > 0:
                more[row.shape, row.why] -= 1
                size = size_text(row.traffic_bytes)
                text = f"{row.name} -> {', '.join(row.readers[:3])}"
                rows.append((sign, size, row.shape, text, row.why))
    if not rows:
        return
    before, after = (sum(row.traffic_bytes for row in side) for side in (old, new))
    text = f"{len(old):,} -> {plural(len(new), 'array')} between kernels, "
    text += f"{size_text(before)} -> {size_text(after)}"
    yield Difference("not fused", text, "", tuple(rows[:_MOST_ARRAYS]))


def _constants(a: Findings, b: Findings) -> Iterator[Difference]:
    if a.after is None or b.after is None:
        return
    old, new = a.constants[1] or 0, b.constants[1] or 0
    if old != new:
        yield Difference("constants", f"{size_text(old)} -> {size_text(new)}")
    if a.loops[1] != b.loops[1]:
        yield Difference("loops", f"{a.loops[1]} -> {b.loops[1]}")


def _collectives(a: Findings, b: Findings) -> Iterator[Difference]:
    old, new = ([(r.opcode, r.size_bytes, r.members) for r in f.collectives] for f in (a, b))
    if sorted(old) == sorted(new):
        return
    changes = _count_changes(Counter(r[0] for r in old), Counter(r[0] for r in new))
    sums = [size_text(sum(row[1] for row in side)) for side in (old, new)]
    text = f"{changes or 'the same opcodes'}, {sums[0]} -> {sums[1]} on each device"
    yield Difference("collectives", text, "devices wait for each other")


def _custom_calls(a: Findings, b: Findings) -> Iterator[Difference]:
    if a.custom_calls != b.custom_calls:
        text = _count_changes(Counter(a.custom_calls), Counter(b.custom_calls))
        yield Difference("custom calls", text, "another library, or code that hides from fusion")


def _passes(a: Findings, b: Findings) -> Iterator[Difference]:
    if not a.passes or not b.passes:
        return
    old, new = (Counter(change.name for change in found.passes) for found in (a, b))
    rows = tuple(
        (f"{sign}{count}", name)
        for sign, more in (("-", old - new), ("+", new - old))
        for name, count in more.items()
    )
    if rows:
        yield Difference("passes", "changed the module on one side only", "", rows)


def _count_changes(old: Counter[str], new: Counter[str]) -> str:
    """Return `+2 copy, -1 fusion`."""
    names = dict.fromkeys((*old, *new))
    changes = ((new[name] - old[name], name) for name in names)
    return ", ".join(f"{change:+,} {name}" for change, name in changes if change)
