"""The report of an isolation as text and JSON, and the files that reproduce it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from hloc.cli.isolation.judge import Finding
from hloc.cli.isolation.search import Case, Isolation
from hloc.errors import printable
from hloc.ir.instruction import Instruction
from hloc.ir.origin import origin_of
from hloc.output_file import write_form
from hloc.report.conditioning_text import conditioning_data, conditioning_lines
from hloc.report.inputs import parameter_leaves, result_leaves, save_arrays
from hloc.report.repro_file import file_stem, make_folder
from hloc.report.run_data import comparison_data
from hloc.report.run_report import comparison_text
from hloc.report.text import plural
from hloc.shapes import TupleShape, array_leaves

_MOST_NAMED = 5


def report_lines(found: Isolation, sides: Sequence[str], how: str) -> list[str]:
    """Return the report: divergences, where NaN and infinity arise, the least exact pieces."""
    lines = [ran_text(found, sides, how)]
    if found.diverging:
        lines += _divergences(found.diverging)
    else:
        lines.append("first divergence: none")
    lines.append(f"first NaN: {place(found.first_nan)}")
    lines.append(f"first infinity: {place(found.first_infinity)}")
    if found.ill:
        named = ", ".join(f"%{printable(row.piece.inst.name)}" for row in found.ill[:_MOST_NAMED])
        more = ", ..." if len(found.ill) > _MOST_NAMED else ""
        lines.append(
            f"ill-conditioned: {plural(len(found.ill), 'piece')} beyond the tolerance as far as "
            f"roundings explain: {named}{more}"
        )
    if found.worst:
        lines.append("least exact:")
        lines += [
            f"  {row.comparison.max_ulp:,} ulp on {row.side}: {place(row.piece.inst)}"
            for row in found.worst
        ]
    if found.by_machine:
        lines.append(
            f"values by machine code at -O0, because the evaluator would take too long: "
            f"{plural(found.by_machine, 'instruction')}"
        )
    for reason, names in found.left.items():
        shown = ", ".join(f"%{printable(name)}" for name in names[:_MOST_NAMED])
        more = ", ..." if len(names) > _MOST_NAMED else ""
        lines.append(f"not compared: {shown}{more}: {printable(reason)}")
    return lines


def ran_text(found: Isolation, sides: Sequence[str], how: str) -> str:
    """Return the line that says how many instructions ran on which sides."""
    return (
        f"{found.compared:,} of {plural(found.instructions, 'instruction')} ran alone on their "
        f"true inputs ({how}): {' and '.join(sides)} beside the evaluator, "
        f"{plural(found.kinds, 'kind')}"
    )


def together_with(row: Finding) -> str:
    """Return the other instructions of a piece; "" if it is one instruction."""
    if not row.piece.height:
        return ""
    own = [i for i in row.piece.module.entry.instructions if not i.is_a("parameter")]
    return ", ".join(f"%{printable(i.name)}" for i in own if i.name != row.piece.inst.name)


def _divergences(findings: Sequence[Finding]) -> list[str]:
    first = findings[0]
    lines = [
        f"first divergence: {place(first.piece.inst)}",
        f"  {first.side}: {comparison_text(first.comparison)}",
        *conditioning_lines(first.conditioning),
    ]
    if others := together_with(first):
        lines.append(f"  only together with {others}")
    if len(findings) > 1:
        rest = findings[1:]
        named = [f"%{printable(row.piece.inst.name)} ({row.side})" for row in rest[:_MOST_NAMED]]
        more = ", ..." if len(rest) > _MOST_NAMED else ""
        lines.append(f"  {len(rest):,} more diverge: {', '.join(named)}{more}")
    return lines


def place(inst: Instruction | None) -> str:
    """Return `%dot.3, dot f32[8,8] at train.py:31 in loss`."""
    if inst is None:
        return "none"
    origin = origin_of(inst)
    at = f" at {origin}" if origin else ""
    arrays = len(array_leaves(inst.shape))
    is_tuple = isinstance(inst.shape, TupleShape)
    shape = f"of {plural(arrays, 'array')}" if is_tuple else inst.shape.text_without_layout
    return printable(f"%{inst.name}, {inst.opcode.name} {shape}{at}")


def isolation_data(
    found: Isolation, file: str, sides: Sequence[str], how: str
) -> dict[str, object]:
    """Return the isolation as JSON data."""
    return {
        "file": file,
        "inputs": how,
        "sides": list(sides),
        "instructions": found.instructions,
        "compared": found.compared,
        "kinds": found.kinds,
        "diverging": [_data(row) for row in found.diverging],
        "ill_conditioned": [_data(row) for row in found.ill],
        "least_exact": [_data(row) for row in found.worst],
        "first_nan": _instruction(found.first_nan),
        "first_infinity": _instruction(found.first_infinity),
        "values_by_machine_code": found.by_machine,
        "not_compared": found.left,
    }


def _instruction(inst: Instruction | None) -> dict[str, object] | None:
    if inst is None:
        return None
    shape = inst.shape.text_without_layout
    return {
        "name": inst.name, "opcode": inst.opcode.name, "shape": shape, "source": origin_of(inst),
    }  # fmt: skip


def _data(row: Finding) -> dict[str, object]:
    return {
        "instruction": _instruction(row.piece.inst),
        "side": row.side,
        "levels": row.piece.height,
        "comparison": comparison_data(row.comparison),
        "conditioning": conditioning_data(row.conditioning),
    }


def write_cases(cases: Sequence[Case], folder: str) -> list[str]:
    """Write module, inputs and true results of each case; return the commands that run them.

    Raises:
        HloError: a file cannot be written.
    """
    make_folder(folder)
    commands = []
    for number, case in enumerate(cases, 1):
        module = case.finding.piece.module
        stem = os.path.join(folder, f"{number:02}-{file_stem(case.finding.piece.inst.name)}")
        write_form(f"{stem}.hlo", module.to_text(large_constants=True))
        save_arrays(f"{stem}.inputs.npz", "arg", case.inputs, parameter_leaves(module))
        save_arrays(f"{stem}.results.npz", "out", case.want, result_leaves(module))
        other = "xla" if case.finding.side == "XLA" else f"{stem}.results.npz"
        words = ["hloc", "run", f"{stem}.hlo", f"--inputs={stem}.inputs.npz"]
        commands.append(shlex.join([*words, f"--compare-with={other}"]))
    return commands
