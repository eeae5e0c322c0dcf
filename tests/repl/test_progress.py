"""What a person sees of long commands: how far they are; Ctrl-C ends them and keeps the state."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from hloc.report.progress import Progress
from repl.app import App
from repl.session import Session
from tests.repl.pseudo_terminal import terminal

CHAIN = """HloModule chain
ENTRY e {
  x = f32[4] parameter(0)
  n0 = f32[4] negate(x)
%s  ROOT r = f32[4] negate(n%d)
}
"""


def chain(length: int) -> str:
    """Return a module of `length` negations, which passes take one by one."""
    lines = [f"  n{i} = f32[4] exponential(n{i - 1})\n" for i in range(1, length)]
    return CHAIN % ("".join(lines), length - 1)


class Recording(Progress):
    """Remembers every state of the line."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name in ("done", "detail", "total") and hasattr(self, "total"):
            seen.append((self.what, self.done, self.total, str(self.detail)))


seen: list[tuple[str, int, int, str]] = []


@pytest.fixture
def recorded(repl: Session) -> Session:
    seen.clear()
    repl.load_text(chain(6))
    repl.progress = Recording()
    return repl


def ends_of(what: str) -> set[int]:
    """Return the totals that work `what` has reached."""
    return {done for name, done, total, _ in seen if name == what and done == total and total}


def test_passes_that_are_tried_are_counted(recorded: Session, say: Callable[[str], str]) -> None:
    say("passes --effective")
    (total,) = ends_of("trying passes")
    assert total > 40
    assert any(detail == "cse" for _, _, _, detail in seen)


def test_passes_of_a_pipeline_are_counted_and_never_run_back(
    recorded: Session, say: Callable[[str], str]
) -> None:
    say("apply -O2")
    rows = [(done, total) for name, done, total, _ in seen if name == "passes" and total]
    assert len({total for _, total in rows}) == 1, "later rounds of a fixpoint are not counted"
    counts = [done for done, _ in rows if done]
    assert counts == sorted(counts)
    assert counts[-1] >= rows[0][1] - 1
    seen.clear()
    say("undo\nnext")
    assert {total for name, _, total, _ in seen if name == "passes" and total} == {rows[0][1]}


def test_inputs_of_a_verification_are_counted(recorded: Session, say: Callable[[str], str]) -> None:
    say("apply fusion\nverify s0 s1")
    assert ends_of("verify s0 s1") == {24}


def test_a_run_shows_its_current_step(recorded: Session, say: Callable[[str], str]) -> None:
    say("apply fusion\nrun")
    assert {detail for name, _, _, detail in seen if name == "run"} >= {
        "compiling s1",
        "evaluating s0",
    }


def test_files_of_a_dump_are_counted(
    recorded: Session, say: Callable[[str], str], tmp_path: Path
) -> None:
    for number, length in enumerate((6, 5, 4)):
        name = f"module_0001.chain.{number:04d}.p.after_pass{number}.before_next.txt"
        (tmp_path / name).write_text(chain(length))
    say(f"load {tmp_path}")
    assert ends_of("reading the dump") == {2}


def test_only_a_terminal_is_drawn_on(repl: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    App(repl, Console(file=io.StringIO()))
    assert not repl.progress.stream.isatty()


def test_ctrl_c_ends_a_long_command_and_keeps_the_state(tmp_path: Path) -> None:
    (tmp_path / "chain.hlo").write_text(chain(3000))
    with terminal(["chain.hlo"], tmp_path) as screen:
        screen.wait_for_prompt("chain s0› ")
        screen.send("passes --effective\r")
        shown = screen.wait_for("trying passes  ━")
        assert "/" in shown.rpartition("trying passes")[2]
        screen.send("\x03")
        screen.wait_for("interrupted; the state is unchanged")
        screen.wait_for_prompt("chain s0› ")
        assert "trying" not in screen.screen.text(), "the line is taken away"
        assert "s0" in screen.command("history", "chain s0› ")
        screen.send("quit\r")
        assert screen.finish() == 0
