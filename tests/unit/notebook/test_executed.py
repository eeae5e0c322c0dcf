"""Notebooks that run: the magics in a kernel. Needs nbclient and ipykernel."""

from pathlib import Path

import pytest

from tests.unit.notebook.executed import executed, html_of, text_of
from tests.unit.notebook.test_magics import TEXT

CELL = f"%%hlo -O2 --diff --graph --run --name=m\n{TEXT}"
BROKEN = f"%%hlo\n{TEXT.replace('negate(x)', 'negat(x)')}"


def test_magics_in_a_kernel(tmp_path: Path) -> None:
    cells = ["%load_ext hloc", CELL, "m", "%hlo m --passes=dce{x} --diff", BROKEN, "print(m)"]
    load, cell, shown, bad_pass, broken, printed = executed(cells, tmp_path)
    assert load == []
    assert "negate-negate" in html_of(cell)
    assert "<iframe sandbox" in html_of(cell)
    assert "compare with s0 in the evaluator: OK" in text_of(cell)
    assert "module m: 2 instructions" in html_of(shown)
    assert "ROOT c = f32[4]{0} exponential(x)" in text_of(printed)
    assert [output["output_type"] for output in (*bad_pass, *broken)] == ["error", "error"]
    assert text_of(bad_pass).startswith("hloc: error: ")
    assert "dce" in text_of(bad_pass)
    assert text_of(broken).startswith("<cell>:6:14: error[HLOC0104]: unknown opcode: negat")
    assert "Traceback" not in text_of(bad_pass) + text_of(broken)


def test_the_slider_in_a_kernel(tmp_path: Path) -> None:
    pytest.importorskip("anywidget", reason="the extra hloc[notebook]")
    cells = [
        "%load_ext hloc\nimport hloc",
        f"%%hlo --slider --name=m\n{TEXT}",
        "walk = hloc.slider(m)\nwalk.state = 1\nprint(walk.module.instruction_count)\nwalk",
    ]
    _, magic, walk = executed(cells, tmp_path)
    assert text_of(walk).startswith("2\n")
    for outputs in (magic, walk):
        assert "application/vnd.jupyter.widget-view+json" in outputs[-1]["data"]
