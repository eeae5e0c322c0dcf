"""Pictures of `hloc.pictures` inside a notebook, each in a frame of its own.

Styles of a picture would apply to the whole notebook, and its script would run there: in a
sandboxed frame they cannot, and the picture has its own background, light or dark.
"""

from __future__ import annotations

from html import escape

from hloc.pictures.graph import draw
from hloc.pictures.page import page
from hloc.pictures.places import BOXES_AT_START
from hloc.pictures.selection import picked
from hloc.report.module_tools import Graph

_GRAPH_HEIGHT = "height:32rem"


def graph_html(graph: Graph) -> str:
    """Return the page of `hloc graph` in a frame."""
    scene = draw(picked(graph.module), before=graph.before)
    return framed(page(scene, BOXES_AT_START), _GRAPH_HEIGHT, "allow-scripts")


def framed(document: str, size: str, allowed: str = "") -> str:
    """Return a frame that holds an HTML document.

    Args:
        document: escaped already, where it shows names.
        size: CSS for its height.
        allowed: what the sandbox lets it do, "" for nothing.
    """
    style = f"width:100%;{size};border:0"
    return f'<iframe sandbox="{allowed}" style="{style}" srcdoc="{escape(document)}"></iframe>'
