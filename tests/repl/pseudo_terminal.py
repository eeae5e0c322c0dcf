"""A pseudo-terminal for tests: hlo-repl runs in it as for a person, and its screen can be read.

The screen knows what prompt_toolkit and rich write: text, moves of the cursor, erasing. It is as
long as all that was written, so nothing scrolls away.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
ROWS, COLUMNS = 45, 110

_SEQUENCE = re.compile(r"\x1b\[([?>]?)([\d;]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b[=>()][B0]?|\x1b\S")


class Screen:
    """Lines of characters and a cursor."""

    def __init__(self) -> None:
        self.lines: list[list[str]] = [[]]
        self.row = self.column = 0
        self._rest = ""
        self.alternate = False
        self.questions = 0  # where is the cursor?

    def feed(self, data: str) -> None:
        """Write what a program wrote."""
        data = self._rest + data
        self._rest = ""
        at = 0
        while at < len(data):
            if data[at] == "\x1b":
                found = _SEQUENCE.match(data, at)
                if found is None:
                    self._rest = data[at:]
                    return
                self._move(found)
                at = found.end()
            else:
                self._put(data[at])
                at += 1

    def _put(self, char: str) -> None:
        """Write one character, or move the cursor for a control character."""
        if char == "\n":
            self.row += 1
        elif char == "\r":
            self.column = 0
        elif char == "\b":
            self.column = max(0, self.column - 1)
        elif char >= " ":
            line = self._line()
            line += " " * (self.column + 1 - len(line))
            line[self.column] = char
            self.column += 1

    def _line(self) -> list[str]:
        while self.row >= len(self.lines):
            self.lines.append([])
        return self.lines[self.row]

    def _move(self, found: re.Match[str]) -> None:
        """Carry out an escape sequence that moves the cursor, erases, or switches screens."""
        private, numbers, letter = found[1], found[2] or "", found[3]
        first = int(numbers.split(";")[0] or 0) if letter else 0
        if private and letter in "hl" and first in (47, 1047, 1049):
            self.alternate = True
        if private or not letter:
            return
        if letter == "A":
            self.row = max(0, self.row - max(1, first))
        elif letter == "B":
            self.row += max(1, first)
        elif letter == "C":
            self.column += max(1, first)
        elif letter == "D":
            self.column = max(0, self.column - max(1, first))
        elif letter == "n":
            self.questions += 1
        elif letter == "K":
            del self._line()[self.column :]
        elif letter == "J":
            del self._line()[self.column :]
            del self.lines[self.row + 1 :]

    def text(self) -> str:
        """Return all lines."""
        return "\n".join("".join(line).rstrip() for line in self.lines)


class PseudoTerminal:
    """hlo-repl in a terminal of its own."""

    def __init__(self, child: int, master: int) -> None:
        self.child, self.master = child, master
        self.screen = Screen()
        self.code: int | None = None

    def send(self, keys: str) -> None:
        """Type something."""
        os.write(self.master, keys.encode())

    def read(self, seconds: float) -> bool:
        """Take in what was written within some time; False at the end of the program."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.screen.feed(data.decode("utf-8", "replace"))
        while self.screen.questions:
            self.screen.questions -= 1
            row = min(self.screen.row + 1, ROWS)
            self.send(f"\x1b[{row};{self.screen.column + 1}R")
        return bool(data)

    def wait_for(self, text: str, seconds: float = PATIENCE) -> str:
        """Read until the screen holds `text`; returns the screen."""
        end = time.monotonic() + seconds
        while text not in self.screen.text():
            alive = self.read(0.2)
            if text in self.screen.text():
                break
            assert alive, f"the program ended before {text!r}:\n{self.screen.text()}"
            assert time.monotonic() < end, f"no {text!r} on the screen:\n{self.screen.text()}"
        return self.screen.text()

    def wait_for_prompt(self, prompt: str, seconds: float = PATIENCE) -> None:
        """Read until the cursor stands behind `prompt`."""
        end = time.monotonic() + seconds
        while not self._at_prompt(prompt):
            assert self.read(0.2), self.screen.text()
            assert time.monotonic() < end, f"no {prompt!r}:\n{self.screen.text()}"

    def command(self, line: str, prompt: str, seconds: float = PATIENCE) -> str:
        """Type a command, wait for the next prompt, and return what it printed."""
        start = self.screen.row
        self.send(line + "\r")
        end = time.monotonic() + seconds
        while not (self._at_prompt(prompt) and self.screen.row > start):
            assert self.read(0.2), self.screen.text()
            assert time.monotonic() < end, f"no {prompt!r} after {line!r}:\n{self.screen.text()}"
        lines = self.screen.text().split("\n")
        return "\n".join(lines[start + 1 : self.screen.row])

    def _at_prompt(self, prompt: str) -> bool:
        if self.screen.row >= len(self.screen.lines):
            return False
        line = "".join(self.screen.lines[self.screen.row])
        return line.startswith(prompt) and self.screen.column == len(prompt)

    def finish(self) -> int:
        """Leave, and return the exit code."""
        end = time.monotonic() + PATIENCE
        while self.read(0.2):
            assert time.monotonic() < end, self.screen.text()
        _, status = os.waitpid(self.child, 0)
        self.code = os.waitstatus_to_exitcode(status)
        return self.code


@contextmanager
def terminal(
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] = {},
    program: str = "repl",
) -> Iterator[PseudoTerminal]:
    """Start hlo-repl, or another module, with some arguments in `folder`; end it on the way out."""
    kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
    values = {
        **kept,
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PYTHONPATH": str(ROOT),
        "PYTHONUTF8": "1",
        "TERM": "xterm",
        **environment,
    }
    child, master = pty.fork()
    if child == 0:
        os.chdir(folder)
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        os.execve(sys.executable, [sys.executable, "-m", program, *words], values)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    running = PseudoTerminal(child, master)
    try:
        yield running
    finally:
        if running.code is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        os.close(master)
