"""`hlo-repl --jax script.py` stops at JAX's compilations; JAX compiles what the commands leave."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.repl.pseudo_terminal import ROOT, terminal

pytest.importorskip("jax")
pytest.importorskip("google.protobuf")
pytestmark = pytest.mark.jax

SCRIPT = """
import sys
import jax, jax.numpy as jnp
f = jax.jit(lambda x: jnp.sin(x) * 2)
f.__name__ = "f"
print("arguments", *sys.argv[1:])
print("answer", f(jnp.zeros(3)))
print("again", f(jnp.zeros(3)))
"""
EDIT = "edit %sin.0 = cosine(param_0.1)"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def run(script: Path, commands: str, *words: str) -> tuple[int, str]:
    """Run the script with commands from a pipe."""
    done = subprocess.run(
        [sys.executable, "-m", "repl", "--jax", str(script), *words],
        input=commands,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def test_jax_compiles_the_edited_module(script: Path) -> None:
    code, out = run(script, f"continue lambda\n{EDIT}\ncontinue\n", "--steps", "3")
    assert code == 0
    assert "arguments --steps 3" in out
    assert "answer [2. 2. 2.]" in out
    assert "again [2. 2. 2.]" in out  # compiled once


def test_passes_and_undo(script: Path) -> None:
    code, out = run(script, f"continue lambda\n{EDIT}\nundo\napply algsimp\ncontinue all\n")
    assert code == 0
    assert "answer [0. 0. 0.]" in out


def test_without_commands_the_script_runs_as_it_is(script: Path) -> None:
    code, out = run(script, "")
    assert code == 0
    assert "answer [0. 0. 0.]" in out


@pytest.mark.parametrize("commands", ["abort\n", "quit\n", "no-such-command\ncontinue\n"])
def test_abort_ends_the_script(script: Path, commands: str) -> None:
    code, out = run(script, commands)
    assert code == 1
    assert "aborted in hlo-repl" in out
    assert "answer" not in out
    assert "Traceback" not in out


def test_a_fault_of_the_script_is_shown_from_its_own_first_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("raise ValueError('mine')\n")
    code, out = run(path, "")
    assert code == 1
    assert "ValueError: mine" in out
    assert "runpy" not in out


def test_the_script_decides_its_exit_code(tmp_path: Path) -> None:
    path = tmp_path / "exit.py"
    path.write_text("import sys\nsys.exit(7)\n")
    assert run(path, "")[0] == 7


def test_a_script_that_does_not_exist(tmp_path: Path) -> None:
    code, out = run(tmp_path / "none.py", "")
    assert code == 1
    assert "no such file" in out


@pytest.mark.filterwarnings("ignore:os.fork")  # JAX warns; the child starts another program at once
def test_a_person_at_a_terminal(script: Path) -> None:
    with terminal(["--jax", str(script)], script.parent) as person:
        person.wait_for("compilation 1 of JAX")
        person.send("continue lambda\r")
        person.wait_for("jit__lambda: 7 instructions")
        person.wait_for_prompt("jit__lambda s0› ")
        person.command(EDIT, "jit__lambda s1 edit %sin.0› ")
        person.send("continue\r")
        person.wait_for("answer [2. 2. 2.]")
        assert person.finish() == 0
