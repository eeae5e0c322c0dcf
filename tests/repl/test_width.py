"""What hlo-repl prints fits the terminal: long lines go on below, indented."""

import io
from pathlib import Path

import pytest
from rich.console import Console
from rich.theme import Theme

from repl.child import Child
from repl.messages import Answer
from repl.program import Program
from repl.prompt.toolbar import StatusLine
from repl.render.themes import THEMES
from repl.session import Session

EXAMPLE = Path(__file__).parents[2] / "examples" / "gpt_block.hlo"
COMMANDS = (
    "apply -O2",
    "diff",
    "diff --side",
    "diff --stat",
    "history --tree",
    "memory",
    "stats",
    "explain fusion",
    "rules algebraic-simplifier",
    "missed fusion",
    "passes",
    "help",
    "help diff",
    "why dot_general.7",
)


def printed(width: int, *commands: str) -> list[str]:
    """Return the lines that a terminal of `width` columns gets."""
    out = io.StringIO()
    console = Console(
        file=out, width=width, soft_wrap=True, highlight=False, theme=Theme(THEMES["dark"]),
        force_terminal=True, no_color=True, color_system=None,
    )  # fmt: skip
    session = Session()
    try:
        program = Program(session, console)
        for command in (f"load {EXAMPLE}", *commands):
            program.run_line(command)
    finally:
        session.close()
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines = printed(width, *COMMANDS)
    assert len(lines) > 500
    assert [line for line in lines if len(line) > width and " " in line.strip()] == []


def test_a_module_is_printed_to_be_copied() -> None:
    """Its lines stay whole, however wide."""
    assert max(map(len, printed(80, "show"))) > 200


def test_a_run_is_timed_by_calls_after_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `bench` times them, so that the toolbar does not tell two stories."""
    outputs: list[Answer] = []
    real = Child.run

    def run(*arguments: object, **options: object) -> Answer:
        answer = real(*arguments, **options)  # type: ignore[arg-type]
        assert options["seconds"], "the call is repeated"
        outputs.append(Answer("", (), answer.outputs, (3.0, 0.5, 0.25, 0.75), answer.form))
        return outputs[-1]

    monkeypatch.setattr(Child, "run", run)
    session = Session()
    try:
        program = Program(session, Console(file=io.StringIO(), theme=Theme(THEMES["dark"])))
        program.run_line(f"load {EXAMPLE}")
        program.run_line("run")
        assert session.seconds == {session.current: 0.5}
        assert "500 ms" in StatusLine(session).toolbar()
    finally:
        session.close()


def test_a_toolbar_that_is_cut_says_so() -> None:
    session = Session()
    line = StatusLine(session).toolbar(6)
    session.close()
    assert line == "no mo…"
