"""Script and style of the widget: those of `hloc web`, as one text each."""

from __future__ import annotations

import re
from importlib.resources import files

_SCRIPTS = ("dom.js", "highlight.js", "diff.js", "told.js")
"""Scripts of `hloc web`, each after those that it imports; no two define the same name."""

_STYLES = ("colours.css", "state.css")


def script() -> str:
    """Return the widget as one module of JavaScript, whose default export is for anywidget."""
    parts = [_module(_web_file(name)) for name in _SCRIPTS]
    own = re.sub(r"^import .*\n", "", _own_file("slider.js"), flags=re.MULTILINE)
    return "\n".join([*parts, own])


def style() -> str:
    """Return the rules, which apply inside the widget only."""
    rules = "\n".join([*map(_web_file, _STYLES), _own_file("slider.css")])
    return f".hloc-passes {{\n{rules.replace(':root', '&')}}}\n"


def _module(text: str) -> str:
    """Return a module as a part of a larger one, which has its imports before it."""
    return re.sub(r"^(import .*\n|export )", "", text, flags=re.MULTILINE)


def _web_file(name: str) -> str:
    return files("hloc.web").joinpath("page", name).read_text(encoding="utf-8")


def _own_file(name: str) -> str:
    return files("hloc.notebook").joinpath("page", name).read_text(encoding="utf-8")
