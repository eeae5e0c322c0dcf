"""Common style of drawings: colours for light and dark pages, and the SVG elements of charts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.sax.saxutils import escape, quoteattr

from hloc.pictures.colours import DARK, KINDS, TITLES, XLA, Colour

CHART_STYLE = """
  svg { color: #1b1f24; background: #ffffff; font: 12px system-ui, sans-serif; }
  text { fill: currentColor; }
  .axis { stroke: currentColor; stroke-width: 1; }
  .grid { stroke: currentColor; stroke-opacity: 0.15; }
  .soft { fill-opacity: 0.75; }
  .peak { stroke: #d1242f; stroke-width: 1.5; stroke-dasharray: 5 3; }
  @media (prefers-color-scheme: dark) {
    svg { color: #e6edf3; background: #0d1117; }
    .peak { stroke: #ff7b72; }
  }
"""
"""Rules of every chart; `currentColor` is the text colour."""

_ROUND = (1, 2, 5, 10, 20, 50, 100, 200, 500)


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
    title: str,
    subtitle: str,
    size: tuple[float, float],
    left: float,
    style: str,
    marks: Iterable[str],
) -> str:
    """Return a chart of width and height `size` as SVG: titles at `left`, then `marks`."""
    width, height = size
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'role="img" aria-label={quoteattr(title)}>',
        f"<style>{CHART_STYLE}{style}</style>",
        f'<text x="{left}" y="22" font-size="15">{escape(title)}</text>',
        label(left, 40, subtitle, style="soft"),
        *marks,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def legend(kinds: Iterable[str], left: float, y: float) -> Iterator[str]:
    """Yield a swatch and the title of each kind, in the order of `KINDS`, in one line."""
    seen = set(kinds)
    x = left
    for kind in KINDS:
        if kind in seen:
            yield f'<rect class="{kind}" x="{x:.1f}" y="{y - 9:.1f}" width="10" height="10"/>'
            yield label(x + 15, y, TITLES[kind], style="soft")
            x += 35 + 6.4 * len(TITLES[kind])


def ticks(most: int, most_steps: int = 6, base: int = 10) -> list[int]:
    """Return round numbers from 0 to `most`, in at most `most_steps` steps: 0, 20, 40.

    With `base` 1024 they are round in B, KiB, MiB.
    """
    unit = 1
    while most // unit >= base:
        unit *= base
    sizes = (n * u for u in (max(unit // base, 1), unit) for n in _ROUND if n < base)
    step = next((size for size in sizes if size * most_steps >= most), unit * _ROUND[-1])
    return list(range(0, most + 1, step))


def line(style: str, x1: float, y1: float, x2: float, y2: float) -> str:
    """Return a line of class `style`."""
    return f'<line class="{style}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def label(x: float, y: float, words: str, anchor: str = "start", style: str = "") -> str:
    """Return a text whose `anchor` (start, middle, end) is at x, y."""
    kind = f'class="{style}" ' if style else ""
    return f'<text {kind}x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
