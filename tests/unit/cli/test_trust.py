"""Passes that fail or lie are caught, named, and leave a file that lets them fail again."""

import re
import threading
from pathlib import Path

import numpy as np
import pytest

import hloc
from hloc.cli import main
from hloc.dtypes import DTYPES, DType
from hloc.report.inputs import special_inputs
from hloc.report.time_limit import TookTooLong, time_limit
from tests.unit.cli.plugins import CRASHES, INVALID, LIES, WRONG_RULE, long_module, plugin_file

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def module(tmp_path: Path) -> str:
    path = tmp_path / "long.hlo"
    path.write_text(long_module())
    return str(path)


FAULTS = {
    "crash": (CRASHES, ["--passes=cse,planted"], r"pass planted failed: ZeroDivisionError"),
    "invalid": (
        INVALID,
        ["--passes=cse,planted", "--verify-each"],
        "pass planted left an invalid module",
    ),
    "lie": (LIES, ["--passes=cse,planted", "--check-each"], "pass planted says unchanged, but"),
    "wrong": (
        WRONG_RULE,
        ["-O2", "--check-each"],
        r"pass algebraic-simplifier changes the answer: out0\[\d,\d\] is \S+, expected \S+",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_of_a_pass_leaves_a_reproducer_that_fails_in_the_same_way(
    case: str, module: str, tmp_path: Path, capsys: Capture
) -> None:
    plugin, options, message = FAULTS[case]
    load = plugin_file(tmp_path, plugin)
    folder = tmp_path / "repro"
    assert main([module, load, *options, f"--repro-dir={folder}"]) == 70
    error = capsys.readouterr().err
    assert re.search(message, error)
    path = folder / "long.repro.hlo"
    assert f"reproducer: {path}" in error
    first, second = path.read_text().splitlines()[:2]
    assert first.startswith("// hloc-repro: --passes=")
    assert second == f"// needs {load}"
    assert main([str(path), load, f"--repro-dir={tmp_path / 'again'}"]) == 70
    assert re.search(message, capsys.readouterr().err)


def test_the_reproducer_is_the_module_before_the_pass(
    module: str, tmp_path: Path, capsys: Capture
) -> None:
    load = plugin_file(tmp_path, CRASHES)
    options = ["--passes=algebraic-simplifier,planted", f"--repro-dir={tmp_path}"]
    assert main([module, load, *options]) == 70
    error = capsys.readouterr().err
    assert "rewrite: planted/divide" in error
    assert "instruction: v25 in e" in error
    text = (tmp_path / "long.repro.hlo").read_text()
    assert text.startswith("// hloc-repro: --passes=planted --opt-bisect-limit=1\n")
    assert main([module, "--passes=algebraic-simplifier", "-q"]) == 0
    body = text.split("\n", 2)[2]
    assert body == capsys.readouterr().out


def test_without_a_folder_the_reproducer_goes_to_a_temporary_one(
    module: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main([module, plugin_file(tmp_path, CRASHES), "--passes=planted"]) == 70
    (found,) = tmp_path.glob("hloc-repro-*/long.repro.hlo")
    assert str(found) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("--plugin=evil.py", "may not set plugin"),
        ("-o /tmp/x", "may not set output-file"),
        ("other.hlo", "may not set files"),
        ("--passes='cse", "cannot be read"),
        ("--pases=cse", "unknown option --pases"),
    ],
)
def test_a_header_cannot_ask_for_anything(
    header: str, message: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "x.repro.hlo"
    path.write_text(f"// hloc-repro: {header}\n{long_module()}")
    assert main([str(path)]) == 1
    assert message in capsys.readouterr().err


def test_a_header_counts_when_asked_for_or_by_the_name(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "x.hlo"
    path.write_text(f"// hloc-repro: --passes=cse\n{long_module()}")
    assert main([str(path), "-O2", "-q"]) == 0
    assert "fusion" in capsys.readouterr().out
    assert main([str(path), "--repro", "-q"]) == 0
    assert "fusion" not in capsys.readouterr().out
    path.write_text(long_module())
    assert main([str(path), "--repro"]) == 1
    assert main(["-", "--repro"]) == 2


def test_good_passes_keep_the_answer(module: str, capsys: Capture) -> None:
    assert main([module, "--check-each", "--fast-math", "-o", "/dev/null"]) == 0
    kept = r"check-each: (1 run of a pass keeps|\d+ runs of passes keep) the answer on"
    assert re.search(f"{kept} 2 input sets", capsys.readouterr().err), "no special values"
    assert main([module, "--check-each", "-o", "/dev/null"]) == 0
    assert re.search(f"{kept} 3 input sets", capsys.readouterr().err)


def test_what_the_evaluator_cannot_take_is_compared_compiled(
    module: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hloc.report.answers.EVALUATOR_FLOPS", 10)
    assert main([module, "--passes=cse,dce,fusion", "--check-each", "-o", "/dev/null"]) == 0
    error = capsys.readouterr().err
    assert "too large for the evaluator; comparing code compiled at -O0" in error
    assert re.search("keeps? the answer on 3 input sets", error)


def test_special_inputs_hold_what_breaks_laws() -> None:
    module = hloc.parse(
        "HloModule m\nENTRY e {\n a = f32[500] parameter(0)\n b = s8[500] parameter(1)\n"
        " c = c64[500] parameter(2)\n i = s32[] parameter(3)\n t = bf16[500] parameter(4)\n"
        " d = f32[5] dynamic-slice(a, i), dynamic_slice_sizes={5}\n"
        " ROOT r = (f32[5], s8[500], c64[500], bf16[500]) tuple(d, b, c, t)\n}\n"
    )
    a, b, c, i, t = special_inputs(module, 0)
    assert np.isnan(a).any()
    assert np.isposinf(a).any()
    assert np.isneginf(a).any()
    assert (np.signbit(a) & (a == 0)).any()
    assert (np.abs(a[a != 0]) < np.finfo(np.float32).tiny).any()
    assert {-128, 127, 0, -1, 1} == set(b.tolist())
    assert np.isnan(c.imag).any()
    assert np.isfinite(c.real).any()
    assert 0 <= i <= 495
    tiny = np.abs(t.astype(np.float32))
    assert ((tiny > 0) & (tiny < 1e-38)).any()
    again = special_inputs(module, 0)
    assert all(x.tobytes() == y.tobytes() for x, y in zip((a, b, c, i, t), again, strict=True))


def test_a_time_limit_ends_an_endless_loop() -> None:
    with pytest.raises(TookTooLong), time_limit(0.05):
        threading.Event().wait()
    with time_limit(60):
        pass


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if not d.is_special], ids=str)
def test_special_inputs_exist_for_every_type(dtype: DType) -> None:
    module = hloc.parse(f"HloModule m\nENTRY e {{\n ROOT a = {dtype}[99] parameter(0)\n}}\n")
    (array,) = special_inputs(module, 0)
    assert (array.dtype, array.shape) == (dtype.numpy, (99,))
    assert len({element.tobytes() for element in array}) > 1
