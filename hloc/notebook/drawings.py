"""Pictures of `hloc.pictures` in a notebook, each in its own frame.

Without a frame, styles of a picture would apply to the whole notebook, and its script would
run there. A sandboxed frame prevents both and has its own light or dark background.
"""

from __future__ import annotations

import re
from html import escape

from hloc.pictures.graph import draw
from hloc.pictures.page import page
from hloc.pictures.places import BOXES_AT_START
from hloc.pictures.plain_page import chart_page
from hloc.pictures.roofline import roofline
from hloc.pictures.selection import picked
from hloc.report.memory_chart import memory_chart
from hloc.report.module_tools import Graph, MemoryReport, Roofline

_GRAPH_HEIGHT = "height:32rem"


def graph_html(graph: Graph) -> str:
    """Return the page of `hloc graph` in a frame."""
    scene = draw(picked(graph.module), before=graph.before)
    return framed(page(scene, BOXES_AT_START), _GRAPH_HEIGHT, "allow-scripts")


def memory_html(report: MemoryReport) -> str:
    """Return the chart of the arena in a frame, and the collapsed report below it."""
    compiled = report.compiled
    chart = memory_chart(compiled.module, compiled.plan.assignment)
    return _framed_chart("memory", chart) + _text(report, "buffers")


def roofline_html(found: Roofline) -> str:
    """Return the chart of `hloc roofline` in a frame, and the collapsed table below it."""
    chart = roofline(f"{found.name}: roofline of one thread", found.roofs, found.kernels)
    return _framed_chart("roofline", chart) + _text(str(found), "kernels")


def _framed_chart(title: str, svg: str) -> str:
    width, height = re.findall(r"\d+", svg[svg.index("viewBox") :])[2:4]
    return framed(chart_page(title, svg), f"max-width:{width}px;aspect-ratio:{width}/{height}")


def _text(report: str, title: str) -> str:
    return f"<details><summary>{title}</summary><pre>{escape(report)}</pre></details>"


def framed(document: str, size: str, allowed: str = "") -> str:
    """Return a frame with an HTML document.

    Args:
        document: HTML, with its names escaped.
        size: CSS for its height.
        allowed: permissions of the sandbox, "" for none.
    """
    style = f"width:100%;{size};border:0"
    return f'<iframe sandbox="{allowed}" style="{style}" srcdoc="{escape(document)}"></iframe>'
