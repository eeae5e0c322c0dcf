"""A picture as one self-contained HTML page.

The page contains the boxes as JSON, with rows and order; its script computes coordinates, so that
a box expands in place. The content security policy allows only that script.
"""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Any

from hloc.analysis.diff.module_lines import line_of
from hloc.ir.origin import origin_of
from hloc.pictures.boxes import Box
from hloc.pictures.colours import KINDS, PALETTES, STATUS, TITLES
from hloc.pictures.labels import shown
from hloc.pictures.places import all_nodes, opened
from hloc.pictures.scene import Scene

_SORTS = ("instruction", "computation", "scope", "repeat", "part")
_LINE_LETTERS = 300
_SCRIPTS = ("layout.js", "drawing.js", "controls.js")
"""Files of `page/` that form the script, in this order."""


def page(scene: Scene, most: int) -> str:
    """Return the page of `scene`, which initially shows at most `most` boxes."""
    folder = files("hloc.pictures").joinpath("page")
    style = folder.joinpath("graph.css").read_text(encoding="utf-8")
    script = "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in _SCRIPTS)
    text = folder.joinpath("graph.html").read_text(encoding="utf-8")
    title = f"{scene.title}: {scene.root.title}"
    parts = {
        "STYLE_HASH": _hash(style),
        "SCRIPT_HASH": _hash(script),
        "STYLE": style,
        "SCRIPT": script,
        "TITLE": html.escape(title),
        "DATA": embedded(_data(scene, title, most)),
    }
    return filled(text, parts)


def filled(template: str, parts: Mapping[str, str]) -> str:
    """Return `template` with each `%NAME%` replaced once; inserted text is not searched again."""
    return re.sub("%([A-Z_]+)%", lambda found: parts[found[1]], template)


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


def embedded(data: Any) -> str:
    """Return JSON that is safe inside a `script` element."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _data(scene: Scene, title: str, most: int) -> dict[str, Any]:
    """Return the scene as JSON; boxes refer to each other, and to repeated texts, by number."""
    reached = _reached(scene.root)
    number = {box: i for i, box in enumerate(reached)}
    strings: dict[str, int] = {"": 0}
    origins: dict[int, str] = {}
    rows = [_row(box, number, strings, origins) for box in reached]
    open_nodes = [node for node in all_nodes(opened(scene, most)) if node.is_open]
    by_number = {box.number: i for box, i in number.items()}
    return {
        "title": title,
        "root": number[scene.root],
        "open": [".".join(str(by_number[n]) for n in node.key) for node in open_nodes],
        "changed": any(box.status for box in reached),
        "kinds": KINDS,
        "titles": TITLES,
        "palettes": PALETTES,
        "status": STATUS,
        "boxes": rows,
        "edges": [[number[box], _edges(box, number)] for box in reached if box.edges],
        "strings": list(strings),
    }


def _reached(root: Box) -> list[Box]:
    """Return the boxes that can be reached from `root`, each before its contents."""
    found: dict[Box, None] = {}
    stack = [root]
    while stack:
        box = stack.pop()
        if box not in found:
            found[box] = None
            stack.extend(reversed((*box.children, *box.bodies)))
    return list(found)


def _edges(box: Box, number: dict[Box, int]) -> list[int]:
    """Return source, target and flags (1 control, 2 removed) of every edge, flattened."""
    return [
        value
        for edge in box.edges
        for value in (number[edge.source], number[edge.target], edge.control + 2 * edge.gone)
    ]


def _row(
    box: Box, number: dict[Box, int], strings: dict[str, int], origins: dict[int, str]
) -> list[Any]:
    """Return the fields in the order of the script, without trailing empty ones."""

    def text(words: str) -> int:
        return strings.setdefault(words, len(strings))

    rows, chains = _layers(box)
    fields: list[Any] = [
        _SORTS.index(box.sort),
        text(box.title),
        text(box.name),
        text(box.shape),
        KINDS.index(box.kind),
        box.count,
        box.repeats,
        box.flops,
        box.bytes,
        text(box.status),
        text(shown(box.was, _LINE_LETTERS)),
        text(box.hidden),
        *map(text, _words(box, origins)),
        [number[child] for child in box.children],
        [number[body] for body in box.bodies],
        rows,
        chains,
    ]
    while fields and not fields[-1]:
        fields.pop()
    return fields


def _layers(box: Box) -> tuple[Any, Any]:
    return ((), ()) if box.layers is None else (box.layers.rows, box.layers.chains)


def _words(box: Box, origins: dict[int, str]) -> Iterator[str]:
    """Yield the line of HLO, the scope, and the line of Python."""
    if box.inst is None:
        yield from ("", "", "")
        return
    yield shown(line_of(box.inst).text(), _LINE_LETTERS)
    metadata = box.inst.common.metadata
    yield shown(metadata.op_name, _LINE_LETTERS) if metadata is not None else ""
    frame = metadata.stack_frame_id if metadata is not None else 0
    if not frame or box.status == "removed":  # frames of an earlier module have other numbers
        yield shown(origin_of(box.inst), _LINE_LETTERS)
        return
    if frame not in origins:
        origins[frame] = shown(origin_of(box.inst), _LINE_LETTERS)
    yield origins[frame]
