"""What the command line shows of the passes: changes, single rewrites, remarks, dumps, times."""

import io
import json
import os
import re
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import hloc
from hloc.analysis.diff.module_diff import SAME
from hloc.cli import main
from hloc.cli.explorer_page import explorer_page
from hloc.cli.progress import PassProgress
from hloc.cli.watching.rewrite_report import remark_lines
from hloc.opt.pass_base import PassContext, Remark
from hloc.opt.pipeline import Pipeline
from hloc.report.progress import Progress
from hloc.report.text import Paint
from tests.waiting import wait_until

Capture = pytest.CaptureFixture[str]
TWICE = """HloModule twice

ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] negate(x)
  b = f32[4] negate(a)
  c = f32[4] exponential(b)
  d = f32[4] exponential(b)
  ROOT r = f32[4] add(c, d)
}
"""
PASSES = "--passes=dce,algebraic-simplifier,cse,dce"


@pytest.fixture
def twice(tmp_path: Path) -> str:
    path = tmp_path / "twice.hlo"
    path.write_text(TWICE)
    return str(path)


def shown(capsys: Capture, *arguments: str) -> str:
    assert main([*arguments, "-o", "/dev/null"]) == 0
    return capsys.readouterr().err


CHANGES = {
    "summary": [
        "2 algebraic-simplifier: kernels 5 -> 3, 176 B -> 112 B   6 -> 4 instructions, 1 rewrite "
        "(negate-negate)"
    ],
    "diff": [
        "- b = f32[4] negate(a)      ",
        "← negate-negate",
        "exponential(b → x)",
    ],
    "side": ["⇄ c = f32[4] exponential(b)", "│ ⇄ c = f32[4] exponential(x)"],
    "text": ["-  b = f32[4]{0} negate(a)", "+  c = f32[4]{0} exponential(x)"],
}


