"""What all drawings share: colours of paper, ink, grid and peak, for light and dark pages."""

from __future__ import annotations

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
