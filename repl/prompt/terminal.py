"""Reading commands at a terminal: keys, history, completion, several lines, vi or emacs.

Enter runs the command, unless a menu item is selected (then it inserts that) or the text is
incomplete (then it starts a new line). There is no alternate screen: earlier output stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import ThreadedCompleter
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, completion_is_selected
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth

from hloc.cache_directory import state_folder
from repl.prompt.completion import HloCompleter
from repl.prompt.toolbar import StatusLine
from repl.render.themes import spoken
from repl.session import Session
from repl.settings import SETTINGS


class Terminal:
    """A prompt for one session."""

    def __init__(self, session: Session, *, plain: bool = False) -> None:
        """Make the prompt; without a folder for it, the history lasts as long as the session."""
        self.session = session
        self.status = StatusLine(session)
        self.completer = HloCompleter(session)
        path = history_file()
        self.prompt: PromptSession[str] = PromptSession(
            history=FileHistory(str(path)) if path else InMemoryHistory(),
            auto_suggest=AutoSuggestFromHistory(),
            completer=ThreadedCompleter(self.completer),
            complete_while_typing=False,
            enable_history_search=True,
            enable_open_in_editor=True,
            multiline=True,
            prompt_continuation="  ",
            bottom_toolbar=self.toolbar,
            rprompt=self.badge,
            key_bindings=self._keys(),
            mouse_support=Condition(lambda: session.settings.is_on("mouse")),
            color_depth=ColorDepth.DEPTH_1_BIT if plain else None,
        )

    def read(self) -> str:
        """Return the typed text; raises EOFError at its end, KeyboardInterrupt for Ctrl-C."""
        self.status.prepare()
        self.completer.prepare()
        return self.prompt.prompt(self.message())

    def message(self) -> str:
        """Return the prompt."""
        text = f"{self.status.where()}› "
        return spoken(text) + " " if self._in_words() else text

    def badge(self) -> str:
        """Return the right prompt, which is removed when the command runs."""
        return "" if self._in_words() or self.prompt.app.is_done else self.status.badge()

    def toolbar(self) -> str:
        """Return the bottom line."""
        if self.prompt.default_buffer.text.lstrip().startswith("HloModule"):
            return "a module: Enter at its end loads it · Ctrl-C drops it"
        columns, in_words = self.prompt.app.output.get_size().columns, self._in_words()
        text = self.status.toolbar(columns, with_badge=in_words)
        return spoken(text) if in_words else text

    def _in_words(self) -> bool:
        return self.session.settings.is_on("a11y")

    # ---- keys

    def _keys(self) -> KeyBindings:
        """Return what keys do that the prompt gives another meaning, or none."""
        keys = KeyBindings()

        @keys.add("enter", filter=completion_is_selected)
        def _take(event: KeyPressEvent) -> None:
            event.current_buffer.complete_state = None

        @keys.add("enter", filter=~completion_is_selected & Condition(self._is_typing))
        def _run(event: KeyPressEvent) -> None:
            enter(event.current_buffer, self.status.multiline)

        @keys.add("escape", "enter", filter=Condition(self._is_typing))
        def _run_at_once(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("c-space")
        def _open_menu(event: KeyPressEvent) -> None:
            event.current_buffer.start_completion(select_first=False)

        for key, action in self._actions().items():
            keys.add(key)(_pressed(action))
        return keys

    def _is_typing(self) -> bool:
        """True if keys go to the command line, not to a history search."""
        return self.prompt.app.current_buffer is self.prompt.default_buffer

    def _actions(self) -> dict[str, Callable[[], None]]:
        return {
            "f2": lambda: self._next_value("diff"),
            "f3": self._toggle_multiline,
            "f4": self._toggle_vi,
            "f5": lambda: self._next_value("auto-verify"),
            "f6": lambda: self._next_value("names"),
        }

    def _next_value(self, key: str) -> None:
        settings, choices = self.session.settings, SETTINGS[key].choices
        settings.set(key, choices[(choices.index(settings.text(key)) + 1) % len(choices)])

    def _toggle_multiline(self) -> None:
        self.status.multiline = not self.status.multiline

    def _toggle_vi(self) -> None:
        self.status.vi = not self.status.vi
        self.prompt.editing_mode = EditingMode.VI if self.status.vi else EditingMode.EMACS


def _pressed(action: Callable[[], None]) -> Callable[[KeyPressEvent], None]:
    def handle(event: KeyPressEvent) -> None:
        action()
        event.app.invalidate()

    return handle


def enter(buffer: Buffer, multiline: bool) -> None:
    """Run the text in `buffer`, or begin a new line if it is incomplete."""
    if multiline or not is_complete(buffer.text):
        buffer.newline(copy_margin=False)
    else:
        buffer.validate_and_handle()


_HEREDOC = re.compile(r"<<(\w+)\s*$")


def is_complete(text: str) -> bool:
    """Return whether a text is a whole command or module.

    Braces must be closed; a module needs its entry computation, `<<END` its end.
    """
    opened = text.count("{") - text.count("}")
    start = text.lstrip()
    word = _HEREDOC.search(start.partition("\n")[0])
    if word:
        return start.rstrip().endswith(f"\n{word[1]}")
    if start.startswith("HloModule"):
        return opened <= 0 and "ENTRY" in text and start.rstrip().endswith("}")
    if start.startswith("ENTRY"):
        return opened <= 0 and "{" in text
    return opened <= 0


def is_module(text: str) -> bool:
    """Return whether the typed or pasted text is a module, not a command."""
    start = text.lstrip()
    return start.startswith(("HloModule", "ENTRY")) and "\n" in start.strip()


def history_file() -> Path | None:
    """Return the history file: ./.hloc_history if it exists, else one in the state folder.

    None if the folder cannot be made.
    """
    here = Path(".hloc_history")
    if here.is_file() and not here.is_symlink():  # an untrusted folder could redirect it
        return here
    folder = state_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return None
    return folder / "history"
