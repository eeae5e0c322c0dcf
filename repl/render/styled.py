"""Text of strangers as rich shows it: no markup, no terminal escapes."""

from __future__ import annotations

from rich.text import Text

from hloc.errors import printable_lines


def styled(text: str, style: str = "") -> Text:
    """Return `text`, made printable, in one style of rich."""
    return Text(printable_lines(text), style=style)
