"""`hloc graph` and `hloc roofline`: what they draw, and what they refuse."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from hloc.cli import main

MODULE = """HloModule m

ENTRY e {
  x = f32[64,64] parameter(0)
  a = f32[64,64] sine(x)
  b = f32[64,64] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT c = f32[64,64] add(b, x)
}
"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "m.hlo"
    path.write_text(MODULE)
    return str(path)


def texts(path: Path) -> list[str]:
    tree = ElementTree.parse(path)
    return [e.text or "" for e in tree.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ([], "xabc"),
        (["%b", "-r", "0"], "b"),
        (["b", "--radius=1"], "xabc"),
        (["b", "--backward"], "xab"),
        (["a", "--forward"], "abc"),
        (["x", "-r", "5", "--until=a", "--until=c"], "xabc"),
        (["--paths", "%a", "%c"], "abc"),
        (["--boxes=1"], "xabc"),
    ],
)
def test_graph_draws(words: list[str], names: str, file: str, tmp_path: Path) -> None:
    out = tmp_path / "o.svg"
    assert main(["graph", file, *words, "-q", "-o", str(out)]) == 0
    drawn = {text.removesuffix(" …").split()[-1] for text in texts(out) if "f32[" in text}
    assert drawn == set(names)


@pytest.mark.parametrize("ending", ["html", "dot"])
def test_graph_writes_other_forms(ending: str, file: str, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / f"o.{ending}"
    assert main(["graph", file, "-o", str(out)]) == 0
    assert "contraction" in out.read_text() or "#1565c0" in out.read_text()
    assert "e, 4 instructions" in capsys.readouterr().err


def test_graph_marks_a_difference(file: str, tmp_path: Path) -> None:
    before, out = tmp_path / "before.hlo", tmp_path / "o.svg"
    before.write_text(MODULE.replace("sine", "cosine"))
    assert main(["graph", file, f"--diff={before}", "-q", "-o", str(out)]) == 0
    assert 'class="b plain changed"' in out.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "expected -o with a file that ends in one of .html, .svg, .dot"),
        (["-o", "x.png"], "expected -o with a file that ends in one of"),
        (["a", "b", "-o", "x.svg"], "at most one name, found 2 names"),
        (["a", "--paths", "-o", "x.svg"], "--paths: expected two instructions, found 1"),
        (["--radius=3", "-o", "x.svg"], "--radius needs the name of one instruction"),
        (["a", "--backward", "--forward", "-o", "x.svg"], "exclude each other"),
        (["zzz", "-o", "x.svg"], "has no instruction named 'zzz'"),
    ],
)
def test_graph_refuses(words: list[str], message: str, file: str, capsys: Capture) -> None:
    assert main(["graph", file, *words]) != 0
    assert message in capsys.readouterr().err


def test_emit_draws_the_optimised_module(file: str, tmp_path: Path) -> None:
    assert main([file, "-q", "--emit=svg,dot,html", "-o", str(tmp_path / "o")]) == 0
    assert "dot" in " ".join(texts(tmp_path / "o.svg"))
    assert (tmp_path / "o.dot").read_text().startswith("digraph")
    assert (tmp_path / "o.html").read_text().startswith("<!doctype html>")


def test_roofline_measures_kernels(file: str, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "o.svg"
    assert main(["roofline", file, "--run", "-o", str(out)]) == 0
    assert "kernels under" in capsys.readouterr().err
    assert "modelled" not in out.read_text()


def test_roofline_without_run_says_that_it_guesses(file: str, tmp_path: Path) -> None:
    out = tmp_path / "o.svg"
    assert main(["roofline", file, "-q", "-O0", "-o", str(out)]) == 0
    assert sum("modelled times" in text for text in texts(out)) >= 2  # title and note


def test_roofline_prints_a_table_of_modelled_times(file: str, capsys: Capture) -> None:
    assert main(["roofline", file, "-q"]) == 0
    header, *rows, note = capsys.readouterr().out.splitlines()
    assert header.split("  ")[0] == "kernel"
    assert "modelled time" in header
    assert "modelled" in note
    assert "--run" in note
    assert rows
    assert all(row.split()[-2:] in (["-", "memory"], ["-", "compute"]) for row in rows)


def test_a_measured_table_shows_the_share_of_the_roof(file: str, capsys: Capture) -> None:
    assert main(["roofline", file, "-q", "--run"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert "modelled" not in header
    rows = [row for row in rows if row.split()[-1] in ("memory", "compute")]  # others are notes
    assert rows
    assert all(row.split()[-2].endswith("%") for row in rows)


def test_roofline_refuses_another_ending(file: str, capsys: Capture) -> None:
    assert main(["roofline", file, "-o", "x.html"]) == 2
    assert "ends in .svg" in capsys.readouterr().err