@pytest.mark.parametrize("form", CHANGES)
def test_changes_are_shown_and_idle_passes_counted(
    form: str, twice: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    text = shown(capsys, twice, PASSES, f"--print-changed={form}")
    for expected in CHANGES[form]:
        assert expected in text
    assert "(1 run of passes changed nothing)" in text
    assert "1 dce" not in text


def test_changes_as_json_are_one_object_a_line(twice: str, capsys: Capture) -> None:
    text = shown(capsys, twice, PASSES, "--print-changed=json")
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert [step["pass"] for step in found] == ["algebraic-simplifier", "cse", "dce"]
    assert found[0]["rules"] == {"algebraic-simplifier/negate-negate": 1}
    assert found[0]["counts"]["removed"] == 2
    rows = found[1]["computations"][0]["rows"]
    assert {"merged", "rewired"} <= {row["kind"] for row in rows}
    assert any(row["by"] == "cse" for row in rows)


def test_every_rewrite_has_a_number_and_its_lines(twice: str, capsys: Capture) -> None:
    text = shown(capsys, twice, PASSES, "--trace-rewrites")
    assert "rewrite 1  algebraic-simplifier/negate-negate  at b" in text
    assert "- b = f32[4] negate(a)" in text
    assert "+ x = f32[4] parameter(0)" in text
    assert "rewrite 2  cse  at d" in text
    only = shown(capsys, twice, PASSES, "--trace-rewrites=cse")
    assert "rewrite 2  cse" in only
    assert "rewrite 1 " not in only


def test_a_limit_stops_the_whole_pipeline_and_says_where(twice: str, capsys: Capture) -> None:
    assert main([twice, PASSES, "--opt-bisect-limit=1", "--style=short"]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("exponential") == 2
    assert "negate" not in captured.out
    assert "stopped after rewrite 1, algebraic-simplifier/negate-negate at b" in captured.err
    assert main([twice, PASSES, "--opt-bisect-limit=0"]) == 0
    captured = capsys.readouterr()
    assert captured.out.count(" negate(") == 2
    assert "stopped after rewrite 0" in captured.err
    assert "not reached, the pipeline did 3 rewrites" in shown(
        capsys, twice, PASSES, "--opt-bisect-limit=99"
    )


def test_remarks_are_grouped_counted_and_said_once() -> None:
    missed = [Remark("missed", "fusion", f"i{i}", "3 users") for i in range(9)]
    found = remark_lines(
        [*missed, *missed, Remark("analysis", "dce", "x", "dead")], ("missed",), Paint(False)
    )
    assert found == ["missed: 9 remarks", "  fusion: 3 users  (%i0, %i1, %i2, %i3, ... 9 in all)"]


def test_rewrites_without_a_remark_count_as_passed(twice: str, capsys: Capture) -> None:
    text = shown(capsys, twice, PASSES, "--remarks=passed")
    assert "algebraic-simplifier/negate-negate: 1 rewrite" in text
    assert main([twice, "--remarks=mised"]) == 2
    assert "did you mean missed?" in capsys.readouterr().err


def test_times_have_costs_and_rows_for_later_stages(twice: str, capsys: Capture) -> None:
    assert main(["run", twice, "--time-passes", "--print-output=0"]) == 0
    text = capsys.readouterr().err
    assert re.search(r"pass +ms +rewrites +instrs +flops +bytes\n", text)
    assert re.search(r"    algebraic-simplifier +[\d.]+ +\d+ +-2\n", text), "inside the fixpoint"
    assert re.search(r"fixpoint of \d+ passes .* 6 -> 3 .* -\d+\.\d%", text)
    assert re.search(r"buffer-assignment +[\d.]+ +- +temp 0 B", text)
    assert re.search(r"\n  llvm +[\d.]+\n", text)
    assert re.search(r"\n  parse and verify +[\d.]+\n", text)
    assert re.search(r"\n  total +[\d.]+   passes [\d.]+ ms\n", text)


def test_times_are_data_on_stdout(twice: str, capsys: Capture) -> None:
    assert main([twice, "--time-passes=json", "-q"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [stage["name"] for stage in data["stages"]] == ["parse and verify"]
    times = [row["wall_ms"] for row in (*data["passes"], *data["stages"])]
    assert data["total_ms"] == pytest.approx(sum(times), abs=0.1)
    changed = {row["pass"]: row["instructions"] for row in data["passes"] if row["changed"]}
    assert changed["fixpoint"] == [6, 3]


def test_a_trace_nests_the_rounds_of_a_fixpoint(twice: str, capsys: Capture) -> None:
    assert main(["run", twice, "--time-passes=trace", "-q", "--print-output=0"]) == 0
    events = json.loads(capsys.readouterr().out)["traceEvents"]
    assert {event["ph"] for event in events} == {"X"}
    kinds = {event["cat"]: event for event in events}
    assert set(kinds) == {"stage", "pass", "step"}
    begin, end = _span(next(event for event in events if event["name"].startswith("fixpoint")))
    for event in events:
        if event["cat"] == "step":
            first, last = _span(event)
            assert begin - 1 <= first <= last <= end + 1
    assert [event["ts"] for event in events] == sorted(event["ts"] for event in events)


def _span(event: dict[str, Any]) -> tuple[float, float]:
    return event["ts"], event["ts"] + event["dur"]


# ---------------------------------------------------------------- dumps


def test_a_dump_holds_every_step_that_changed_something(
    twice: str, tmp_path: Path, capsys: Capture
) -> None:
    folder = tmp_path / "dump"
    said = shown(capsys, twice, PASSES, f"--dump-dir={folder}")
    assert f"dump: 3 steps, browse it in {folder / 'index.html'}\n" in said
    steps = ["00-input.hlo", "02-algebraic-simplifier.hlo", "03-cse.hlo", "04-dce.hlo"]
    graphs = [name.replace(".hlo", ".html") for name in steps[1:]]
    files = sorted([*steps, *graphs, "index.html", "manifest.json"])
    assert sorted(path.name for path in folder.iterdir()) == files
    manifest = json.loads((folder / "manifest.json").read_text())
    assert [step.get("file") for step in manifest["steps"]] == [None, *steps[1:]]
    assert [step.get("graph") for step in manifest["steps"]] == [None, *graphs]
    assert manifest["steps"][1]["instructions"] == [6, 4]
    counts = [hloc.load(str(folder / name)).instruction_count for name in steps]
    assert counts == [6, 4, 4, 3]
    assert main([str(folder / steps[1]), "-O0", "-q"]) == 0, "a step enters again"
    shown(capsys, twice, "--passes=dce", f"--dump-dir={folder}")
    left = sorted(path.name for path in folder.iterdir())
    assert left == ["00-input.hlo", "index.html", "manifest.json"], "the earlier dump has gone"


def test_the_graph_of_a_step_marks_what_its_pass_changed(twice: str, tmp_path: Path) -> None:
    assert main([twice, PASSES, f"--dump-dir={tmp_path}", "-q", "-o", os.devnull]) == 0
    graph = (tmp_path / "02-algebraic-simplifier.html").read_text()
    found = re.search(r'id="data">(.*?)</script>', graph, re.DOTALL)
    assert found is not None
    strings = json.loads(found[1])["strings"]
    assert {"removed", "rewired", "b = f32[4] negate(a)"} <= set(strings)
    assert any(text.endswith("by algebraic-simplifier/negate-negate") for text in strings)


def test_a_large_module_is_dumped_without_graphs(
    twice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hloc.cli.watching.step_graph._MOST_INSTRUCTIONS", 3)
    assert main([twice, PASSES, f"--dump-dir={tmp_path}", "-q", "-o", os.devnull]) == 0
    pages = sorted(path.name for path in tmp_path.glob("*.html"))
    assert pages == ["04-dce.html", "index.html"], "only the last step is small enough"


def test_the_page_of_a_dump_needs_no_network_and_escapes_names() -> None:
    hostile = "</script><script>alert(1)</script><!--%STYLE%"
    steps = [{"number": 1, "pass": hostile, "rows": [["+", hostile, hostile, hostile]]}]
    page = explorer_page({"module": hostile, "pipeline": hostile, "steps": steps})
    assert page.count("<script") == 2
    assert "alert(1)</script>" not in page
    assert "<!--" not in page.replace("<!doctype", "")
    assert not re.search(r"https?:|src=|href=|@import|url\(", page)
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["steps"] == steps
    marks = json.loads(data[1])["marks"]
    style = page[page.index("<style>") : page.index("</style>")]
    for mark, word in marks.items():
        assert mark == SAME or f".{word}" in style, f"rows marked {mark} have no colour"
    script = page.rpartition("<script>")[2]
    assert "innerHTML" not in script
    assert "insertAdjacentHTML" not in script


def test_a_dump_that_cannot_be_written_is_reported(
    twice: str, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "file").write_text("")
    assert main([twice, f"--dump-dir={tmp_path / 'file'}"]) == 1
    assert "cannot write" in capsys.readouterr().err
    assert main([twice, twice, "--dump-dir=x"]) == 2


# ---------------------------------------------------------------- progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    "option", ["--time-passes", "--remarks", "--check-each", "--print-changed=diff"]
)
def test_a_report_does_not_scroll_off_the_terminal(
    option: str, twice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err = Terminal(), Terminal()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    assert main([twice, "-O2", option]) == 0
    assert out.getvalue() == ""
    assert "-o - prints it" in err.getvalue()
    assert main([twice, "-O2", option, "-o", "-"]) == 0
    assert out.getvalue().startswith("HloModule")


def test_the_module_follows_a_report_that_goes_elsewhere(
    twice: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Terminal()
    monkeypatch.setattr("sys.stdout", out)
    assert main([twice, "-O2", "--remarks"]) == 0
    assert out.getvalue().startswith("HloModule")


def test_progress_shows_after_a_while_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hloc.report.progress._PATIENCE", 0.01)
    monkeypatch.setattr("hloc.report.progress._TICK", 0.01)
    for stream, expected in ((Terminal(), "1/1  "), (io.StringIO(), "")):
        progress = Progress(stream)
        pipeline = Pipeline.parse("dce")
        pipeline.observe(PassProgress(progress, PassContext(), pipeline.passes))
        with progress.running():
            pipeline.run(hloc.parse(TWICE))
            assert bool(_drawers()) == stream.isatty()
            if stream.isatty():
                wait_until(partial(_holds, stream, "1/1"), "the line is drawn")
        written = stream.getvalue()
        assert expected in written
        assert bool(written) == bool(expected)
        assert not written or written.endswith("\r\x1b[K"), "the line is taken away"
        assert not _drawers()


def _holds(stream: io.StringIO, text: str) -> bool:
    return text in stream.getvalue()


def _drawers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "hloc-progress"]
