"""The tools around the front end, as a user meets them: diff, stats, extract, fmt, explain."""

import gzip
import json
import os
import re
import resource
import subprocess
import sys
from codecs import BOM_UTF8
from pathlib import Path

import pytest

import hloc
from hloc.cli import main
from hloc.diagnostics import EXPLANATIONS
from hloc.ops import OPCODES
from hloc.opt.registry import PASSES
from hloc.report.describe import all_rules
from hloc.report.explanation import explanation_of

TEXT = """HloModule m

ENTRY e {
  x = f32[4] parameter(0)
  n = f32[4] negate(x)
  ROOT t = f32[4] tanh(n)
}
"""
OTHER = TEXT.replace("tanh(n)", "tanh(x)").replace("  n = f32[4] negate(x)\n", "")
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.hlo").write_text(TEXT)
    (tmp_path / "b.hlo").write_text(OTHER)
    (tmp_path / "two.hlo").write_text(f"{TEXT}// -----\n{OTHER}")
    (tmp_path / "bad.hlo").write_text("HloModule m\nENTRY e { ROOT a = f32[] parametr(0) }\n")
    return tmp_path


pytestmark = pytest.mark.usefixtures("folder")


def test_diff_has_the_exit_codes_of_diff(capsys: Capture) -> None:
    assert main(["diff", "a.hlo", "a.hlo"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["diff", "a.hlo", "b.hlo"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "- a.hlo",
        "+ b.hlo",
        "ENTRY e",
        "    x = f32[4] parameter(0)",
        "  - n = f32[4] negate(x)",
        "  ⇄ ROOT t = f32[4] tanh(n → x)",
        "-1 ⇄1   (- removed, ⇄ rewired)",
    ]
    assert main(["diff", "a.hlo", "bad.hlo"]) == 2
    assert main(["diff", "a.hlo"]) == 2


def test_diff_counts_and_data(capsys: Capture) -> None:
    assert main(["diff", "a.hlo", "b.hlo", "--stat"]) == 1
    assert capsys.readouterr().out == "  e  -1 ⇄1\ntotal: -1 ⇄1\n"
    assert main(["diff", "a.hlo", "b.hlo", "--format=json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["same"], data["counts"]["removed"], data["counts"]["rewired"]) == (False, 1, 1)
    assert [row["kind"] for row in data["computations"][0]["rows"]] == ["removed", "rewired"]


def test_diff_writes_a_page_with_escaped_texts(folder: Path, capsys: Capture) -> None:
    hostile = 'negate(x), metadata={op_name="</pre><script>"}'
    (folder / "<b>.hlo").write_text(TEXT.replace("negate(x)", hostile))
    options = ("--html=d.html", "--ignore=none")
    assert main(["diff", "a.hlo", "<b>.hlo", *options]) == 1
    assert capsys.readouterr().out == ""
    page = (folder / "d.html").read_text()
    assert "<h1>a.hlo → &lt;b&gt;.hlo</h1>" in page
    assert "<script" not in page
    assert "&lt;/pre&gt;&lt;script&gt;" in page
    assert main(["diff", "a.hlo", "a.hlo", *options]) == 0
    assert main(["diff", "a.hlo", "b.hlo", "--html=d.txt"]) == 2


def test_the_contents_of_a_page_of_differences_lead_to_computations(folder: Path) -> None:
    body = "{name} {{ p = f32[] parameter(0)\n ROOT r = f32[] {opcode}(p) }}\n"
    for opcode in ("sine", "cosine"):
        text = "".join(body.format(name=name, opcode=opcode) for name in ("f", "g"))
        entry = "ENTRY e { x = f32[] parameter(0)\n a = f32[] call(x), to_apply=f\n "
        entry += "ROOT b = f32[] call(a), to_apply=g }\n"
        (folder / f"{opcode}.hlo").write_text(f"HloModule m\n{text}{entry}")
    assert main(["diff", "sine.hlo", "cosine.hlo", "--html=d.html", "--expand"]) == 1
    page = (folder / "d.html").read_text()
    links = re.findall(r'href="#(\w+)"', page)
    assert len(links) == 2
    assert all(f'id="{link}"' in page for link in links)


def test_what_diff_ignores_can_be_chosen(folder: Path, capsys: Capture) -> None:
    (folder / "c.hlo").write_text(TEXT.replace("ENTRY e", "ENTRY g"))
    assert main(["diff", "a.hlo", "c.hlo"]) == 0
    assert main(["diff", "a.hlo", "c.hlo", "--ignore=none"]) == 1
    assert "@ ENTRY g" in capsys.readouterr().out
    assert main(["diff", "a.hlo", "c.hlo", "--ignore=layout"]) == 2
    assert "did you mean layouts?" in capsys.readouterr().err


def test_stats_of_every_module_in_a_file(capsys: Capture) -> None:
    assert main(["stats", "two.hlo"]) == 0
    out = capsys.readouterr().out
    assert out.count("module m\n") == 2
    assert "size        3 instructions, 1 computation" in out
    assert main(["stats", "a.hlo", "--by=opcode"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["opcode", "count", "FLOP", "transc.", "bytes"]
    assert ["tanh", "1", "0", "4", "32", "B"] in [line.split() for line in lines]
    assert main(["stats", "a.hlo", "--by=opcodes"]) == 2
    assert "did you mean opcode?" in capsys.readouterr().err


def test_stats_as_data(capsys: Capture) -> None:
    assert main(["stats", "two.hlo", "--format=json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["modules"]
    assert (first["file"], first["instructions"], second["instructions"]) == ("two.hlo", 3, 2)
    assert first["opcodes"]["tanh"]["cost"]["transcendentals"] == 4


def test_extract_prints_or_writes_a_module(folder: Path, capsys: Capture) -> None:
    assert main(["extract", "a.hlo", "%t", "--height=0"]) == 0
    captured = capsys.readouterr()
    assert [i.name for i in hloc.parse(captured.out).entry.instructions] == ["n", "t"]
    assert "t with 2 instructions, 1 parameter" in captured.err
    assert main(["extract", "a.hlo", "n", "-o", "out.hlo", "-q"]) == 0
    assert hloc.load(str(folder / "out.hlo")).instruction_count == 2
    assert main(["extract", "a.hlo", "tt"]) == 1
    assert main(["extract", "a.hlo"]) == 2
    assert main(["extract", "two.hlo", "t"]) == 1
    assert "two.hlo holds 2 modules, expected one" in capsys.readouterr().err


def test_fmt_checks_shows_and_rewrites(folder: Path, capsys: Capture) -> None:
    path = folder / "a.hlo"
    assert main(["fmt", "--check", "a.hlo", "two.hlo"]) == 0
    path.write_text(TEXT.replace("  n =", "n  =  "))
    assert main(["fmt", "--check", "a.hlo"]) == 1
    assert "a.hlo: would be formatted" in capsys.readouterr().err
    assert main(["fmt", "--diff", "a.hlo"]) == 1
    assert "-n  =   f32[4] negate(x)" in capsys.readouterr().out
    assert path.read_text() != TEXT
    assert main(["fmt", "a.hlo"]) == 0
    assert path.read_text() == TEXT
    assert main(["fmt", "a.hlo", "bad.hlo"]) == 0  # an unknown opcode is no fault of the syntax
    assert main(["fmt", "--check", "--diff", "a.hlo"]) == 2


def test_fmt_leaves_a_broken_file_alone(folder: Path, capsys: Capture) -> None:
    path = folder / "a.hlo"
    path.write_text(TEXT.replace("negate(x)", "negate(x"))
    before = path.read_text()
    assert main(["fmt", "a.hlo"]) == 1
    assert path.read_text() == before
    assert "error[HLOC0102]" in capsys.readouterr().err


def test_everything_with_a_name_is_explained(capsys: Capture) -> None:
    for name in (*EXPLANATIONS, *PASSES, *OPCODES, *(rule.name for rule in all_rules())):
        assert name in explanation_of(name)
    assert main(["explain", "hloc0104", "exit-codes", "--run"]) == 2
    assert main(["explain", "hloc0104", "exit-codes"]) == 0
    out = capsys.readouterr().out
    assert "HLOC0104: unknown opcode" in out
    assert " 70  internal error in hloc" in out
    assert main(["explain", "HLOC0140"]) == 1
    assert "did you mean HLOC0" in capsys.readouterr().err


def test_errors_say_how_to_learn_more(capsys: Capture) -> None:
    assert main(["parse", "bad.hlo"]) == 1
    assert capsys.readouterr().err.endswith("explain a code with: hloc explain HLOC0104\n")


def test_files_of_several_modules_are_taken_one_by_one(folder: Path, capsys: Capture) -> None:
    assert main(["parse", "two.hlo"]) == 0
    assert capsys.readouterr().out.count("\n// -----\n") == 1
    assert main(["verify", "two.hlo"]) == 0
    assert capsys.readouterr().err.count(": OK, module m") == 2
    assert main(["two.hlo", "--run", "--random", "--repeat=1"]) == 0
    assert main(["two.hlo", "-o", "x.hlo"]) == 2
    (folder / "two.hlo").write_text(f"{TEXT}// -----\n{OTHER.replace('tanh', 'tahn')}")
    assert main(["verify", "two.hlo"]) == 1
    assert "two.hlo:13:19: error[HLOC0104]" in capsys.readouterr().err


def test_every_rule_is_explained_by_its_law(capsys: Capture) -> None:
    for rule in all_rules():
        assert " → " in explanation_of(rule.name), rule.name
    assert main(["explain", "add-constants"]) == 0
    assert "add(add(x, c <splat>), d <splat>) → add(x, c + d)" in capsys.readouterr().out


def test_a_byte_order_mark_at_the_start_of_a_file_is_ignored(folder: Path, capsys: Capture) -> None:
    (folder / "m.hlo").write_bytes(BOM_UTF8 + TEXT.encode())
    (folder / "m.hlo.gz").write_bytes(gzip.compress(BOM_UTF8 + TEXT.encode()))
    (folder / "both.hlo").write_bytes(BOM_UTF8 + f"{TEXT}// -----\n{OTHER}".encode())
    for command in (["parse", "m.hlo"], ["parse", "m.hlo.gz"], ["parse", "both.hlo"]):
        assert main(command) == 0
        assert "\ufeff" not in capsys.readouterr().out
    assert main(["fmt", "m.hlo"]) == 0
    wrong = TEXT.replace("HloModule", "HloModul")
    (folder / "m.hlo").write_bytes(BOM_UTF8 + wrong.encode())
    assert main(["verify", "m.hlo"]) == 1
    assert "m.hlo:1:10: error" in capsys.readouterr().err


def test_a_folder_is_for_other_commands(folder: Path, capsys: Capture) -> None:
    (folder / "dump").mkdir()
    assert main(["dump"]) == 1
    expected = "cannot read dump: is a directory\nnote: hloc doctor dump explains"
    found = capsys.readouterr().err
    assert expected in found
    assert "hlo-repl dump steps through it" in found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_DATA counts all on Linux")
def test_small_modules_run_in_512_mib(folder: Path) -> None:
    """Containers and batch systems limit memory; reading never asks for more than the file."""
    limit = 512 << 20
    for command in (["run", "a.hlo"], ["parse", "a.hlo"], ["run", "-"]):
        done = subprocess.run(
            [sys.executable, "-m", "hloc", *command],
            input=TEXT,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
        )
        assert done.returncode == 0, done.stderr
