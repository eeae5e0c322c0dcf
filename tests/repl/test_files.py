"""Scripts, session files, plug-ins that change, settings, marks, the program's own words."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hloc
from repl.app import run_program
from repl.commands import ALIASES, COMMANDS, GROUPS, execute
from repl.commands.examples import EXAMPLES
from repl.commands.files import load_pasted
from repl.scripts import autosave, command_lines, session_text
from repl.session import Session
from tests.repl.conftest import Say
from tests.repl.modules import TINY

ROOT = Path(__file__).resolve().parents[2]
MODULE = TINY.replace("tiny", "m")
TEXT = f"new <<END\n{MODULE}END\n"
PLUGIN = '''
"""A pass that removes one instruction by another."""
from dataclasses import dataclass
from typing import ClassVar
from hloc.opt.registry import register_pass

@register_pass
@dataclass(frozen=True)
class Student:
    """Work of a student."""
    name: ClassVar[str] = "student"

    def run(self, module, context):
        BODY
'''
RENAMES = """
        (r,) = [i for i in module.entry.instructions if i.name == "n"]
        with context.rewriting(module, "student/name"):
            module.entry.rename(r, "m")
        return True
"""
BREAKS = """
        from hloc.shapes import array_shape
        for inst in module.entry.instructions:
            if inst.is_a("negate") and not context.spent:
                with context.rewriting(module, "student/shape"):
                    size = 4 if inst.name == "n" else 5
                    module.entry.set_shape(inst, array_shape("f64" if size == 5 else "f32", 4))
                    module.entry.rename(inst, inst.name + ".x")
        return True
