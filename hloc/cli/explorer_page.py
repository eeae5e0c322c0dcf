"""The page of `--dump-dir`: one HTML file that needs no network and runs no code from the module.

The data are embedded as JSON; the script inserts every string as text, never as HTML.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from hloc.analysis.diff.diff_rows import KIND_WORDS
from hloc.pictures.page import embedded, filled


def explorer_page(data: Mapping[str, Any]) -> str:
    """Return the page for `data`: `module`, `pipeline` and `steps` (see `dump_dir`)."""
    data = {**data, "marks": KIND_WORDS}
    folder = files("hloc.cli").joinpath("explorer")
    style, script, page = (
        folder.joinpath(f"explorer.{ending}").read_text(encoding="utf-8")
        for ending in ("css", "js", "html")
    )
    title = html.escape(str(data["module"]))
    return filled(page, {"STYLE": style, "SCRIPT": script, "DATA": embedded(data), "TITLE": title})
