"""The page docs/opcodes.md: what hloc does with every opcode and element type, by asking it.

    python -m docs.generators.opcodes > docs/opcodes.md

Each example of `opcode_examples.py` is read, checked, evaluated and compiled with each type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hloc.driver import evaluate, generate, parse_text
from hloc.dtypes import DTYPES, component_of
from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.ops import OPCODES
from hloc.options import CompileOptions
from hloc.report.opcode_examples import example_of
from hloc.shapes import ArrayShape, leaves

TYPES = tuple(name for name, dtype in DTYPES.items() if not dtype.is_special)

STAGES = ("parse", "infer", "evaluate", "cpu")
MARKS = {"parse": "-", "infer": "p", "evaluate": "i", "cpu": "e", "": "●"}
"""What a cell shows, by the stage that failed first."""

INTRODUCTION = """# Opcodes and element types

Made by `make docs`, which reads, checks, evaluates and compiles the example of every opcode
(`hloc ops NAME` shows it) with every element type: do not edit.

| sign | parse | infer | evaluate | cpu |
|---|---|---|---|---|
| ● | yes | yes | yes | yes |
| e | yes | yes | yes | no |
| i | yes | yes | no | no |
| p | yes | no: HLO has no such operation | | |

*infer* is the shape rule and the verifier, *evaluate* the reference evaluator, *cpu* machine code.
The reasons for every sign but ● stand below the table. Opcodes whose example has types of its own
have one sign for all.
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What hloc said: the first stage that failed, "" if none did, and the words."""

    failed: str
    reason: str = ""

    @property
    def mark(self) -> str:
        return MARKS[self.failed]


# ---------------------------------------------------------------- asking


def ask(name: str, dtype: str) -> Answer:
    """Return how far opcode `name` gets with element type `dtype`."""
    text = example_of(name).text(dtype)
    try:
        parse_text(text, verify=False)
    except HloError as fault:
        return Answer("parse", _reason(fault))
    try:
        module = parse_text(text)
    except HloError as fault:
        return Answer("infer", _reason(fault))
    try:
        evaluate(module, *arguments_for(module))
    except HloError as fault:
        return Answer("evaluate", _reason(fault))
    try:
        generate(module, CompileOptions(opt_level=0))
    except HloError as fault:
        return Answer("cpu", _reason(fault))
    return Answer("")


def arguments_for(module: Module) -> list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    """Return small arguments that suit every example: matrices with a strong diagonal, 0 and 1."""
    found = []
    for parameter in module.entry.parameters:
        for _, leaf in leaves(parameter.shape):
            assert isinstance(leaf, ArrayShape)
            if leaf.dtype.is_special:
                continue
            values = (np.arange(leaf.elements) % 2).reshape(leaf.dims)
            if (
                leaf.rank == 2
                and leaf.dims[0] == leaf.dims[1]
                and component_of(leaf.dtype).is_float
            ):
                values = np.minimum(values, 0) + 2 * np.eye(leaf.dims[0], dtype=np.int64)
            found.append(np.asarray(values).astype(leaf.dtype.numpy))
    return found


def _reason(fault: HloError) -> str:
    """Return the first message, without names of the example."""
    return _NAMED.sub("", fault.message)


_NAMED = re.compile(
    r"^(cannot run )?[\w-]+ ('\w+' |[\w.]+: |\([\w.]+\) cannot run on this target: )"
)


# ---------------------------------------------------------------- the page


def row_of(name: str, types: Iterable[str] = TYPES) -> list[Answer]:
    """Return the answers for an opcode, one per type; one for all if the example has no `T`."""
    if not example_of(name).is_typed:
        answer = ask(name, "")
        return [answer for _ in types]
    return [ask(name, dtype) for dtype in types]


def page(names: Iterable[str] = ()) -> str:
    """Return the whole page, or the tables of some opcodes."""
    chosen = sorted(names or OPCODES)
    rows = {name: row_of(name) for name in chosen}
    lines = [
        "| opcode | " + " | ".join(TYPES) + " |",
        "|---|" + "---|" * len(TYPES),
    ]
    for name, answers in rows.items():
        lines.append(f"| {name} | " + " | ".join(answer.mark for answer in answers) + " |")
    lines += ["", "## Reasons", ""]
    for name, answers in rows.items():
        lines += _reasons(name, answers)
    return INTRODUCTION + "\n" + "\n".join(lines) + "\n"


def _reasons(name: str, answers: list[Answer]) -> list[str]:
    """Return one line per reason, with the types it holds for."""
    types: dict[tuple[str, str], list[str]] = {}
    for dtype, answer in zip(TYPES, answers, strict=True):
        if answer.failed:
            words = answer.reason.replace(f"{dtype}[", "T[").replace(f" {dtype} ", " T ")
            types.setdefault((answer.mark, words), []).append(dtype)
    found = []
    for (mark, words), names in types.items():
        found.append(f"- `{name}` ({mark}, {_class_names(names)}): {words}")
    return found


def _class_names(names: list[str]) -> str:
    """Return the types, whole classes by their name: `pred, signed, f32`."""
    if len(names) == len(TYPES):
        return "all types"
    found: list[str] = []
    for name in names:
        kind = DTYPES[name].kind
        members = [other for other in TYPES if DTYPES[other].kind == kind]
        whole = kind != "pred" and all(member in names for member in members)
        label = f"all {kind}" if whole else name
        if label not in found:
            found.append(label)
    return ", ".join(found)


if __name__ == "__main__":
    print(page(), end="")
