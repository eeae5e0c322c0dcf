"""A picture as SVG: one file without scripts, for light and dark pages."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from hloc.pictures.colours import STATUS
from hloc.pictures.labels import shown
from hloc.pictures.places import Node, Way, all_nodes, lines_of, opened, place, ways
from hloc.pictures.scene import Scene
from hloc.pictures.style import CHART_STYLE, kind_style

_MARGIN = 16.0


def svg(scene: Scene, most: int) -> str:
    """Return the drawing of `scene`, opened to at most `most` boxes."""
    root = opened(scene, most)
    place(root)
    width, height = root.width + 2 * _MARGIN, root.height + 2 * _MARGIN + 20
    title = f"{scene.title}: {scene.root.title}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label={quoteattr(title)}>',
            f"<style>{_style()}</style>",
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0 0.8L7.5 4L0 7.2z"/></marker></defs>',
            f'<text x="{_MARGIN}" y="20" class="t">{escape(title)}</text>',
            f'<g transform="translate({_MARGIN} {_MARGIN + 20})">',
            *_frames(root),
            *map(_edge, ways(root)),
            *_boxes(root),
            "</g>",
            "</svg>",
            "",
        ]
    )


def _style() -> str:
    marks = "".join(
        f"  rect.{name} {{ stroke: {colour}; stroke-width: 2.5; }}\n"
        for name, colour in STATUS.items()
    )
    return (
        f"{_STYLE}{kind_style('rect')}"
        f"  rect.f {{ fill-opacity: 0.5; stroke-dasharray: 4 3; }}\n"
        f"{marks}  rect.removed {{ stroke-dasharray: 6 3; fill-opacity: 0.4; }}\n"
        f"  .gone {{ stroke: {STATUS['removed']}; stroke-dasharray: 5 3; }}\n"
    )


_STYLE = (
    CHART_STYLE
    + """  text { font: 11px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; }
  .t { font-size: 12px; font-weight: 600; }
  .n { opacity: 0.68; }
  .e { fill: none; stroke: #6b7784; stroke-width: 1.1; marker-end: url(#arrow); }
  .long { opacity: 0.35; }
  .control { stroke-dasharray: 2 3; }
  marker path { fill: #6b7784; }
"""
)


def _frames(root: Node) -> Iterator[str]:
    """Yield the frames of open boxes, outer ones first."""
    for node in all_nodes(root):
        if node.is_open and node.parent is not None:
            yield f"<g><title>{escape(tooltip(node))}</title>"
            yield _rectangle(node, f"f group {node.box.status}".strip(), 8) + "</g>"
            x, y, title = node.x + 12, node.y + 18, escape(lines_of(node.box)[0])
            yield f'<text class="t group" x="{x:.1f}" y="{y:.1f}">{title}</text>'


def _boxes(root: Node) -> Iterator[str]:
    for node in all_nodes(root):
        if node.is_open:
            continue
        box = node.box
        classes = f"b {box.kind} {box.status}".strip()
        yield f"<g><title>{escape(tooltip(node))}</title>"
        if box.count > 1:
            yield _rectangle(node, classes, 4, 4.0)
        yield _rectangle(node, classes, 8 if box.kind == "call" else 4)
        for line, (text, name) in enumerate(zip(lines_of(box), ("t", "n"), strict=True)):
            y = node.y + 17 + line * 15
            yield (
                f'<text class="{name} {box.kind}" x="{node.middle:.1f}" y="{y:.1f}" '
                f'text-anchor="middle">{escape(text)}</text>'
            )
        yield "</g>"


def _rectangle(node: Node, classes: str, radius: int, shift: float = 0.0) -> str:
    return (
        f'<rect class="{classes}" x="{node.x + shift:.1f}" y="{node.y + shift:.1f}" '
        f'width="{node.width:.1f}" height="{node.height:.1f}" rx="{radius}"/>'
    )


def _edge(way: Way) -> str:
    edge = way.edge
    flags = (("long", way.is_long), ("control", edge.control), ("gone", edge.gone))
    classes = " ".join(["e", *(name for name, flag in flags if flag)])
    return f'<path class="{classes}" d="{way.path}"/>'


def tooltip(node: Node) -> str:
    """Return the tooltip of a box."""
    box = node.box
    lines = [box.title] if box.inst is None else [shown(repr(box.inst), 400)]
    if box.inst is not None and box.inst.op_name:
        lines.append(shown(box.inst.op_name, 200))
    lines.append(f"{box.flops:,} operations, {box.bytes:,} bytes")
    if box.count > 1:
        lines.append(f"{box.count:,} instructions")
    if box.status:
        lines.append(f"{box.status}{f', {shown(box.was, 200)}' if box.was else ''}")
    return "\n".join([*lines, *filter(None, [box.hidden])])
