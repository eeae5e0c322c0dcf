"""What the tests of the REPL share: sessions whose child process ends, and commands as text."""

import io
from collections.abc import Callable, Iterator

import pytest
from rich.console import Console

from hloc.opt.registry import forget_registered
from repl.commands import execute
from repl.render import render
from repl.scripts import command_lines
from repl.session import Session
from tests.waiting import PATIENCE

Say = Callable[[str], str]


@pytest.fixture
def repl() -> Iterator[Session]:
    """A session with nothing loaded."""
    session = Session()
    session.settings.set("timeout", str(PATIENCE))
    yield session
    session.close()
    forget_registered()


@pytest.fixture
def say(repl: Session) -> Say:
    """Carry out the commands in a text and return what they print, blanks made single."""

    def carry_out(script: str) -> str:
        out = io.StringIO()
        console = Console(file=out, width=400, soft_wrap=True, highlight=False, no_color=True)
        for line in command_lines(script):
            for result in execute(repl, line):
                for text in render(result):
                    console.print(text)
        return "\n".join(" ".join(line.split()) for line in out.getvalue().splitlines())

    return carry_out
