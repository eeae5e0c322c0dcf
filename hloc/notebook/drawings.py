"""Pictures of `hloc.pictures` inside a notebook, each in a frame of its own.

Styles of a picture would apply to the whole notebook, and its script would run there: in a
sandboxed frame they cannot, and the picture has its own background, light or dark.
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
    """Return the chart of the arena in a frame, and the report below it to open."""
    compiled = report.compiled
    chart = memory_chart(compiled.module, compiled.plan.assignment)
    return _framed_chart("memory", chart) + _text(report, "buffers")


def roofline_html(found: Roofline) -> str:
    """Return the chart of `hloc roofline` in a frame, and the table below it to open."""
    chart = roofline(f"{found.name}: roofline of one thread", found.roofs, found.kernels)
    return _framed_chart("roofline", chart) + _text(str(found), "kernels")


def _framed_chart(title: str, svg: str) -> str:
    width, height = re.findall(r"\d+", svg[svg.index("viewBox") :])[2:4]
    return framed(chart_page(title, svg), f"max-width:{width}px;aspect-ratio:{width}/{height}")


def _text(report: str, title: str) -> str:
    return f"<details><summary>{title}</summary><pre>{escape(report)}</pre></details>"


def framed(document: str, size: str, allowed: str = "") -> str:
    """Return a frame that holds an HTML document.

    Args:
        document: escaped already, where it shows names.
        size: CSS for its height.
        allowed: what the sandbox lets it do, "" for nothing.
    """
    style = f"width:100%;{size};border:0"
    return f'<iframe sandbox="{allowed}" style="{style}" srcdoc="{escape(document)}"></iframe>'
