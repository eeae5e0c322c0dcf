"""A progress line on the terminal, for work that takes longer than half a second."""

from __future__ import annotations

import io
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import TextIO, TypeVar

from hloc.lazy_dataclass import dataclass

T = TypeVar("T")

_PATIENCE = 0.5  # seconds without a line
_TICK = 0.1
_BAR = 24  # columns
_SURE = 2.0  # seconds before the first estimate


@dataclass(slots=True, eq=False)
class Progress:
    """The progress line, drawn by its own thread so that it moves during a long step.

    Attributes:
        stream: a terminal; other streams get nothing.
        what, detail: the work and its present step, which change over time.
        done, total: numbers of steps, for the bar and the estimate; a total of 0 shows neither.
        hidden: True while nothing is drawn, because another program has the terminal.
    """

    stream: TextIO = field(default_factory=io.StringIO)
    what: str = ""
    detail: str | Callable[[], str] = ""
    done: int = 0
    total: int = 0
    hidden: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _shown: bool = False
    _started: float = 0.0
    _is_drawn: bool = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Draw while the block runs, and leave an empty line."""
        if not self.stream.isatty():
            yield
            return
        self._started, self._is_drawn = time.perf_counter(), True
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
            self._is_drawn = False
            self.hide()

    def begin(self, what: str, total: int = 0) -> None:
        """Start another piece of work, of `total` steps if that is known."""
        self.what, self.detail, self.done, self.total = what, "", 0, total
        self._started = time.perf_counter()

    @contextmanager
    def work(self, what: str, total: int = 0) -> Iterator[None]:
        """Draw while the block runs; nested work replaces the outer work meanwhile."""
        outer = (self.what, self.detail, self.done, self.total, self._started)
        self.begin(what, total)
        try:
            if self._is_drawn:
                yield
            else:
                with self.running():
                    yield
        finally:
            self.what, self.detail, self.done, self.total, self._started = outer

    def track(self, what: str, items: Sequence[T], text: Callable[[T], str] = str) -> Iterator[T]:
        """Yield `items`, each a step with `text(item)` as its detail."""
        with self.work(what, len(items)):
            for item in items:
                self.detail = text(item)
                yield item
                self.done += 1

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Leave the terminal to what the block writes."""
        was_hidden, self.hidden = self.hidden, True
        self.hide()
        try:
            yield
        finally:
            self.hidden = was_hidden

    def hide(self) -> None:
        """Remove the line, for a message; it returns with the next tick."""
        with self._lock:
            if self._shown:
                self._shown = False
                self.stream.write("\r\x1b[K")
                self.stream.flush()

    def line(self, seconds: float, width: int) -> str:
        """Return the line after `seconds`: `verify ━━━━──── 7/24  3.2 s, about 8 s left`."""
        detail = self.detail if isinstance(self.detail, str) else self.detail()
        done, total = min(self.done, self.total), self.total
        passed = f"{seconds:.1f} s"
        if total:
            full = _BAR * done // total
            bar = f"{'━' * full}{'─' * (_BAR - full)} {done:,}/{total:,}"
            if done and seconds >= _SURE:
                passed += f", about {seconds * (total - done) / done:,.0f} s left"
            parts: tuple[str, ...] = (self.what, bar, passed, detail)
        else:
            parts = (self.what, detail, passed)
        return "  ".join(part for part in parts if part)[:width]

    def _draw_until(self, done: threading.Event) -> None:
        if done.wait(_PATIENCE):
            return
        while not done.wait(_TICK):
            text = self.line(
                time.perf_counter() - self._started, shutil.get_terminal_size().columns - 1
            )
            with self._lock:
                if self.hidden or done.is_set():
                    continue
                self._shown = True
                self.stream.write(f"\r\x1b[K{text}")
                self.stream.flush()
