"""What all drawings share: colours for light and dark pages, and the SVG elements of charts."""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from hloc.pictures.colours import DARK, XLA, Colour

CHART_STYLE = """
  svg { color: #1b1f24; background: #ffffff; font: 12px system-ui, sans-serif; }
  text { fill: currentColor; }
  .axis { stroke: currentColor; stroke-width: 1; }
  .grid { stroke: currentColor; stroke-opacity: 0.15; }
  .peak { stroke: #d1242f; stroke-width: 1.5; stroke-dasharray: 5 3; }
  @media (prefers-color-scheme: dark) {
    svg { color: #e6edf3; background: #0d1117; }
    .peak { stroke: #ff7b72; }
  }
"""
"""Rules of every chart; `currentColor` is ink."""


def kind_style(selector: str) -> str:
    """Return rules that give `selector`.kind, `rect.contraction`, and `text.kind` their colours."""
    light = _rules(XLA, selector)
    dark = _rules(DARK, selector)
    return f"{light}  @media (prefers-color-scheme: dark) {{\n{dark}  }}\n"


def _rules(palette: dict[str, Colour], selector: str) -> str:
    return "".join(
        f"  {selector}.{kind} {{ fill: {colour.fill}; stroke: {colour.border}; }} "
        f"text.{kind} {{ fill: {colour.text}; }}\n"
        for kind, colour in palette.items()
    )


def chart(
    title: str, width: float, height: float, left: float, style: str, marks: Iterable[str]
) -> str:
    """Return a chart as an SVG file: its title at `left`, then `marks`."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'role="img" aria-label={quoteattr(title)}>',
        f"<style>{CHART_STYLE}{style}</style>",
        f'<text x="{left}" y="22" font-size="15">{escape(title)}</text>',
        *marks,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def line(style: str, x1: float, y1: float, x2: float, y2: float) -> str:
    """Return a line of class `style`."""
    return f'<line class="{style}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def label(x: float, y: float, words: str, anchor: str = "start", style: str = "") -> str:
    """Return a text whose `anchor` (start, middle, end) is at x, y."""
    kind = f'class="{style}" ' if style else ""
    return f'<text {kind}x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
