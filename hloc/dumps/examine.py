"""The findings about one compilation in a dump: its passes, memory, kernels and oddities."""

from __future__ import annotations

import filecmp
import os
import re
from collections.abc import Callable, Iterator, Mapping

from hloc import driver
from hloc.analysis.diff.file_diff import DiffOptions, table_of_modules
from hloc.analysis.diff.module_match import ModuleMatch, match_modules
from hloc.analysis.kernel_count import kernel_counts
from hloc.analysis.measure import Measure, measure_of
from hloc.dumps.buffers import BufferValue, Memory, memory_of
from hloc.dumps.contents import (
    Collective,
    Constant,
    Unrolled,
    collectives,
    constant_bytes,
    custom_calls,
    large_constants,
    loop_count,
    unrolled_loops,
)
from hloc.dumps.folder import DumpFile, DumpModule, read_text
from hloc.dumps.inserted import Inserted, inserted
from hloc.dumps.pass_times import PassTime, times_of_files, times_of_metadata
from hloc.dumps.unfused import Unfused, unfused
from hloc.errors import HloError
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.origin import origin_of
from hloc.ir.traversal import all_instructions
from hloc.lazy_dataclass import dataclass
from hloc.report.measure_text import effect_text
from hloc.shapes import Shape, TupleShape

CONTENT = DiffOptions(header=False)
"""Differences that count as a change by a pass."""


@dataclass(frozen=True, slots=True)
class PassChange:
    """The changes of a pass.

    Attributes:
        summary: rows of the diff by kind, `+3 -5 ~1`.
        effect: kernels and bytes before and after, "" if they are the same.
        file: the module after it; `before` is the module before it.
    """

    name: str
    summary: str
    instructions: tuple[int, int]
    effect: str
    before: str
    file: str


