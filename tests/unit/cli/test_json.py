"""`--format=json`: one document per command, with a version, as docs/json.md describes it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hloc.cli import main

TEXT = """HloModule m

ENTRY e {
  x = f32[4] parameter(0)
  n = f32[4] negate(x)
  k = f32[4] negate(n)
  s = f32[4] sort(k), dimensions={0}, to_apply=less
  ROOT t = f32[4] tanh(s)
}
"""
LESS = """less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}

"""
PAGE = (Path(__file__).parents[3] / "docs" / "json.md").read_text()
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.hlo").write_text(TEXT.replace("ENTRY", LESS + "ENTRY"))
    (tmp_path / "bad.hlo").write_text("HloModule m\nENTRY e { ROOT a = f32[] parametr(0) }\n")
    return tmp_path


COMMANDS = {
    "compile": ["m.hlo"],
    "verify": ["verify", "m.hlo"],
    "diff": ["diff", "m.hlo", "m.hlo"],
    "stats": ["stats", "m.hlo"],
    "bisect": ["bisect", "m.hlo"],
    "passes": ["passes", "cse"],
    "rules": ["rules", "add-zero"],
    "ops": ["ops", "tanh"],
    "targets": ["targets", "x86_64", "cpu"],
    "doctor": ["doctor"],
    "dump": ["doctor", "."],
    "dumps": ["doctor", "m.hlo", "m.hlo"],
    "cache": ["cache"],
}


def _document(capsys: Capture, *arguments: str, code: int = 0) -> Any:
    assert main([*arguments, "--format=json"]) == code
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("cache_folder")
@pytest.mark.parametrize("report", COMMANDS)
def test_every_document_has_a_version_and_fields_of_the_page(report: str, capsys: Capture) -> None:
    if report == "dump":
        Path("bad.hlo").unlink()
    found = _document(capsys, *COMMANDS[report])
    assert (found["schema"], found["report"]) == (1, report)
    (row,) = (line for line in PAGE.splitlines() if f"| `{report}` |" in line)
    assert not [name for name in list(found)[2:] if f"`{name}`" not in row]


def test_a_run_has_all_its_reports(capsys: Capture) -> None:
    options = ("--time-passes", "--remarks", "--memory", "--profile", "--compare-each")
    found = _document(capsys, "run", "m.hlo", "--compare-with=interp", *options)
    (module,) = found["modules"]
    parts = PAGE.partition("## Parts")[2]
    for name, part in module.items():
        (row,) = (line for line in parts.splitlines() if line.startswith(f"| `{name}` |"))
        known = part if isinstance(part, dict) else part[0]
        words = row if name != "memory" else row + "`parameter_bytes`, `output_bytes`, " \
            "`constant_bytes`, `arena_bytes`, `aliased_bytes`"  # fmt: skip
        assert not [field for field in known if f"`{field}`" not in words], name
    assert set(module) == {
        "module", "times", "remarks", "memory", "run", "outputs", "profile", "comparison",
        "compare_each",
    }  # fmt: skip
    assert module["module"]["instructions"] == 8
    assert module["comparison"]["ok"]
    assert module["outputs"][0]["shape"] == "f32[4]"
    assert {"kind": "passed", "by": "algebraic-simplifier/negate-negate"}.items() <= (
        module["remarks"][0].items()
    )


def test_the_peak_of_memory_has_its_live_buffers(capsys: Capture) -> None:
    found = _document(capsys, "run", "m.hlo", "-O0", "--memory")["modules"][0]["memory"]
    peak = found["peak"]
    assert set(peak) == {"bytes", "step", "at", "live"}
    assert peak["bytes"] == sum(buffer["bytes"] for buffer in peak["live"]) > 0
    assert all(buffer in found["buffers"] for buffer in peak["live"])


def test_a_failed_comparison_names_the_worst_element(folder: Path, capsys: Capture) -> None:
    np.savez(folder / "x.npz", out0=np.array([9, 0, 0, 0], np.float32))
    run = ("run", "m.hlo", "--input=x=0", "--compare-with=x.npz")
    (module,) = _document(capsys, *run, code=1)["modules"]
    found = module["comparison"]
    assert (found["ok"], found["different"]) == (False, 1)
    assert found["worst"] == {"at": "out0[0]", "is": "0.0", "expected": "9.0"}


def test_values_that_json_lacks_are_texts(capsys: Capture) -> None:
    found = _document(capsys, "run", "m.hlo", "--input=x=[nan,0,inf,-inf]")
    assert found["modules"][0]["outputs"][0]["values"] == [-1.0, 0.0, 1.0, "nan"]


def test_diagnostics_of_verify_have_places(capsys: Capture) -> None:
    bad, good = _document(capsys, "verify", "bad.hlo", "m.hlo", code=1)["files"]
    assert good == {
        "file": "m.hlo",
        "ok": True,
        "modules": [{"name": "m", "instructions": 8, "computations": 2}],
        "diagnostics": [],
    }
    (diagnostic,) = bad["diagnostics"]
    assert diagnostic["message"] == "unknown opcode: parametr; did you mean parameter?"
    places = [diagnostic[key] for key in ("file", "line", "column", "length")]
    assert places == ["bad.hlo", 2, 26, 8]


def test_the_module_needs_a_file_of_its_own(folder: Path, capsys: Capture) -> None:
    assert main(["m.hlo", "--format=json", "--emit=hlo"]) == 2
    assert "--format=json with --emit needs -o FILE" in capsys.readouterr().err
    _document(capsys, "m.hlo", "-o", "out.hlo")
    assert "negate" not in (folder / "out.hlo").read_text()
