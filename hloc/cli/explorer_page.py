"""The page of `--dump-dir`: one HTML file that needs no network and runs nothing it was given.

The data stand in it as JSON; the script puts every text into the page as text, never as HTML.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any


def explorer_page(data: Mapping[str, Any]) -> str:
    """Return the page for `data`: `module`, `pipeline` and `steps` (see `dump_dir`)."""
    folder = files("hloc.cli").joinpath("explorer")
    style = folder.joinpath("explorer.css").read_text(encoding="utf-8")
    script = folder.joinpath("explorer.js").read_text(encoding="utf-8")
    page = folder.joinpath("explorer.html").read_text(encoding="utf-8")
    parts = {  # what comes from the module last: it may hold `%STYLE%`
        "STYLE": style,
        "SCRIPT": script,
        "DATA": embedded(data),
        "TITLE": html.escape(str(data["module"])),
    }
    for name, text in parts.items():
        head, _, tail = page.partition(f"%{name}%")
        page = head + text + tail
    return page


def embedded(data: Mapping[str, Any]) -> str:
    """Return JSON that can stand inside a `script` element: no `<` can end it."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
