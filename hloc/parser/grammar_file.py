"""Find the grammar: beside this file in an installed wheel, in `grammar/` in a checkout."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent


def grammar_path() -> Path:
    """Return the path of `hlo.lark`; the installed copy wins."""
    installed = _HERE / "hlo.lark"
    return installed if installed.exists() else _HERE.parents[1] / "grammar" / "hlo.lark"


def grammar_text() -> str:
    """Return the text of the grammar."""
    return grammar_path().read_text(encoding="utf-8")
