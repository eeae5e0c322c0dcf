"""`--memory` and `--memory-limit`: the report, the chart, and what a limit does."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from hloc.cli import main
from hloc.codegen.cpu.backend import CpuBackend
from hloc.driver import parse_text
from hloc.ir.module import Module
from hloc.memory.assigned_buffers import BufferAssignment
from hloc.options import CompileOptions
from hloc.pictures.colours import TITLES
from hloc.report.memory_chart import memory_chart
from hloc.report.memory_report import memory_lines

CHAIN = """HloModule chain

ENTRY e {
  x = f32[1000] parameter(0)
  a = f32[1000] sine(x), metadata={op_name="jit(f)/<sin> & \\"co\\""}
  b = f32[1000] reverse(a), dimensions={0}
  c = f32[1000] multiply(a, b)
  d = f32[1000] reverse(c), dimensions={0}
  f = f32[1000] add(c, d)
  g = f32[1000] reverse(f), dimensions={0}
  ROOT r = f32[1000] add(g, a)
}
"""
SVG = "{http://www.w3.org/2000/svg}"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def chain(tmp_path: Path) -> str:
    path = tmp_path / "chain.hlo"
    path.write_text(CHAIN)
    return str(path)


def assigned(text: str) -> BufferAssignment:
    return lowered(text)[1]


def drawing(text: str) -> str:
    return memory_chart(*lowered(text))


def lowered(text: str) -> tuple[Module, BufferAssignment]:
    module = parse_text(text)
    program = CpuBackend().plan(module, CompileOptions(opt_level=0))
    return module, program.plan.assignment


def test_the_report_shows_the_peak() -> None:
    lines = memory_lines(assigned(CHAIN))
    assert "  parameters           4,000  1 array" in lines
    assert "  arena                8,032  2 buffers" in lines
    assert any(
        line.startswith("peak 8,000 bytes of the arena, 32 bytes (0.4 %) in") for line in lines
    )
    assert any('a sine (jit(f)/<sin> & "co")' in line for line in lines)


def test_a_module_without_temporaries_has_a_short_report() -> None:
    lines = memory_lines(assigned("HloModule m\nENTRY e {\n  ROOT x = f32[2] parameter(0)\n}"))
    assert len(lines) == 6
    assert not any("peak" in line for line in lines)


def test_the_report_goes_to_stderr_and_leaves_stdout_alone(chain: str, capsys: Capture) -> None:
    assert main([chain, "-O0", "--memory"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "peak 8,000 bytes" in err


def test_the_chart_is_an_svg_with_a_rectangle_per_live_range(chain: str, tmp_path: Path) -> None:
    path = tmp_path / "chain.svg"
    assert main([chain, "-q", "-O0", f"--memory={path}"]) == 0
    root = ElementTree.fromstring(path.read_text())
    rectangles = [r for r in root.iter(f"{SVG}rect") if r.get("class", "").startswith("b ")]
    assert len(rectangles) == 2
    assert 'jit(f)/<sin> & "co"' in "".join(rectangles[0].itertext())
    assert root.find(f"{SVG}line[@class='peak']") is not None


def test_the_chart_is_the_same_every_time_and_survives_any_name() -> None:
    text = CHAIN.replace("jit(f)", "]]>\\001\\200-->")
    drawn = drawing(text)
    ElementTree.fromstring(drawn)
    assert drawn == drawing(text)


def test_a_chart_names_its_axes_and_colours() -> None:
    texts = [e.text for e in ElementTree.fromstring(drawing(CHAIN)).iter(f"{SVG}text")]
    assert {
        "offset",
        "steps of the schedule",
        "2 buffers of temporaries, each while it is in use",
    } < {*texts}
    assert {TITLES["plain"], TITLES["movement"]} & {*texts}
    assert {"0 B", "2.0 KiB", "4.0 KiB"} < {*texts}, "offsets are round"


def test_a_chart_of_nothing_says_so() -> None:
    drawn = drawing("HloModule m\nENTRY e {\n  ROOT x = f32[2] parameter(0)\n}")
    texts = [e.text or "" for e in ElementTree.fromstring(drawn).iter(f"{SVG}text")]
    assert len(texts) == 2, "no axes without anything on them"
    assert texts[1].startswith("no temporaries")


def test_the_chart_wants_an_svg(chain: str, capsys: Capture) -> None:
    assert main([chain, "--memory=chart.png"]) == 2
    assert "ends in .svg" in capsys.readouterr().err


def test_a_limit_makes_the_arena_smaller(chain: str, capsys: Capture) -> None:
    assert main([chain, "-O0", "--memory-limit=10K", "--emit=hlo"]) == 0
    assert "a.remat" in capsys.readouterr().out


def test_a_limit_that_cannot_be_kept_refuses_to_run(chain: str, capsys: Capture) -> None:
    assert main([chain, "-O0", "--memory-limit=1K", "--run"]) == 1
    assert "more than the memory limit, 1024 bytes" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "x", "0.5", "-3", "5E", "9999999999G", "9" * 400, ""])
def test_a_limit_is_a_number_of_bytes(chain: str, text: str, capsys: Capture) -> None:
    assert main([chain, f"--memory-limit={text}", "-o", "/dev/null"]) == 2
    assert "--memory-limit" in capsys.readouterr().err
