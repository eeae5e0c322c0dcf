"""A progress line on the terminal, for work that takes longer than half a second."""

from __future__ import annotations

import io
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import TextIO

from hloc.cli.talk import Talk
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import Pass, PassContext
from hloc.opt.pipeline import PipelineObserver

_PATIENCE = 0.5  # seconds without a word
_TICK = 0.1


@dataclass(slots=True, eq=False)
class Progress:
    """The line, drawn by a thread of its own so that it moves during a long step.

    Attributes:
        stream: a terminal; anything else gets nothing.
        what, detail: what goes on and how far it is, changed as work moves on.
    """

    stream: TextIO
    what: str = ""
    detail: str | Callable[[], str] = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _shown: bool = False
    _started: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Draw while the work inside goes on, and leave an empty line."""
        if not self.stream.isatty():
            yield
            return
        self._started = time.perf_counter()
        done = threading.Event()
        drawer = threading.Thread(
            target=self._draw_until, args=(done,), name="hloc-progress", daemon=True
        )
        drawer.start()
        try:
            yield
        finally:
            done.set()
            drawer.join()
            self.hide()

    def hide(self) -> None:
        """Take the line away, for a message; it comes back with the next tick."""
        with self._lock:
            if self._shown:
                self._shown = False
                self.stream.write("\r\x1b[K")
                self.stream.flush()

    def _draw_until(self, done: threading.Event) -> None:
        if done.wait(_PATIENCE):
            return
        while not done.wait(_TICK):
            seconds = time.perf_counter() - self._started
            detail = self.detail if isinstance(self.detail, str) else self.detail()
            text = "  ".join(part for part in (self.what, detail, f"{seconds:.1f} s") if part)
            width = shutil.get_terminal_size().columns - 1
            with self._lock:
                self._shown = True
                self.stream.write(f"\r\x1b[K{text[:width]}")
                self.stream.flush()


def progress_of(talk: Talk, what: str = "") -> Progress:
    """Return the line of progress of a command; messages of `talk` take it off first."""
    progress = Progress(io.StringIO() if talk.quiet else talk.err, what)
    talk.hide_progress = progress.hide
    return progress


@dataclass(slots=True, eq=False)
class PassProgress(PipelineObserver):
    """Shows the pass at work and the rewrites so far."""

    progress: Progress
    context: PassContext

    def on_step_start(self, module: Module, number: int, what: Pass) -> None:
        """Show the pass that starts."""
        self.progress.what = f"{number + 1} {what.name}"
        self.progress.detail = lambda: f"{self.context.rewrites:,} rewrites"
