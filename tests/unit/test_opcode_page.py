"""The opcode examples run, and docs/opcodes.md says what hloc really does."""

from pathlib import Path

import numpy as np
import pytest

import hloc
from docs.generators.opcodes import INTRODUCTION, TYPES, arguments_for, ask, page
from hloc.ops import OPCODES
from hloc.report.describe import describe_opcode
from hloc.report.opcode_examples import example_of
from tests.tolerance import assert_close

PAGE = Path(__file__).resolve().parents[2] / "docs" / "opcodes.md"
OWN_NUMBERS = ("rng",)
"""Opcodes whose results HLO leaves open."""


@pytest.mark.parametrize("name", sorted(OPCODES))
def test_an_example_is_of_its_opcode_and_reads_back(name: str) -> None:
    module = hloc.parse(example_of(name).text())
    used = {inst.opcode.name for c in module.computations for inst in c.instructions}
    assert name in used
    hloc.parse(module.to_text())


@pytest.mark.parametrize("name", sorted(OPCODES))
def test_an_example_runs_alike_in_evaluator_and_machine_code_or_says_why_not(name: str) -> None:
    example = example_of(name)
    if ask(name, example.dtype).failed:
        assert PAGE.read_text().count(f"- `{name}` (") > 0
        return
    module = hloc.parse(example.text())
    arguments = arguments_for(module)
    want = hloc.evaluate(module, *arguments)
    for level in (0, 2):
        for g, w in zip(hloc.compile(module, opt_level=level)(*arguments), want, strict=True):
            if name not in OWN_NUMBERS:
                assert_close(np.asarray(g), w, f"{name} -O{level}")


@pytest.mark.parametrize("name", sorted(OPCODES))
def test_ops_explains_law_shape_rule_and_example(name: str) -> None:
    text = describe_opcode(name)
    assert OPCODES[name].reads in text
    assert "shape rule: " in text
    assert "ENTRY main" in text


def signs(name: str) -> list[str]:
    """Return the cells of an opcode in the matrix; the legend has a shorter row called `sign`."""
    rows = (line for line in PAGE.read_text().splitlines() if line.startswith(f"| {name} |"))
    cells = ([cell.strip() for cell in row.strip("|").split("|")][1:] for row in rows)
    return next(found for found in cells if len(found) == len(TYPES))


@pytest.mark.parametrize("number", range(len(OPCODES)), ids=lambda i: sorted(OPCODES)[i])
def test_the_page_is_in_step(number: int) -> None:
    """Three types of every opcode, other ones for other opcodes; all in the slow test."""
    name = sorted(OPCODES)[number]
    cells = signs(name)
    assert len(cells) == len(TYPES)
    for i in range(number % 9, len(TYPES), 9) if example_of(name).is_typed else (0,):
        answer = ask(name, TYPES[i])
        assert cells[i] == answer.mark, f"{TYPES[i]}: {answer.reason}; run `make docs`"


@pytest.mark.slow
def test_the_whole_page_is_in_step() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"
    assert PAGE.read_text().startswith(INTRODUCTION)