@dataclass(frozen=True, slots=True)
class PeakBuffer:
    """An array that is live at the peak, and the instruction that defines it."""

    value: BufferValue
    shape: str
    opcode: str
    source: str


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings about one module of a dump.

    Attributes:
        before, after: figures before the first and after the last pass, None if not in the dump.
        stages: files of the module, those that cannot be read included.
        kernels: kernels after the last pass by opcode.
        times_of: `passes`, or `files` if only file times are known; "" if neither is.
        constants: bytes of all constants before and after, None if not in the dump.
        loops: `while` instructions before and after, None if not in the dump.
        unreadable: files that cannot be read, with the reasons.
        flags: XLA's options that do not have their default, by name.
    """

    name: str
    stages: int
    before: Measure | None
    after: Measure | None
    kernels: dict[str, int]
    passes: tuple[PassChange, ...]
    times: tuple[PassTime, ...]
    times_of: str
    memory: Memory | None
    peak: tuple[PeakBuffer, ...]
    inserted: tuple[Inserted, ...]
    unfused: tuple[Unfused, ...]
    constants: tuple[int | None, int | None]
    large_constants: tuple[Constant, ...]
    loops: tuple[int | None, int | None]
    unrolled: tuple[Unrolled, ...]
    collectives: tuple[Collective, ...]
    custom_calls: dict[str, int]
    flags: dict[str, str]
    unreadable: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Examined:
    """The findings, and their modules before the first and after the last pass."""

    findings: Findings
    first: Module | None
    last: Module | None


def examine(module: DumpModule, on_file: Callable[[str], None] = lambda name: None) -> Examined:
    """Read all files of a module and return the findings.

    A file that cannot be read is listed, and the rest is examined without it.

    Args:
        module: the files.
        on_file: called with the name of each stage before it is read.
    """
    reader = _Reader(on_file)
    first, last, changes, made_by = _stages(module, reader)
    final = last if module.after is not None or module.passes else None
    compared = first if module.before is not None or module.passes else None
    memory = reader.memory(module)
    times, times_of = reader.times(module)
    findings = Findings(
        name=module.name,
        stages=len(module.stages),
        before=measure_of(compared) if compared else None,
        after=measure_of(final) if final else None,
        kernels=dict(kernel_counts(final).most_common()) if final else {},
        passes=tuple(changes),
        times=times,
        times_of=times_of,
        memory=memory,
        peak=tuple(_peak(memory, final)) if memory else (),
        inserted=inserted(compared, final, made_by) if compared and final else (),
        unfused=unfused(final) if final else (),
        constants=(
            constant_bytes(compared) if compared else None,
            constant_bytes(final) if final else None,
        ),
        large_constants=large_constants(last) if last else (),
        loops=(loop_count(compared) if compared else None, loop_count(final) if final else None),
        unrolled=unrolled_loops(first) if first else (),
        collectives=collectives(last) if last else (),
        custom_calls=custom_calls(last) if last else {},
        flags=reader.flags(module),
        unreadable=tuple(reader.faults),
    )
    return Examined(findings, compared, final)


def _stages(
    module: DumpModule, reader: _Reader
) -> tuple[Module | None, Module | None, list[PassChange], dict[Instruction, str | None]]:
    """Read all stages: return the first and the last, what changed, and what made instructions."""
    first: Module | None = None
    last: Module | None = None
    source = ""
    changes: list[PassChange] = []
    made_by: dict[Instruction, str | None] = {}
    for file in module.stages:
        if last is not None and _same_text(source, file.path):
            continue
        found = reader.module(file)
        if found is None:
            continue
        if last is None:
            first = found
        else:
            how = file.how if file in module.passes else ""
            match = match_modules(last, found)
            made_by = _makers(last, found, match, made_by, how)
            change = _change(last, found, match, source, file) if how else None
            if change is not None:
                changes.append(change)
        source, last = file.path, found
    return first, last, changes, made_by


class _Reader:
    """Reads files, and records the errors of those that it cannot read."""

    def __init__(self, on_file: Callable[[str], None]) -> None:
        self.on_file = on_file
        self.faults: list[tuple[str, str]] = []

    def module(self, file: DumpFile) -> Module | None:
        self.on_file(file.how)
        try:
            return driver.load_module(file.path)
        except HloError as fault:
            self.faults.append((file.path, _first_line(fault)))
            return None

    def text(self, module: DumpModule, kind: str) -> str:
        path = module.texts.get(kind)
        if path is None:
            return ""
        try:
            return read_text(path)
        except HloError as fault:
            self.faults.append((path, _first_line(fault)))
            return ""

    def memory(self, module: DumpModule) -> Memory | None:
        kinds = ("buffer-assignment", "memory-usage-report", "live-range")
        texts = [self.text(module, kind) for kind in kinds]
        found = memory_of(*texts)
        if found is None and module.texts.get(kinds[0]) and texts[0]:
            self.faults.append((module.texts[kinds[0]], "no allocations in it"))
        return found

    def times(self, module: DumpModule) -> tuple[tuple[PassTime, ...], str]:
        found = times_of_metadata(self.text(module, "metadata"))
        if found:
            return found, "passes"
        found = times_of_files(module.stages)
        return found, "files" if found else ""

    def flags(self, module: DumpModule) -> dict[str, str]:
        found: dict[str, str] = {}
        for line in self.text(module, "flags").splitlines():
            name, colon, value = (part.strip() for part in line.partition(":"))
            if colon:
                value = value.strip('"')
                found[name] = f"{found[name]},{value}" if name in found else value
        return found


def _first_line(fault: HloError) -> str:
    first = fault.diagnostics[0]
    if first.span is None:
        return first.message
    source, start, _ = first.span
    line, column = source.line_column(min(start, len(source.text)))
    return f"line {line}, column {column}: {first.message}"


def _change(
    before: Module, after: Module, match: ModuleMatch, source: str, file: DumpFile
) -> PassChange | None:
    found = table_of_modules(before, after, CONTENT, match)
    if not found.computations:
        return None
    figures = measure_of(before), measure_of(after)
    same = figures[0].kernels == figures[1].kernels and figures[0].cost == figures[1].cost
    counts = (before.instruction_count, after.instruction_count)
    effect = "" if same else effect_text(*figures)
    return PassChange(file.how, found.summary(), counts, effect, source, file.path)


def _same_text(first: str, second: str) -> bool:
    """True if both files have the same bytes, as at the start of a pipeline."""
    try:
        return os.path.getsize(first) == os.path.getsize(second) and filecmp.cmp(first, second)
    except OSError:
        return False


def _makers(
    old: Module,
    new: Module,
    match: ModuleMatch,
    known: Mapping[Instruction, str | None],
    how: str,
) -> dict[Instruction, str | None]:
    """Return the creator of each instruction of `new`: `how`, or its creator in `old`.

    Fusion copies instructions; a copy has the creator of the removed one of equal opcode and shape.
    """
    gone = {}
    for inst in all_instructions(old):
        now = match.instructions.get(inst)
        if now is None or now.opcode is not inst.opcode:  # a fusion may have replaced it
            gone[inst.opcode.name, inst.shape] = known.get(inst)
    creators: dict[Instruction, str | None] = {}
    for inst in all_instructions(new):
        earlier = match.back.get(inst)
        if earlier is not None and earlier.opcode is inst.opcode:
            creators[inst] = known.get(earlier)
        else:
            creators[inst] = gone.get((inst.opcode.name, inst.shape), how)
    return creators


def _peak(memory: Memory, module: Module | None) -> Iterator[PeakBuffer]:
    """Yield the arrays at the peak with their instructions."""
    known = (
        {inst.name: inst for c in module.computations for inst in c.instructions} if module else {}
    )
    for value in memory.at_peak:
        inst = known.get(value.name)
        if inst is None:
            yield PeakBuffer(value, "", "", "")
        else:
            shape = _element(inst.shape, value.index).text_without_layout
            yield PeakBuffer(value, shape, inst.opcode.name, origin_of(inst) or inst.op_name)


def _element(shape: Shape, index: str) -> Shape:
    """Return the element of a tuple at an index such as `{1,0}`."""
    for number in re.findall(r"\d+", index):
        if not isinstance(shape, TupleShape) or int(number) >= len(shape.elements):
            break
        shape = shape.elements[int(number)]
    return shape
