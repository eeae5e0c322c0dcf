"""The lines of a diff: what moved is said to have moved, and every front end shows the same."""

import json
from pathlib import Path

import pytest

import hloc
from hloc.analysis.diff.diff_rows import DiffTable, diff_table
from hloc.analysis.diff.file_diff import table_of_modules
from hloc.cli import main
from hloc.ir.clone import clone_module
from hloc.report.diff.diff_data import diff_data
from hloc.report.diff.diff_lines import DiffView, plain, side_lines, unified_lines
from hloc.report.text import Paint
from repl.__main__ import main as repl

CHAIN = """HloModule chain

ENTRY e {
  x = f32[64] parameter(0)
  a = f32[64] negate(x)
  b = f32[64] exponential(a)
  c = f32[64] sine(b)
  d = f32[64] cosine(x)
  ROOT t = (f32[64], f32[64]) tuple(c, d)
}
"""


def fused() -> DiffTable:
    old = hloc.parse(CHAIN)
    new = clone_module(old)
    hloc.Pipeline.parse("fusion").run(new)
    return diff_table(old, new, new.log.events)


def test_a_fusion_is_moves_and_not_additions() -> None:
    lines = list(map(plain, unified_lines(DiffView(fused(), by="fusion"))))
    assert "  » a.1 = f32[64] negate(param_0)   (from e)" in lines
    assert "  » 3 to fused_computation:  a, b, c" in lines
    assert not [line for line in lines if line.startswith(("  + a", "  - a", "  - b"))]


def test_a_rewired_operand_stands_in_the_operands_behind_a_tuple_shape() -> None:
    text = """HloModule m

ENTRY e {
  x = f32[8] parameter(0)
  n = f32[8] negate(x)
  k = (f32[2], s32[2]) topk(n), k=2, largest=true
  ROOT v = f32[2] get-tuple-element(k), index=0
}
"""
    old, new = hloc.parse(text), hloc.parse(text.replace("topk(n)", "topk(x)"))
    lines = list(map(plain, unified_lines(DiffView(table_of_modules(old, new)))))
    assert "  ⇄ k = (f32[2], s32[2]) topk(n → x), k=2, largest=true" in lines


def test_context_shows_unchanged_rows_near_the_change() -> None:
    old = hloc.parse(CHAIN)
    new = hloc.parse(CHAIN.replace("sine(b)", "tanh(b)"))
    table = table_of_modules(old, new)
    none = [plain(line) for line in unified_lines(DiffView(table))]
    one = [plain(line) for line in unified_lines(DiffView(table, context=1))]
    assert "    x, a, b" in none[1]
    assert one[2:5] == [
        "    b = f32[64] exponential(a)",
        "  ~ c = f32[64] tanh(b)   (was f32[64] sine)",
        "    d = f32[64] cosine(x)",
    ]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_two_columns_keep_their_width(width: int) -> None:
    for line in map(plain, side_lines(DiffView(fused()), width)):
        if " │ " in line:
            assert line.index("│") == (width - 3) // 2 + 1
            assert len(line) <= width + 12  # a word that is longer than the column goes on


def test_differences_of_the_header_come_first() -> None:
    new = CHAIN.replace("HloModule chain", "HloModule chain, num_partitions=2")
    table = table_of_modules(hloc.parse(CHAIN), hloc.parse(new))
    (line,) = map(plain, unified_lines(DiffView(table)))
    assert line == "~ module num_partitions = 2   (was 1)"
    assert diff_data(table)["header"]


def test_colours_are_the_names_of_styles() -> None:
    painted = [Paint(True).styled(line) for line in unified_lines(DiffView(fused()))]
    assert any("\x1b[94m" in line for line in painted)
    bare = [Paint(False).styled(line) for line in unified_lines(DiffView(fused()))]
    assert bare == list(map(plain, unified_lines(DiffView(fused()))))


def test_the_command_line_the_repl_and_json_say_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, script = tmp_path / "chain.hlo", tmp_path / "s.hlor"
    file.write_text(CHAIN)
    script.write_text("apply fusion\ndiff\n")
    assert main([str(file), "--passes=fusion", "--print-changed=diff", "-o", "/dev/null"]) == 0
    told = _rows(capsys.readouterr().err)
    assert repl([str(file), "-x", str(script)]) == 0
    assert _rows(capsys.readouterr().out) == told
    assert len(told) == 7
    assert main([str(file), "--passes=fusion", "--print-changed=json", "-o", "/dev/null"]) == 0
    data = json.loads(capsys.readouterr().err.splitlines()[1])
    rows = [row for c in data["computations"] for row in c["rows"]]
    assert sum(row["kind"] == "moved" for row in rows) == 6


def _rows(text: str) -> list[str]:
    """Return the rows of instructions, without indents."""
    lines = (line.strip() for line in text.splitlines())
    return [
        line
        for line in lines
        if (line[:2] in ("+ ", "» ", "⇄ ", "~ ") and "=" in line) or "» 3" in line
    ]


@pytest.mark.parametrize("width", [40, 80, 100, 120])
def test_what_the_head_says_is_never_broken_inside_a_figure(width: int) -> None:
    parts = ("s0 → s1", "call-inliner, fusion", "-12 instrs, -2.5 KiB")
    view = DiffView(fused(), about="   ".join(parts), width=width)
    lines = list(map(plain, unified_lines(view)))
    heads = lines[: next(n for n, line in enumerate(lines) if line.startswith("  "))]
    assert all(len(line) <= width for line in heads)
    assert all(any(part in line for line in heads) for part in parts)
    above = list(map(plain, side_lines(view, width, "s0", "s1")))[:4]
    assert all(any(part in line for line in above) for part in parts)
