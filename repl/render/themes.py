"""Colours and words: themes for dark, light and colour-blind-safe output, and plain text.

A theme maps style names to colours; a glyph or a word always carries the same information.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TextIO

from rich.console import Console
from rich.text import Text
from rich.theme import Theme

from repl.settings import ON_OFF, Setting, add_setting

_CHANGES = ("added", "removed", "changed", "rewired", "merged", "moved")


def _theme(*colours: str, quiet: str = "dim", **others: str) -> dict[str, str]:
    """Return a theme by the colours of `_CHANGES`, that of what stays behind, and others."""
    return {
        **{f"diff.{name}": colour for name, colour in zip(_CHANGES, colours, strict=True)},
        **{"diff.old": "strike", "diff.new": "bold underline"},
        **{"diff.rule": quiet, "diff.head": quiet},
        **others,
    }


_GREEN, _BROWN, _PETROL, _GREY = "rgb(0,100,0)", "rgb(130,80,0)", "rgb(0,90,110)", "rgb(90,90,90)"
_BLUE, _ORANGE = "rgb(86,160,240)", "rgb(230,140,0)"

THEMES: dict[str, dict[str, str]] = {
    "dark": _theme("green", "red", "yellow", "cyan", "magenta", "bright_blue"),
    "light": _theme(
        _GREEN, "rgb(170,0,0)", _BROWN, _PETROL, "rgb(110,0,110)", "rgb(0,0,170)",
        quiet=_GREY, green=_GREEN, yellow=_BROWN, cyan=_PETROL, dim=_GREY,
    ),
    "mono": _theme(
        "", "", "", "", "", "", quiet="", green="", red="", yellow="", cyan="", dim="",
        **{"bold red": "bold", "bold green": "bold"},
    ),
    "colorblind": _theme(
        _BLUE, _ORANGE, "rgb(240,228,66)", "rgb(120,200,240)", "rgb(204,121,167)", _BLUE,
        green=_BLUE, red=_ORANGE,
        **{"bold red": f"bold {_ORANGE}", "bold green": f"bold {_BLUE}"},
    ),
}  # fmt: skip
"""Styles by theme. `colorblind` uses blue and orange, after Okabe and Ito's palette."""


for _row in (
    Setting("theme", "dark", "colours", tuple(THEMES)),
    Setting("a11y", "off", "use words instead of glyphs and lines, for screen readers", ON_OFF),
    Setting("pager", "on", "page long output at a terminal", ON_OFF),
    Setting("mouse", "off", "enable the mouse in menus", ON_OFF),
):
    add_setting(_row)


def make_console(
    color: str = "auto", theme: str = "dark", environment: Mapping[str, str] = os.environ
) -> Console:
    """Return the console to print on.

    Args:
        color: `auto` (on a terminal with colours, without NO_COLOR), `always` or `never`.
        theme: one of THEMES.
        environment: holds NO_COLOR and TERM.
    """
    plain = color == "never" or (color == "auto" and not wants_color(environment))
    return Console(
        highlight=False,
        soft_wrap=True,
        theme=Theme(THEMES[theme]),
        no_color=plain,
        color_system=None if plain else "auto",
        force_terminal=True if color == "always" else None,
    )


def wants_color(environment: Mapping[str, str]) -> bool:
    """Return False if the environment disables colours."""
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether this stream is a terminal; a closed one is none."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


# ---------------------------------------------------------------- words for glyphs

_LINE_WORDS = {
    "+": "added",
    "-": "removed",
    "~": "changed",
    "⇄": "rewired",
    "□": "layout of",
    "≡": "merged",
    "*": "expanded",
    "»": "moved",
    "↕": "reordered",
    "@": "renamed",
    "⋮": "skipped",
    "●": "current",
    "○": "state",
}
"""Glyph at the start of a line -> word."""

_WORDS = {
    "→": "to",
    "←": "by",
    "⇄": "rewired",
    "≡": "equals",
    "≢": "differs from",
    "⋮": "skipped",
    "✓": "ok",
    "✗": "invalid",
    "×": "times ",
    "●": "current",
    "─": "",
    "│": "",
    "┼": "",
    "├": "",
    "└": "",
    "┌": "",
    "┐": "",
    "┘": "",
    "…": "...",
    "·": ",",
    "›": ">",
}


def spoken(text: str, *, rows: bool = False) -> str:
    """Return `text` for a screen reader, with words for glyphs and no drawn lines.

    Args:
        text: one or more lines.
        rows: the lines are rows of a diff, where + and - at the start are glyphs too.
    """
    return "\n".join(_spoken_line(line, rows) for line in text.split("\n"))


def _spoken_line(line: str, rows: bool) -> str:
    glyph, space, rest = line.lstrip(" │").partition(" ")
    is_glyph = glyph in _LINE_WORDS and space and (rows or glyph not in "+-~")
    if is_glyph:
        line = f"{_LINE_WORDS[glyph]}: {rest.lstrip()}"
    for sign, word in _WORDS.items():
        if sign in line:
            line = line.replace(sign, word)
    return line.rstrip()


def in_words(text: Text, *, rows: bool) -> Text:
    """Return a line in words and without styles; see `spoken`."""
    return Text(spoken(text.plain, rows=rows))
