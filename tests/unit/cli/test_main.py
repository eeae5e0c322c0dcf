"""The command as a user meets it: exit codes, what goes to which stream, and no traceback ever."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hloc
from hloc import driver
from hloc.cli import main
from hloc.cli.commands import COMMANDS, COMPILE_COMMAND
from hloc.errors import InternalError
from tests.tolerance import bounds
from tests.waiting import PATIENCE, wait_for_work

ROOT = Path(__file__).resolve().parents[3]
SUM = """HloModule sums

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY e {
  x = f32[8,16] parameter(0)
  y = f32[8,16] parameter(1)
  p = f32[8,16] multiply(x, y)
  z = f32[] constant(0)
  ROOT r = f32[8] reduce(p, z), dimensions={1}, to_apply=add
}
"""
WRONG = SUM.replace("multiply(x, y)", "multply(x, w)")
ENDLESS = """HloModule endless
body { s = s32[] parameter(0)  o = s32[] constant(1)  ROOT n = s32[] add(s, o) }
condition { s = s32[] parameter(0)  ROOT r = pred[] constant(true) }
ENTRY e { s = s32[] parameter(0)  ROOT w = s32[] while(s), condition=condition, body=body }
"""
LONG_KERNEL = """HloModule long
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  i = f32[10000000,1000000] iota(), iota_dimension=1
  z = f32[] constant(0)
  ROOT r = f32[] reduce(i, z), dimensions={0,1}, to_apply=add
}
"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def sums(tmp_path: Path) -> str:
    return write(tmp_path, "sums.hlo", SUM)


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_hlo_is_the_product_and_can_be_read_again(sums: str, capsys: Capture) -> None:
    assert main([sums, "-O1"]) == 0
    captured = capsys.readouterr()
    assert "module sums" in captured.err
    assert hloc.parse(captured.out).name == "sums"
    assert main([sums, "-O2", "-q", "--style=short"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "fusion" in captured.out
    hloc.parse(captured.out)


EXAMPLES = sorted((ROOT / "examples").rglob("*.hlo"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_optimised_examples_can_be_read_again(path: Path, capsys: Capture) -> None:
    """`--emit=hlo` is a module like any other, fusions and all."""
    for level in ("-O0", "-O2"):
        assert main([str(path), level, "-q", "--verify-each"]) == 0
        again = hloc.parse(capsys.readouterr().out).to_text("short")
        assert main([str(path), level, "-q", "--style=short"]) == 0
        text = capsys.readouterr().out
        assert sorted(again.splitlines()) == sorted(text.splitlines()), "but for their order"


@pytest.mark.parametrize("kind", ["schedule", "buffers", "llvm-ir", "llvm-ir-opt", "asm"])
def test_every_kind_is_printed(kind: str, sums: str, capsys: Capture) -> None:
    assert main([sums, f"--emit={kind}"]) == 0
    expected = {"schedule": "is_scheduled", "llvm-ir": "define", "llvm-ir-opt": "define"}
    out = capsys.readouterr().out
    assert expected.get(kind, "") in out
    assert len(out) > 20


def test_several_kinds_go_to_files_of_their_own(sums: str, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out.x"
    assert main([sums, "--emit=hlo,llvm-ir,obj", "-o", str(out)]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "out.hlo").read_text().startswith("HloModule sums")
    assert "define" in (tmp_path / "out.ll").read_text()
    assert (tmp_path / "out.o").stat().st_size > 100
    assert main([sums, "-o", str(tmp_path / "single")]) == 0
    assert (tmp_path / "single").read_text().startswith("HloModule sums")


@pytest.mark.parametrize("also", ["--memory", "--run"])
def test_an_output_file_is_written_whatever_else_is_asked(
    also: str, sums: str, tmp_path: Path
) -> None:
    out = tmp_path / "out.hlo"
    assert main([sums, also, "-o", str(out)]) == 0
    assert out.read_text().startswith("HloModule sums")


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3"])
def test_a_run_is_reported_and_compared(level: str, sums: str, capsys: Capture) -> None:
    assert main([sums, level, "--run", "--random=3", "--compare-with=interp"]) == 0
    captured = capsys.readouterr()
    assert "run: output f32[8]  median" in captured.err
    assert "compare with interp: OK  max" in captured.err
    assert captured.out.startswith("out0 = f32[8] {")


def test_inputs_and_outputs_are_files(sums: str, tmp_path: Path, capsys: Capture) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(-1, 1, (8, 16)).astype(np.float32) for _ in range(2))
    inputs, outputs = str(tmp_path / "in.npz"), str(tmp_path / "out.npz")
    np.savez(inputs, arg0=x, arg1=y)
    assert main(["run", sums, "--inputs", inputs, "--output", outputs, "-O2"]) == 0
    assert capsys.readouterr().out == ""
    with np.load(outputs) as stored:
        np.testing.assert_allclose(stored["out0"], (x * y).sum(1), **bounds("f32 one sign"))
    assert main(["run", sums, "--inputs", inputs, f"--compare-with={outputs}", "-O0"]) == 0
    np.savez(outputs, out0=np.zeros(8, np.float32))
    assert main(["run", sums, "--inputs", inputs, f"--compare-with={outputs}"]) == 1
    assert "FAILED  8 of 8 elements differ, worst: out0[" in capsys.readouterr().err
    capsys.readouterr()
    assert main(["run", sums, "--inputs", inputs, f"--compare-with={outputs}", "-q"]) == 1
    assert "FAILED" in capsys.readouterr().err
    loose = ["--atol=100", "--compare-with=" + outputs]
    assert main(["run", sums, "--inputs", inputs, *loose]) == 0


def test_single_inputs_are_given_by_specs(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(
        "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  y = f32[2] parameter(1)\n"
        "  ROOT r = f32[2] subtract(x, y)\n}\n"
    )
    run = ["run", str(path), "--input=x=[5,7]"]
    assert main([*run, "--input", "arg1=2xf32=ones"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "out0 = f32[2] {4, 6}\n"
    assert "random" not in captured.err
    assert main([*run, "--inputs", _saved(tmp_path, x=[1, 1], y=[2, 3]), "-q"]) == 0
    assert capsys.readouterr().out == "out0 = f32[2] {3, 4}\n"
    assert main(run) == 0
    assert "no other inputs given: random, seed 0" in capsys.readouterr().err
    assert main(["run", str(path), "--input=z=1"]) == 1
    assert "the module takes no 'z'\nnote: it takes x, y" in capsys.readouterr().err


def _saved(folder: Path, **arrays: list[float]) -> str:
    path = str(folder / "in.npz")
    named: dict[str, Any] = {name: np.array(row, np.float32) for name, row in arrays.items()}
    np.savez(path, **named)
    return path


def test_printed_elements_are_counted(sums: str, capsys: Capture) -> None:
    assert main(["run", sums, "-q", "--print-output=3"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.count(",") == 3
    assert captured.out.endswith(", ...}\n")
    assert main(["run", sums, "-q", "--print-output=0"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["run", sums, "-q", "--print-output"]) == 0
    assert "..." not in capsys.readouterr().out


def test_a_profile_has_a_line_per_kernel(tmp_path: Path, capsys: Capture) -> None:
    file = write(
        tmp_path,
        "m.hlo",
        "HloModule m\nENTRY e {\n  x = f32[64,64] parameter(0)\n  t = f32[64,64] tanh(x)\n"
        "  d = f32[64,64] dot(t, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "  ROOT r = (f32[64,64], f32[64,64]) tuple(d, t)\n}\n",
    )
    assert main(["run", file, "--profile", "--print-output=0"]) == 0
    lines = capsys.readouterr().err.splitlines()
    first = lines.index("profile: 2 kernels, each alone on random inputs, call included")
    assert lines[first + 1].split() == [
        "kernel",
        "result",
        "time",
        "of",
        "all",
        "GB/s",
        "GFLOP/s",
    ]
    rows = {line.split()[0]: line for line in lines[first + 2 : first + 4]}
    assert set(rows) == {"t", "d"}
    assert all("%" in row and "f32[64,64]" in row for row in rows.values())
    assert len(rows["d"].split()) == len(rows["t"].split()) + 1, "GFLOP/s, which tanh has none of"


def test_passes_are_reported(sums: str, capsys: Capture) -> None:
    arguments = ["--time-passes", "--print-changed=diff", "--print-after=fus*", "-q"]
    assert main([sums, *arguments[:-1]]) == 0
    captured = capsys.readouterr()
    assert "rewrites  instrs" in captured.err
    assert "+ p" in captured.err
    assert "+ fused_computation" in captured.err
    assert "   (from e)" in captured.err  # moved into it, not removed and added
    assert "// after fusion" in captured.out
    assert main([sums, "--passes=dce", "--verify-each", "-q"]) == 0
    assert "fusion" not in capsys.readouterr().out
    assert main([sums, "--passes=fusion,dce", "--disable-pass=fusion", "-q"]) == 0
    assert "fusion" not in capsys.readouterr().out


def test_several_files_are_compiled_one_after_the_other(
    sums: str, tmp_path: Path, capsys: Capture
) -> None:
    wrong = write(tmp_path, "wrong.hlo", WRONG)
    assert main([sums, wrong, sums, "--emit=buffers"]) == 1
    captured = capsys.readouterr()
    assert captured.err.count("module sums") == 2
    assert "wrong.hlo:12:" in captured.err


# ---------------------------------------------------------------- faults


def test_all_faults_of_a_module_are_shown_with_place_and_caret(
    tmp_path: Path, capsys: Capture
) -> None:
    assert main(["parse", write(tmp_path, "wrong.hlo", WRONG)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "wrong.hlo:12:" in captured.err
    assert "^" in captured.err


@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe", b"HloModule", b"ENTRY {", b"}\n" * 99])
@pytest.mark.parametrize("command", ["parse", "verify"])
def test_nonsense_is_a_fault_of_the_input(
    content: bytes, command: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "x.hlo"
    path.write_bytes(content)
    assert main([command, str(path)]) == 1
    assert "error" in capsys.readouterr().err


def test_a_missing_file_is_reported_and_a_misspelt_command_guessed(capsys: Capture) -> None:
    assert main(["pasre"]) == 1
    error = capsys.readouterr().err
    assert "cannot read pasre: no such file" in error
    assert "did you mean parse?" in error
    assert main(["rnu", str(EXAMPLES[0])]) == 1
    found = capsys.readouterr()
    assert "did you mean run?" in found.err
    assert not found.out, "the module of the next word is not compiled"
    assert main(["--", "parse"]) == 1
    assert "note: the command comes first: hloc parse ..." in capsys.readouterr().err


def test_a_file_of_nearly_this_name_is_named(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "softmax.hlo").write_text("")
    assert main(["parse", str(tmp_path / "sofmax.hlo")]) == 1
    assert f"note: did you mean {str(tmp_path / 'softmax.hlo')!r}?" in capsys.readouterr().err
    assert main(["parse", str(tmp_path / "other" / "softmax.hlo")]) == 1
    assert "did you mean" not in capsys.readouterr().err


def test_a_python_program_is_not_read_as_hlo(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "train.py").write_text("import jax\n")
    assert main([str(tmp_path / "train.py")]) == 1
    assert "note: this is Python, not HLO: `hlo-repl --jax FILE.py`" in capsys.readouterr().err


USAGE = {
    "no file": ([], "no input file"),
    "unknown option": (["x.hlo", "--random-seed=1"], "unknown option --random-seed"),
    "pass": (["x.hlo", "--passes=cs"], "there is no pass 'cs'; did you mean 'cse'?"),
    "rule": (["x.hlo", "--disable-rule=x"], "there is no rule 'x'"),
    "print after": (
        ["x", "--print-after=fusin"],
        "no pass of the pipeline is named 'fusin'; did you",
    ),
    "needs run": (["x.hlo", "--inputs=a.npz"], "--inputs needs --run"),
    "input needs run": (["x.hlo", "--input=x=1"], "--input needs --run"),
    "each needs run": (["x.hlo", "--compare-each"], "--compare-each needs --run"),
    "no profile": (["run", "x", "--profile", "--backend=interp"], "--profile times machine code"),
    "no spec": (["run", "x.hlo", "--input=x"], "expected NAME=SPEC such as x=normal(0,1)"),
    "two inputs": (["run", "x", "--random", "--inputs=a.npz"], "exclude each other"),
    "two files": (["x", "y", "-o", "z"], "needs a single input file"),
    "compare": (
        ["run", "x", "--compare-with=tpu"],
        "expected interp, O0, xla, snapshot or FILE.npz",
    ),
    "stdin twice": (["-", "-"], "only once"),
    "diff": (["diff", "a"], "expected 2 files, found 1"),
}


@pytest.mark.parametrize("case", USAGE)
def test_wrong_usage_is_code_2(case: str, capsys: Capture) -> None:
    arguments, message = USAGE[case]
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "--help" in captured.err
    assert captured.out == ""


def test_an_unsupported_module_is_code_3(tmp_path: Path, capsys: Capture) -> None:
    text = SUM.replace("multiply(x, y)", 'custom-call(x, y), custom_call_target="nowhere"')
    assert main([write(tmp_path, "c.hlo", text), "--run"]) == 3
    assert "nowhere" in capsys.readouterr().err


def test_a_failing_run_is_code_4(
    sums: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arrays: object) -> None:
        raise hloc.HloError("the loop ran out of iterations", notes=("device 2 at 'sum'",))

    monkeypatch.setattr(driver, "kept_program", lambda *_: None)  # which another test may keep
    monkeypatch.setattr(driver, "kept_or_compiled", lambda *_: fail)
    assert main(["run", sums]) == 4
    error = capsys.readouterr().err
    assert "run failed: the loop ran out of iterations\nnote: device 2 at 'sum'\n" in error


@pytest.mark.parametrize(
    "fault",
    [AssertionError("impossible"), InternalError("pass cse failed: x\nrule: y"), KeyError()],
)
def test_a_fault_of_hloc_is_code_70_without_a_traceback(
    fault: Exception, sums: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(driver, "optimise", fail)
    monkeypatch.delenv("HLOC_DEBUG", raising=False)
    assert main([sums]) == 70
    error = capsys.readouterr().err
    assert "internal error" in error
    assert "please report" in error
    assert "Traceback" not in error
    monkeypatch.setenv("HLOC_DEBUG", "1")
    assert main([sums]) == 70
    assert "Traceback" in capsys.readouterr().err


def test_interrupt_is_code_130(sums: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(driver, "optimise", interrupt)
    assert main([sums]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_names_cannot_command_the_terminal(tmp_path: Path, capsys: Capture) -> None:
    assert main(["parse", str(tmp_path / "a\x1b[31m")]) == 1
    assert main(["--\x1b[31m"]) == 2
    path = tmp_path / "x.hlo"
    path.write_bytes(b"HloModule \x1b[31m\xff\xfe\n")
    assert main(["parse", str(path)]) == 1
    assert "\x1b" not in capsys.readouterr().err


# ---------------------------------------------------------------- other commands


def test_stdin_is_a_file(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SUM.encode())))
    assert main(["parse", "-"]) == 0
    assert capsys.readouterr().out.startswith("HloModule sums")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(WRONG.encode())))
    assert main(["parse", "-"]) == 1
    assert "<stdin>:12:" in capsys.readouterr().err


def test_verification_can_be_left_out_of_parse(tmp_path: Path, capsys: Capture) -> None:
    text = SUM.replace("p = f32[8,16]", "p = f32[8,17]")
    path = write(tmp_path, "shape.hlo", text)
    assert main(["parse", path]) == 1
    assert main(["parse", path, "--no-verify"]) == 0
    assert "f32[8,17]" in capsys.readouterr().out


def test_the_exit_code_of_diff_says_same_or_different(
    sums: str, tmp_path: Path, capsys: Capture
) -> None:
    other = write(tmp_path, "other.hlo", SUM.replace("multiply", "add"))
    assert main(["diff", sums, sums]) == 0
    assert capsys.readouterr().out == ""
    assert main(["diff", sums, other]) == 1
    out = capsys.readouterr().out
    assert "p = f32[8,16] add(x, y)   (was f32[8,16] multiply)" in out
    assert "add(x, y)" in out
    assert main(["diff", sums, write(tmp_path, "wrong.hlo", WRONG)]) == 2


LISTS = {
    "passes": ("cse", "dce", "Remove"),
    "ops": ("dynamic-update-slice", "gather", "offset_dims"),
    "rules": ("reshape-reshape", "select-not", "select(not(p), x, y) → select(p, y, x)\n"),
}


@pytest.mark.parametrize("command", LISTS)
def test_tables_are_listed_and_described(command: str, capsys: Capture) -> None:
    listed, name, described = LISTS[command]
    assert main([command]) == 0
    assert listed in capsys.readouterr().out
    assert main([command, name]) == 0
    assert described in capsys.readouterr().out
    assert main([command, "no-such-thing"]) == 1


@pytest.mark.parametrize("command", [c for c in COMMANDS if c != "repl"])
def test_every_command_has_a_function(command: str) -> None:
    assert callable(COMMANDS[command].load())
    assert callable(COMPILE_COMMAND.load())


def test_colour_is_for_terminals(
    sums: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    run = [sums, "--run", "--compare-with=O0"]
    assert main(run) == 0
    assert "\x1b" not in capsys.readouterr().err
    assert main([*run, "--color=always"]) == 0
    assert "\x1b[32mOK\x1b[0m" in capsys.readouterr().err
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(run) == 0
    assert "\x1b" in capsys.readouterr().err
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(run) == 0
    assert "\x1b" not in capsys.readouterr().err


# ---------------------------------------------------------------- as a process


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "hloc", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("arguments", [["ops"], ["--help"]])
def test_a_reader_that_leaves_is_no_fault(arguments: list[str]) -> None:
    process = subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(PATIENCE) == 141


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["ops"], ["parse", "FILE"]])
def test_a_full_disk_is_reported(arguments: list[str], sums: str) -> None:
    words = [sums if word == "FILE" else word for word in arguments]
    with FULL.open("w") as out:
        done = subprocess.run(
            command(*words), stdout=out, stderr=subprocess.PIPE, env=environment(), text=True
        )
    assert done.returncode == 1
    assert done.stderr == "hloc: error: cannot write to stdout: no space left on device\n"


@pytest.mark.parametrize("closed", ["stdin", "stdout", "stderr"])
def test_a_closed_stream_is_no_fault_of_hloc(closed: str, sums: str) -> None:
    """`hloc parse - <&-`, `>&-` and `2>&-`, as some services start programs."""
    number = ("stdin", "stdout", "stderr").index(closed)
    done = subprocess.run(
        command("parse", "-" if closed == "stdin" else sums),
        env=environment(),
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.close(number),
    )
    assert done.returncode == (1 if closed == "stdin" else 0)
    assert done.stderr == (
        "hloc: error: cannot read <stdin>: it is closed\n" if number == 0 else ""
    )


@pytest.mark.parametrize("text", [ENDLESS, LONG_KERNEL], ids=["loop", "kernel"])
def test_ctrl_c_ends_an_endless_loop(text: str, tmp_path: Path) -> None:
    process = subprocess.Popen(
        command("run", write(tmp_path, "endless.hlo", text), "--random"),
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=heed_ctrl_c,
    )
    assert process.stderr is not None
    try:
        process.stderr.readline()  # the summary: Python is up
        wait_for_work(process.pid, 2.0)  # in compiled code by now
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()  # an endless program must not outlive a failing test
    assert process.returncode == 130, error
    assert b"Traceback" not in error


def heed_ctrl_c() -> None:
    """Undo what a shell does to a program in the background, which then ignores Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


HEAVY = ("numpy", "lark", "llvmlite", "rich", "prompt_toolkit", "ml_dtypes")


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["run", "--help"]])
def test_nothing_heavy_is_imported_for_version_and_help(arguments: list[str]) -> None:
    """`hloc --version` within 60 ms, `--help` within 120 ms: so none of these.

    A package that is imported has modules of its own beside it; one that is deferred has none.
    """
    code = (
        f"import sys; from hloc.cli import main; main({arguments!r}); "
        "loaded = {name.partition('.')[0] for name in sys.modules if '.' in name}; "
        f"print([m for m in {HEAVY!r} if m in loaded], file=sys.stderr)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert found.stderr.strip() == "[]"
    assert "hloc" in found.stdout


def test_the_package_itself_is_cheap_to_import() -> None:
    code = f"import sys, hloc; print([m for m in {HEAVY!r} if m in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
