"""The semantic diff of two modules that share no history.

`module_match` pairs the instructions; those of the new module then get the uids
of their counterparts, and `module_diff` compares them like two states of one module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from zlib import crc32

import numpy as np

from hloc.analysis.diff.diff_rows import DiffTable, RowOptions, table_of
from hloc.analysis.diff.module_diff import CHANGED, ModuleDiff, Row, diff_snapshots
from hloc.analysis.diff.module_lines import ComputationLines, Line, Snapshot, line_of
from hloc.analysis.diff.module_match import ModuleMatch, match_modules
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.origin import origin_of
from hloc.ir.print_order import computation_order, instruction_order
from hloc.lazy_dataclass import dataclass

_SHOWN_ELEMENTS = 8


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """What counts as a difference besides what the module computes."""

    layouts: bool = True
    header: bool = True
    names: bool = False
    metadata: bool = False


DEFAULT = DiffOptions()


def diff_modules(old: Module, new: Module, options: DiffOptions = DEFAULT) -> ModuleDiff:
    """Return what is different in `new`; empty if the modules are equal.

    Args:
        old: a module.
        new: another one; neither is changed.
        options: what counts.
    """
    before, after, header = _compared(old, new, options)
    return replace(diff_snapshots(before, after, names=options.names), header=header)


def table_of_modules(
    old: Module, new: Module, options: DiffOptions = DEFAULT, match: ModuleMatch | None = None
) -> DiffTable:
    """Return the rows of `diff_modules`, with the meaning of each change.

    `match` is the result of `match_modules`, if it is known already.
    """
    before, after, header = _compared(old, new, options, match)
    return table_of(before, after, (), RowOptions(names=options.names), header)


def _compared(
    old: Module, new: Module, options: DiffOptions, match: ModuleMatch | None = None
) -> tuple[Snapshot, Snapshot, tuple[Row, ...]]:
    """Return snapshots of both in which counterparts have equal uids, and other differences."""
    match = match or match_modules(old, new, layouts=options.layouts)
    names = {a.name: b.name for a, b in match.computations.items()}
    before = _snapshot(old, {}, names, options)
    after = _snapshot(new, _common_uids(old, match), {}, options)
    header = tuple(_header_rows(old, new, options)) + tuple(_order_rows(old, new, match))
    return before, after, header


def _common_uids(old: Module, match: ModuleMatch) -> Mapping[int, int]:
    """Return uids for the matched part of the new module, those of its counterparts."""
    shift = 1 + max(
        (inst.uid for c in old.computations for inst in c.instructions), default=0
    )  # above all uids of the old module, its computations included
    shift = max(shift, 1 + max(c.uid for c in old.computations))
    uids = _Shifted(shift)
    uids.update({b.uid: a.uid for a, b in match.instructions.items()})
    uids.update({b.uid: a.uid for a, b in match.computations.items()})
    return uids


class _Shifted(dict[int, int]):
    """Maps a missing key to a number above `shift`."""

    def __init__(self, shift: int) -> None:
        super().__init__()
        self.shift = shift

    def __missing__(self, uid: int) -> int:
        return uid + self.shift


def _snapshot(
    module: Module, uids: Mapping[int, int], called: Mapping[str, str], options: DiffOptions
) -> Snapshot:
    """Return the lines of `module` with other uids and other names of called computations."""
    found = uids or _Shifted(0)
    return tuple(
        ComputationLines(
            found[computation.uid],
            computation.name,
            computation is module.entry,
            tuple(_line(inst, found, called, options) for inst in instruction_order(computation)),
        )
        for computation in computation_order(module)
    )


def _line(
    inst: Instruction, uids: Mapping[int, int], called: Mapping[str, str], options: DiffOptions
) -> Line:
    line = line_of(inst, layouts=options.layouts)
    tail = line.tail
    if inst.called and called:
        tail = _renamed(inst, tail, called)
    tail += "".join(_additions(inst, options))
    return Line(
        uids[line.uid],
        line.name,
        line.head,
        tuple((uids[uid], name) for uid, name in line.operands),
        tail,
        line.is_root,
    )


def _renamed(inst: Instruction, tail: str, called: Mapping[str, str]) -> str:
    """Return `tail` with the called computations by their names in the other module."""
    roles = "|".join(re.escape(role.name) for role in inst.opcode.calls)
    return re.sub(
        rf"\b(?:{roles})=(?:\{{[^}}]*\}}|[\w.\-]+)",
        lambda role: re.sub(
            r"(?<=[={ ])[\w.\-]+", lambda name: called.get(name.group(), name.group()), role.group()
        ),
        tail,
    )


def _additions(inst: Instruction, options: DiffOptions) -> Iterator[str]:
    """Yield what the short print leaves out."""
    if inst.opcode.parenthesis == "literal":
        value = inst.attributes.literal.value
        if isinstance(value, np.ndarray) and value.size > _SHOWN_ELEMENTS:
            yield f", crc32={crc32(value.tobytes()):08x}"
    if inst.control_predecessors:
        names = ", ".join(p.name for p in inst.control_predecessors)
        yield f", control-predecessors={{{names}}}"
    if options.metadata and inst.common.metadata is not None:
        yield f', op_name="{inst.common.metadata.op_name}", origin={origin_of(inst)}'


# ---------------------------------------------------------------- header and schedules


def _header_rows(old: Module, new: Module, options: DiffOptions) -> Iterator[Row]:
    if options.names and old.name != new.name:
        yield _header_row("name", new.name, old.name)
    if not options.header:
        return
    for field in fields(old.config):
        before, after = (config_text(m, field.name, layouts=options.layouts) for m in (old, new))
        if before != after:
            yield _header_row(field.name, after, before)


def _header_row(name: str, after: str, before: str) -> Row:
    return Row(CHANGED, 0, f"module {name} = {after}   (was {before})", "", name, before)


def config_text(module: Module, name: str, *, layouts: bool = True) -> str:
    """Return the text of a header field; "" for the entry layout without `layouts`."""
    value = getattr(module.config, name)
    if name == "entry_layout":
        if not layouts:
            return ""
        parameters = value.parameters if value else [p.shape for p in module.entry.parameters]
        result = value.result if value else module.entry.root.shape
        return f"({', '.join(map(str, parameters))})->{result}"
    if isinstance(value, tuple):
        return "{" + ", ".join(map(str, value)) + "}"
    return str(value)


def _order_rows(old: Module, new: Module, match: ModuleMatch) -> Iterator[Row]:
    """Yield a row for each computation that runs the same instructions in another order."""
    if not (old.config.is_scheduled and new.config.is_scheduled):
        return
    for before, after in match.computations.items():
        was = _first_out_of_order(before, after, match)
        if was is not None:
            text = f"schedule of {after.name} differs from {was.name} on"
            yield Row(CHANGED, was.uid, text, "", after.name)


def _first_out_of_order(
    before: Computation, after: Computation, match: ModuleMatch
) -> Instruction | None:
    old = [match.instructions.get(inst) for inst in before.instructions]
    kept = [inst for inst in old if inst is not None and inst.computation is after]
    new = [inst for inst in after.instructions if inst in match.back]
    new = [inst for inst in new if match.back[inst].computation is before]
    return next((b for a, b in zip(kept, new, strict=True) if a is not b), None)
