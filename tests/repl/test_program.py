"""hlo-repl as a program: scripts, pipes, exit codes, faults; and what its commands print."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

import hloc
from hloc.opt.dce import DeadCodeElimination
from repl.__main__ import main
from repl.app import App, run_program
from repl.commands import ALIASES, COMMANDS, execute
from repl.render import render
from repl.session import Session
from tests.repl.modules import TINY

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "tiny.hlo"
    path.write_text(TINY)
    return str(path)


def shown(session: Session, line: str) -> str:
    """Return what `line` prints on a plain console."""
    out = io.StringIO()
    console = Console(file=out, width=100, soft_wrap=True, highlight=False, no_color=True)
    for result in execute(session, line):
        for text in render(result):
            console.print(text)
    return out.getvalue()


@pytest.fixture
def session(file: str) -> Iterator[Session]:
    session = Session()
    session.load(file)
    yield session
    session.close()


SCRIPT = """# a comment
apply algsimp, dce
diff s0
%r
run
undo
redo
why n
history
stats
quit
this is never read
"""


def test_a_misspelt_option_is_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_program(["--jx", "train.py"])
    assert "unknown argument --jx; did you mean --jax?" in capsys.readouterr().err


def test_a_script_is_run_to_quit(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "x.hlor"
    script.write_text(SCRIPT)
    assert run_program([file, "-x", str(script), "-v"]) == 0
    out = capsys.readouterr().out
    assert "tiny s0> apply algsimp, dce" in out
    assert "negate-negate ×1" in out
    assert "- n = f32[4] negate(x)" in out
    assert "← algebraic-simplifier/negate-negate" in out
    assert "OK  max 0 ulp" in out
    assert "● s1" in out
    assert "never" not in out
    assert "\x1b" not in out


def test_a_script_stops_at_the_first_fault_unless_keep_going_is_set(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "x.hlor"
    script.write_text("aply cse\nstats\n")
    assert run_program([file, "-x", str(script)]) == 1
    out = capsys.readouterr().out
    assert "unknown command 'aply'" in out
    assert "did you mean 'apply'?" in out
    assert "instructions, 1 computation" in out
    assert "negate" not in out
    assert run_program([file, "-x", str(script), "--keep-going"]) == 1
    assert "negate" in capsys.readouterr().out


def test_commands_come_through_a_pipe(file: str) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "repl"],
        input=f"load {file}\nstep algebraic-simplifier\nhistory\n",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "rewrite 1/1" in found.stdout
    assert found.stderr == ""


def test_hloc_repl_is_the_same_program(file: str) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "hloc", "repl", file],
        input="stats\n",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(r"negate +2 ", found.stdout)


@pytest.mark.parametrize("path", ["/no/such/file", "/"])
def test_an_unreadable_file_is_exit_1(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program([path]) == 1
    assert run_program(["-x", path]) == 1
    assert "cannot read" in capsys.readouterr().out


def test_a_file_with_several_modules_is_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "two.hlo"
    path.write_text(f"{TINY}// -----\n{TINY}")
    assert run_program([str(path)]) == 1
    assert "holds 2 modules, expected one" in capsys.readouterr().out


def test_a_fault_of_hloc_while_loading_has_no_traceback(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("impossible")

    monkeypatch.setattr(Session, "load", fail)
    assert run_program([file]) == 1
    assert "internal error: AssertionError: impossible" in capsys.readouterr().out


def test_ctrl_c_ends_a_script(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    script = tmp_path / "x.hlor"
    script.write_text("run\nstats\n")
    monkeypatch.setattr("repl.commands.running.run", interrupt)
    assert run_program([file, "-x", str(script)]) == 130
    out = capsys.readouterr().out
    assert "interrupted" in out
    assert "negate" not in out


@pytest.mark.parametrize("closed", [0, 1])
def test_a_closed_stream_is_no_fault(closed: int, file: str) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "repl", file],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.close(closed),
    )
    assert (found.returncode, found.stderr) == (0, "")


def test_what_is_pasted_is_a_module_or_lines_of_commands(file: str) -> None:
    out = io.StringIO()
    program = App(Session(), Console(file=out, no_color=True, soft_wrap=True))
    assert program.run_pasted(TINY)
    assert program.where() == "tiny s0"
    assert program.run_pasted("apply algsimp\napply dce\n")
    assert program.where() == "tiny s1"
    assert not program.run_pasted("stats\nquit\nstats")
    assert program.faults == 0


def test_a_path_may_begin_with_a_tilde(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "tiny: 4 instructions" in shown(Session(), "load ~/tiny.hlo")


def test_a_fault_of_hloc_leaves_the_session_as_it_was(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()
    program = App(session, Console(file=out, no_color=True, soft_wrap=True))

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("impossible")

    monkeypatch.setattr("repl.commands.looking.overview", fail)
    assert program.run_line("stats")
    assert "internal error: AssertionError: impossible" in out.getvalue()
    assert "the state is unchanged" in out.getvalue()
    assert "Traceback" not in out.getvalue()
    assert program.run_line("apply dce")
    assert program.faults == 1


# ---------------------------------------------------------------- commands


def test_a_step_shows_its_rewrite(session: Session) -> None:
    text = " ".join(shown(session, "step algsimp").split())
    assert "rewrite 1/1" in text
    assert "negate-negate" in text
    assert "- n = f32[4] negate(x)" in text
    assert "- nn = f32[4] negate(n)" in text
    assert "add(nn → x, x)" in text
    assert "no rewrite is left" in shown(session, "step")


def test_a_long_diff_is_cut_unless_asked_for(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(execute(session, "apply algsimp"))
    monkeypatch.setattr("repl.state_diff.MAX_LINES", 2)
    assert "more lines (" in shown(session, "diff")
    assert "more lines" not in shown(session, "diff --all")
    assert "-  n = f32[4]{0} negate(x)" in shown(session, "diff --text")


def test_instructions_are_shown_with_their_surroundings(session: Session) -> None:
    text = shown(session, "show %nn")
    assert "in e, shape f32[4]{0}" in text
    assert "    n = f32[4] negate(x)" in text
    assert "    ROOT r = f32[4] add(nn, x)" in text
    assert shown(session, "show n*").count("negate") == 2
    assert "HloModule tiny" in shown(session, "show")
    assert "HloModule tiny" in shown(session, "show --full")


def test_the_state_is_saved_as_hlo(session: Session, tmp_path: Path) -> None:
    list(execute(session, "apply algsimp,dce"))
    path = tmp_path / "out.hlo"
    shown(session, f"save {path}")
    assert hloc.load(str(path)).instruction_count == 2


def test_apply_takes_a_level(session: Session) -> None:
    text = shown(session, "apply -O2")
    assert "algebraic-simplifier" in text
    assert "fixpoint" not in text, "its passes make states of their own"


def test_effective_passes_are_counted(session: Session) -> None:
    text = shown(session, "passes --effective simplif")
    assert "algebraic-simplifier 1 rewrite" in " ".join(text.split())
    assert "Merge instructions" in shown(session, "passes cse")


def test_a_pass_that_fails_costs_its_own_row(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bool:
        raise AssertionError("planted")

    monkeypatch.setattr(DeadCodeElimination, "run", fail)
    text = " ".join(shown(session, "passes --effective").split())
    assert "dce cannot run: pass dce failed: AssertionError: planted" in text
    assert "algebraic-simplifier 1 rewrite" in text


HELP = {
    "": "apply PASS,PASS",
    "step": "do one rewrite",
    "cse": "Merge instructions",
    "gather": "offset_dims",
}


@pytest.mark.parametrize("word", HELP)
def test_help_knows_commands_passes_and_opcodes(word: str) -> None:
    assert HELP[word] in shown(Session(), f"help {word}")


WRONG = {
    "load": "load what",
    "load /no/such": "cannot read",
    "save": "save where",
    "apply": "apply what",
    "apply cs": "there is no pass 'cs'",
    "apply -O9": "pipeline|no pass",
    "step cse,dce": "step takes one pass",
    "undo x": "expected a number",
    f"undo {'9' * 5000}": "expected a number from 1 to 99999, found '9{40}'",
    "undo": "nothing to undo",
    "undo 0": "expected a number from 1 to 99999",
    "goto": "go where",
    "goto s9": "there is no state",
    "diff a b c": "cannot read",
    "diff --sdie": "diff has no option",
    "why": "why what",
    "show @nope": "no computation named 'nope'",
    "show zz*": "no instruction matches",
    "%nope": "no instruction named 'nope'",
    "passes zzz": "no pass matches",
    "input x": "which input",
    "inputs random x": "expected a seed",
    "inputs nope.npz": "cannot read",
    "run fast": "cannot read",
    "verify a b c": "at most two",
    "help zzz": "no command, pass, opcode or setting named",
    "zzz": "unknown command",
    f"grep {'(' * 3000}": "nested too deeply",
    "save a\0b": "a command cannot contain a NUL character",
}


@pytest.mark.parametrize("line", WRONG)
def test_mistakes_are_explained(line: str, session: Session) -> None:
    with pytest.raises(hloc.HloError, match=WRONG[line]):
        list(execute(session, line))
    assert session.current.label == "s0"


def test_names_from_a_text_cannot_command_the_terminal(tmp_path: Path) -> None:
    session = Session()
    session.load_text(TINY.replace("negate(x)", 'negate(x), metadata={op_name="\\033[31m[bold]"}'))
    text = shown(session, "show --full") + shown(session, "%n")
    assert "\x1b" not in text
    assert "[bold]" in text


def test_an_interrupt_while_the_program_is_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Slow(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "repl.app", Slow("repl.app"))
    assert main([]) == 130
    assert capsys.readouterr().err == "hlo-repl: interrupted\n"


def test_aliases_lead_to_commands() -> None:
    assert set(ALIASES.values()) <= set(COMMANDS)
    assert not set(ALIASES) & set(COMMANDS)
