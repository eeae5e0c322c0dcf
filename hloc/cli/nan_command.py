"""`hloc nan FILE`: where the first NaN and the first infinity arise, and what led to them."""

from __future__ import annotations

from argparse import Namespace

from hloc.analysis.extract import extract
from hloc.cli.emit import deliver
from hloc.cli.input_options import inputs_of
from hloc.cli.isolation.arising import TESTS, Arising, Step, first_arising, holds
from hloc.cli.isolation.pieces import opened
from hloc.cli.progress import progress_of
from hloc.cli.talk import Talk
from hloc.errors import printable
from hloc.ir.origin import origin_of
from hloc.report.exits import Exit
from hloc.report.inputs import parameter_leaves
from hloc.report.json_report import json_report
from hloc.report.source_input import need_files, need_one_device, read_module, shown_name
from hloc.report.text import plural


def find_nan(arguments: Namespace, talk: Talk) -> int:
    """`hloc nan FILE [-o SLICE.hlo]`: exit 1 if a NaN arises from finite numbers."""
    a = arguments
    (file,) = need_files(a.files, exactly=1)
    module = read_module(file)
    need_one_device(module, "hloc nan")
    given = inputs_of(a, module)
    arrays = given.arrays(module)
    module = opened(module)
    progress = progress_of(talk, "evaluating")
    with progress.running():
        found = {
            name: first_arising(module, arrays, test, progress) for name, test in TESTS.items()
        }
    at_start = [
        f"{name} in the inputs: parameter {number}"
        for name, test in TESTS.items()
        for number, array in enumerate(arrays)
        if holds([array], test)
    ]
    slice_of = found["NaN"] or found["infinity"]
    if a.output_file and slice_of is not None:
        text = extract(slice_of.inst).to_text(large_constants=True)
        deliver(text, a.output_file, talk)
    if a.format == "json":
        parts = {name.lower(): _data(arising) for name, arising in found.items()}
        data = {"file": shown_name(file), "inputs": given.describe(module), "in_inputs": at_start}
        talk.product(json_report("nan", {**data, **parts}))
    else:
        count = len(parameter_leaves(module))
        lines = [f"{shown_name(file)}: {plural(count, 'input')}: {given.describe(module)}"]
        lines += at_start
        for name, arising in found.items():
            lines += _lines(name, arising)
        talk.page("\n".join(lines))
    return Exit.FAULT if found["NaN"] is not None else Exit.OK


def _lines(name: str, found: Arising | None) -> list[str]:
    if found is None:
        return [f"first {name}: none arises"]
    inst = found.inst
    shape = inst.shape.text_without_layout
    head = f"first {name}: {_place(found.steps[0])}, {found.count:,} in {inst.opcode.name} {shape}"
    within = "".join(f", in round {number:,} of %{loop}" for loop, number in found.rounds)
    return [printable(head + within), *(printable(_line(step)) for step in found.steps)]


def _line(step: Step) -> str:
    origin = origin_of(step.inst)
    operation = f"{step.inst.opcode.name}({', '.join(step.operands)})"
    if step.inst.is_a("parameter"):
        operation = f"parameter {step.inst.attributes.number}"
    return f"  {_place(step)} = {step.value}: {operation}" + (f" at {origin}" if origin else "")


def _place(step: Step) -> str:
    index = ",".join(map(str, step.index))
    return f"%{step.inst.name}" + (f"[{index}]" if index else "")


def _data(found: Arising | None) -> dict[str, object] | None:
    """Return what `--format=json` prints of the first NaN or infinity, None if there is none."""
    if found is None:
        return None
    return {
        "instruction": found.inst.name,
        "opcode": found.inst.opcode.name,
        "source": origin_of(found.inst),
        "elements": found.count,
        "rounds": [{"loop": loop, "round": number} for loop, number in found.rounds],
        "steps": [
            {
                "instruction": step.inst.name,
                "opcode": step.inst.opcode.name,
                "index": list(step.index),
                "value": step.value,
                "operands": list(step.operands),
                "source": origin_of(step.inst),
            }
            for step in found.steps
        ],
    }
