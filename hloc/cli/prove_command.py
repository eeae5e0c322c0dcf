"""`hloc verify --prove A B`: whether two modules give equal results for all inputs."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from hloc.cli.guard import guarded
from hloc.cli.talk import Talk
from hloc.ir.literal_text import literal_text
from hloc.ir.module import Module
from hloc.literal import literal_of
from hloc.prove.equivalence import Array, Equivalence, compare_modules
from hloc.report.exits import Exit
from hloc.report.json_report import json_report
from hloc.report.source_input import need_files, read_module, shown_name
from hloc.report.text import plural
from hloc.shapes import leaves

_TROUBLE = 2
EXITS = {"equal": Exit.OK, "different": Exit.FAULT, "unknown": Exit.UNSUPPORTED}


def prove_equal(arguments: Namespace, talk: Talk) -> int:
    """`hloc verify --prove A B`: exit 0 if equal, 1 if they differ, 3 if neither is proven.

    Modules that cannot be compared give exit code 2, as with `hloc diff`.
    """
    names = need_files(arguments.files, exactly=2)

    verdict = ""

    def prove() -> int:
        nonlocal verdict
        first, second = (read_module(name) for name in names)
        found = compare_modules(first, second, seconds=arguments.prove)
        if arguments.format == "json":
            talk.product(json_report("prove", _data(found, names)))
        else:
            talk.page("\n".join(_lines(found, first, names)))
        verdict = found.verdict
        return Exit.OK

    return _TROUBLE if guarded(talk, prove) else EXITS[verdict]


def _lines(found: Equivalence, first: Module, names: list[str]) -> Iterator[str]:
    shown = [shown_name(name) for name in names]
    both = " and ".join(shown)
    if found.verdict == "equal":
        yield f"{both}: equal for all inputs ({plural(found.elements, 'element')} of results)"
    elif found.verdict == "unknown":
        yield f"{both}: unknown: {found.reason}"
    else:
        yield f"{both}: different, for example for"
        parts = [(p.name, leaf) for p in first.entry.parameters for _, leaf in leaves(p.shape)]
        for (name, _), array in zip(parts, found.inputs, strict=True):
            yield f"  {name} = {_text(array)}"
        for name, outputs in zip(shown, found.outputs, strict=True):
            yield f"{name} gives"
            yield from (f"  {_text(array)}" for array in outputs)


def _text(array: Array) -> str:
    literal = literal_of(array)
    return f"{literal.shape.text_without_layout} {literal_text(literal)}"


def _data(found: Equivalence, names: list[str]) -> dict[str, Any]:
    return {
        "files": [shown_name(name) for name in names],
        "verdict": found.verdict,
        "reason": found.reason,
        "inputs": [_text(array) for array in found.inputs],
        "outputs": [[_text(array) for array in outputs] for outputs in found.outputs],
    }
