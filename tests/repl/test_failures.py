"""When a pass fails, lies, breaks the module or never ends, the session goes on as it was."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from hloc.opt.registry import forget_registered
from repl.program import Program
from repl.session import Session
from tests.repl.modules import TINY
from tests.repl.pseudo_terminal import terminal
from tests.waiting import wait_for_work

MODULE = TINY.replace("tiny", "m")
PASSES = '''
from dataclasses import dataclass
from typing import ClassVar

from hloc.opt.registry import register_pass
from hloc.shapes import array_shape


def find(module, name):
    return next(i for i in module.entry.instructions if i.name == name)


@register_pass
@dataclass(frozen=True)
class Raises:
    """Fails in the middle."""

    name: ClassVar[str] = "raises"

    def run(self, module, context):
        context.at = find(module, "nn")
        with context.rewriting(module, "raises/broken-rule"):
            raise ZeroDivisionError("an example of a fault")


@register_pass
@dataclass(frozen=True)
class Breaks:
    """Leaves an invalid module."""

    name: ClassVar[str] = "breaks"

    def run(self, module, context):
        with context.rewriting(module, "breaks/harmless"):
            module.entry.rename(find(module, "n"), "minus")
        if context.spent:
            return True
        with context.rewriting(module, "breaks/wrong-shape"):
            module.entry.set_shape(find(module, "nn"), array_shape("f32", 5))
        return True


@register_pass
@dataclass(frozen=True)
class Lies:
    """Says that it changed something."""

    name: ClassVar[str] = "lies"

    def run(self, module, context):
        return True


@register_pass
@dataclass(frozen=True)
class Hides:
    """Says that it changed nothing."""

    name: ClassVar[str] = "hides"

    def run(self, module, context):
        with context.rewriting(module, "hides"):
            module.entry.replace(find(module, "nn"), find(module, "x"))
        return False


@register_pass
@dataclass(frozen=True)
class Never:
    """Does not end."""

    name: ClassVar[str] = "never"

    def run(self, module, context):
        while True:
            pass
'''

Say = Callable[[str], str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "m.hlo").write_text(MODULE)
    (tmp_path / "bad.py").write_text(PASSES)
    return tmp_path


@pytest.fixture
def session() -> Iterator[Session]:
    session = Session()
    yield session
    session.close()
    forget_registered()


@pytest.fixture
def say(session: Session, folder: Path) -> Say:
    out = io.StringIO()
    program = Program(session, Console(file=out, width=200, soft_wrap=True, no_color=True))

    def carry_out(line: str) -> str:
        out.seek(0)
        out.truncate()
        assert program.run_line(line)
        return out.getvalue()

    carry_out("load m.hlo")
    carry_out("plugin bad.py")
    return carry_out


def test_a_pass_that_fails_leaves_the_state_and_a_reproducer(
    session: Session, say: Say, folder: Path
) -> None:
    text = say("apply raises")
    assert "ZeroDivisionError" in text
    assert "broken-rule" in text
    assert "nn" in text, "the instruction is named"
    assert "Traceback" not in text
    assert session.current.label == "s0"
    reproducer = text.partition("reproducer: ")[2].split()[0]
    assert "--passes=raises" in Path(reproducer).read_text()
    assert "Traceback" in say("trace")
    assert "s1 algebraic-simplifier" in say("apply algsimp"), "the session goes on"


def test_an_invalid_module_is_marked_and_the_rewrite_named(session: Session, say: Say) -> None:
    text = say("apply breaks, dce")
    assert "✗ invalid" in text
    assert "rewrite 2 of 2, rule wrong-shape" in text
    assert "undo" in text
    assert session.current.label == "s1"
    assert not session.current.is_valid
    assert "s1✗ breaks" in say("history")
    assert "s1 is invalid" in say("run")
    assert "~ nn = f32[5] negate(minus)" in say("diff")
    say("undo")
    assert session.current.is_valid


def test_passes_that_misreport_changes_are_reported(say: Say) -> None:
    assert "says that it changed something, but it did not" in say("apply lies")
    assert "says that it changed nothing, but it did" in say("apply hides")


def test_a_state_in_the_middle_of_a_broken_pass_is_marked(session: Session, say: Say) -> None:
    assert "rewrite 1/2" in say("step breaks")
    assert session.current.is_valid
    assert "rewrite 2/2  rule wrong-shape" in say("step")
    assert not session.current.is_valid


def test_ctrl_c_ends_a_pass_that_does_not(folder: Path) -> None:
    with terminal(["m.hlo"], folder) as screen:
        screen.wait_for_prompt("m s0› ")
        screen.command("plugin bad.py", "m s0› ")
        screen.send("apply never\r")
        screen.wait_for("apply never")
        wait_for_work(screen.child, 0.5)
        screen.send("\x03")
        screen.wait_for("interrupted; the state is unchanged")
        screen.wait_for_prompt("m s0› ")
        assert "s1 algebraic" in screen.command("apply algsimp", "m s1 algebraic-simplifier› ")
        screen.send("quit\r")
        assert screen.finish() == 0