"""


def plugin(path: Path, body: str) -> str:
    path.write_text(PLUGIN.replace("BODY", body.strip()))
    return str(path)


def test_commands_may_take_several_lines() -> None:
    text = "# a\nload x\nnew <<END\nHloModule m\n\nENTRY\nEND\nrun\n"
    assert list(command_lines(text)) == ["# a", "load x", "new HloModule m\n\nENTRY", "run"]
    assert list(command_lines("grep a << b")) == ["grep a << b"]


def test_a_session_is_saved_and_opened(
    repl: Session, say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m.hlo").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    say("load m.hlo\nmark start\napply algsimp\nshow\ngoto start")
    say("edit %nn = f32[4] abs(n)\nset seed=4")
    assert "6 commands written" in say("save-session s.hlor")
    text = (tmp_path / "s.hlor").read_text()
    assert f"load {tmp_path}/m.hlo" in text
    assert "# sha256 " in text
    assert "show" not in text
    other = Session()
    monkeypatch.chdir("/")
    list(execute(other, f"open-session {tmp_path}/s.hlor"))
    assert other.current.module.to_text() == repl.current.module.to_text()
    assert [s.how for s in other.states] == [s.how for s in repl.states]
    assert other.settings.number("seed") == 4
    other.close()


def test_a_pasted_module_is_in_the_session_file(repl: Session, say: Say) -> None:
    say(TEXT + "apply algsimp")
    again = list(command_lines(session_text(repl)))
    assert again[1].startswith("new HloModule m\nENTRY e {")
    assert again[-1] == "apply algsimp"


def test_commands_are_saved_after_every_command(repl: Session, say: Say, tmp_path: Path) -> None:
    repl.autosave_path = str(tmp_path / "folder" / "last.hlor")
    say(TEXT)
    say("apply cse")
    assert (tmp_path / "folder" / "last.hlor").read_text().endswith("apply cse\n")
    repl.autosave_path = "/proc/no/such"
    autosave(repl)
    assert not repl.autosave_path, "a full disk ends autosaving, not the session"


def test_scripts_call_scripts_to_a_depth(say: Say, tmp_path: Path) -> None:
    path = tmp_path / "loop.hlor"
    path.write_text(f"source {path}\n")
    with pytest.raises(hloc.HloError, match="nested more than 8 deep"):
        say(f"source {path}")
    path.write_text(f"{TEXT}apply algsimp\n")
    assert "s1 algebraic-simplifier" in say(f"source {path}")


def test_the_command_line_of_a_state(repl: Session, say: Say, tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(MODULE)
    say(f"load {path}\nset fast-math=on\ndisable add-zero\napply cse,algsimp")
    assert say("cmdline") == (
        f"hloc {path} --fast-math --passes=algebraic-simplifier --disable-rule=add-zero"
    )
    done = subprocess.run(
        [sys.executable, "-m", "hloc", *say("cmdline").split()[1:]],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert hloc.parse(done.stdout).to_text() == repl.current.module.to_text()
    say("goto s0\nstep algsimp")
    assert "--opt-bisect-limit=1" in say("cmdline")
    say("goto s0\nedit %nn = f32[4] abs(n)")
    with pytest.raises(hloc.HloError, match="was made by edit"):
        say("cmdline")


# ---------------------------------------------------------------- plug-ins


def test_a_plugin_is_read_again_when_it_changes(say: Say, tmp_path: Path) -> None:
    path = tmp_path / "student.py"
    assert "pass student" in say(f"{TEXT}plugin {plugin(path, 'return False')}")
    assert "nothing to do" in say("apply student")
    plugin(path, RENAMES)
    os.utime(path, (1, 1))
    assert "s1 student" in say("apply student")
    path.write_text("syntax error")
    assert "student.py has changed, but: plug-in" in say("stats")
    assert "is loaded again" not in say("stats")
    plugin(path, RENAMES)
    assert "is loaded again" in say("reload")


def test_a_pass_that_breaks_the_module_is_caught_at_its_rewrite(
    repl: Session, say: Say, tmp_path: Path
) -> None:
    say(f"{TEXT}plugin {plugin(tmp_path / 'student.py', BREAKS)}")
    text = say("apply student,dce")
    assert "✗ invalid:" in text
    assert "s1: rewrite 2 of 2, rule shape" in text
    assert "stopped at s1: the module is invalid" in text
    assert not repl.current.is_valid
    with pytest.raises(hloc.HloError, match="s1 is invalid"):
        say("run")
    say("undo")
    assert repl.current.label == "s0"


def test_a_pass_that_fails_leaves_the_state(repl: Session, say: Say, tmp_path: Path) -> None:
    say(f"{TEXT}plugin {plugin(tmp_path / 'student.py', 'raise ValueError(7)')}")
    with pytest.raises(hloc.HloError, match="pass student failed: ValueError: 7") as fault:
        say("apply student")
    (note,) = [note for note in fault.value.diagnostics[0].notes if "reproducer" in note]
    assert Path(note.rpartition(" ")[2]).exists()
    assert "raise ValueError(7)" in say("trace")
    assert repl.current.label == "s0"


def test_a_pass_that_misreports_a_change_is_reported(say: Say, tmp_path: Path) -> None:
    say(f"{TEXT}plugin {plugin(tmp_path / 'student.py', 'return True')}")
    assert "warning: the pass says that it changed something" in say("apply student")


# ---------------------------------------------------------------- settings, marks, words


def test_settings_are_checked(repl: Session, say: Say) -> None:
    assert "fast-math off" in say("set")
    assert say("set fast_math=yes") == "fast-math = on"
    assert say("set verify-seconds") == "verify-seconds = 20"
    for line, fault in (
        ("set timout=3", "did you mean 'timeout'"),
        ("set timeout=0", "timeout cannot be '0'"),
        ("set fast-math=maybe", "fast-math is on or off"),
        ("set rtol=nan", "rtol cannot be"),
    ):
        with pytest.raises(hloc.HloError) as found:
            say(line)
        assert fault in str(found.value)


def test_states_have_names(repl: Session, say: Say) -> None:
    say(TEXT + "mark begin\napply algsimp\nbranch try\ngoto begin")
    assert repl.current.label == "s0"
    assert say("mark") == "begin = s0, try = s1"
    for name in ("s3", "prev", "a b", "%x", ""):
        if name:
            with pytest.raises(hloc.HloError, match="expected a name such as"):
                say(f"mark {name}")
    with pytest.raises(hloc.HloError, match="did you mean 'begin'"):
        say("goto begn")


def test_every_command_has_help(say: Say) -> None:
    for row in COMMANDS.values():
        assert row.summary
        assert not row.summary.endswith(".")
        assert row.usage.startswith(row.name), row.usage
        assert row.group in [name for name, _ in GROUPS]
        told = say(f"help {row.name}")
        assert row.summary in told
        assert f"for example: {EXAMPLES[row.name]}" in told
    assert not set(ALIASES) & set(COMMANDS)


def test_examples_are_of_their_commands() -> None:
    assert set(EXAMPLES) == set(COMMANDS)
    for name, example in EXAMPLES.items():
        assert example.startswith(name)
        flags = {word.partition("=")[0] for word in example.split() if word.startswith("--")}
        assert all(flag in COMMANDS[name].usage for flag in flags), example


WRONG = {
    "help vrify": "did you mean 'verify'",
    "cost now": "cost takes no arguments",
    "py 1 / 0": "ZeroDivisionError",
    "theme pink": "theme is",
    "graph a.html b.html": "cannot read",
    "graph --radius=x": "expected a radius",
    "export x.doc": "cannot export",
    "find add(": "pattern: expected",
    "find adt(_)": "there is no opcode 'adt'",
    "find multiply": "no match for",
    "grep (": "not a valid regular expression",
    "grep zzz": "no line matches",
    "path %x": "path takes two",
    "stats --by colour": "cannot read",
    "info": "info what",
    "ls zzz": "no computation",
    "!exit 3": "exit code 3",
    "emit": "emit what",
    "missed": "missed by which pass",
    "rewrites": "rewrites of what",
    "until cs": "there is no pass",
    "explain zzz": "nothing named",
    "reload": "no plug-in is loaded",
    "head x": "a number from 1 to 99999",
    "src %x": "has no source location",
}


@pytest.mark.parametrize("line", WRONG)
def test_mistakes_are_explained(line: str, say: Say) -> None:
    say(TEXT)
    with pytest.raises(hloc.HloError) as fault:
        say(line)
    assert WRONG[line] in str(fault.value)


def test_a_function_of_jax_needs_shapes(say: Say) -> None:
    pytest.importorskip("jax")
    with pytest.raises(hloc.HloError, match="for which shapes"):
        say("jax lambda x: x")


LOOKS = {
    "info %nn": "cost 4 FLOP",
    "users %x": "n = f32[4] negate(x)",
    "operands %r": "nn = f32[4] negate(n)",
    "ls": "e 4 entry",
    "stats --by opcode": "negate 2",
    "cost": "r add f32[4]",
    "grep neg.*n\\)": "nn = f32[4] negate(n)",
    "find add(negate(negate(_)), _)": "ROOT r = f32[4] add(nn, x)",
    "find add(negate(negate(y:_)), y:_)": "ROOT r = f32[4] add(nn, x)",
    "find negate(%n)": "nn = f32[4] negate(n)",
    "path %r %x": "x = f32[4] parameter(0)",
    "head 1": "HloModule m",
    "tail 2": "ROOT r = f32[4]{0} add(nn, x)",
    "show --tree": "ROOT r = f32[4] add(nn, x)",
    "show %nn --full": "nn = f32[4]{0} negate(%n)",
    "profile": "s0 profile: ",
    "py m.instruction_count": "4",
    "py print(s.current.label)": "s0",
    "theme mono": "theme = mono",
    "time": "0.0 ms from s0 to s0",
    "explain negate-negate": "rule negate-negate",
    "!echo hello": "hello",
    "history --tree": "s0 load",
}


@pytest.mark.parametrize("line", LOOKS)
def test_looking_shows(line: str, say: Say) -> None:
    say(TEXT)
    assert LOOKS[line] in say(line)


def test_the_lines_of_python_are_shown_if_they_are_here(say: Say, tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("import jax\ny = x + x\n")
    place = f'metadata={{op_name="f/add" source_file="{path}" source_line=2}}'
    lines = f"x = f32[] parameter(0)\nROOT r = f32[] add(x, x), {place}"
    say(f"new <<END\nHloModule m\nENTRY e {{\n{lines}\n}}\nEND")
    assert f"{path}:2 y = x + x" in say("src %r")


def test_a_script_of_all_of_it_runs_without_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "all.hlor"
    script.write_text(f"{TEXT}step algsimp\ncontinue\nrun\nverify\nfrobnicate\nstats\n")
    assert run_program(["-x", str(script), "-v"]) == 1
    out = capsys.readouterr().out
    assert "m s0> step algsimp" in out
    assert "24 input sets" in out
    assert "unknown command 'frobnicate'" in out
    assert "parameters 16 B" not in out, "it stops at the fault"


HIDDEN = "\nEND-OF-TEXT\n!touch stolen\nnew <<END-OF-TEXT\n"


@pytest.mark.parametrize(
    "comment",
    [
        HIDDEN,
        HIDDEN.replace("\n", "\r"),
        HIDDEN.replace("END-OF-TEXT", "END_OF_TEXT_1") + HIDDEN,
        "\u2028!touch stolen",
        "\x85!touch stolen",
        "\x0c!touch stolen",
    ],
)
def test_a_pasted_text_does_not_become_commands(
    repl: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comment: str
) -> None:
    monkeypatch.chdir(tmp_path)
    text = MODULE.replace("m\n", f"m /*{comment}*/\n", 1)
    list(load_pasted(repl, text))
    list(execute(repl, "save-session s.hlor"))
    other = Session()
    list(execute(other, "open-session s.hlor"))
    assert other.commands == repl.commands
    assert not (tmp_path / "stolen").exists()
    other.close()


def test_the_name_of_a_file_does_not_become_commands(
    repl: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["a\u2028!touch stolen", "b\x0b!touch stolen", "c<<END", "d\r!touch stolen"]
    for name in names:
        (tmp_path / f"{name}.hlo").write_text(MODULE)
        (tmp_path / name).write_text(MODULE)
        list(execute(repl, f"load {name}"))
    list(execute(repl, "save-session s.hlor"))
    other = Session()
    list(execute(other, "open-session s.hlor"))
    assert not (tmp_path / "stolen").exists()
    assert other.commands == repl.commands
    other.close()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs owners of files")
@pytest.mark.parametrize("mode", [0o666, 0o620, 0o600])
def test_a_session_that_others_could_write_to_is_not_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mode: int
) -> None:
    """Its commands may be of any kind, also those that start programs."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "hloc" / "last-session.hlor"
    path.parent.mkdir(mode=0o700)
    path.write_text("!touch ran\n")
    path.chmod(mode)
    code = run_program(["--recover", "-x", os.devnull])
    assert (tmp_path / "ran").exists() == (mode == 0o600)
    assert code == (mode != 0o600)
    assert ("is not recovered: other users may write to" in capsys.readouterr().out) == code
