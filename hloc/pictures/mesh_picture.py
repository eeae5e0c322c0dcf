"""A mesh as a grid of coloured devices: equal colours form a group, or hold the same tile.

The last axis runs across, the one before it down; others repeat the grid, as the legend
shows. Each cell has the number of its colour, since colours repeat after twelve.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from xml.sax.saxutils import escape, quoteattr

CELL = 22.0
_GAP = 8.0
_LETTER = 6.6
"""Width of a character of a label."""

_LABEL = 17.0
MOST_DEVICES = 64
"""Maximum number of devices of a mesh that is drawn."""

COLOURS = (
    "#9ecae9",
    "#ffbf79",
    "#88d27a",
    "#ff9d98",
    "#d6a5c9",
    "#f2cf5b",
    "#83bcb6",
    "#bab0ac",
    "#b5a7e6",
    "#d8b5a5",
    "#c5d86d",
    "#f4a6d7",
)
"""Light enough for dark text on light and dark pages."""


def mesh_svg(axes: Sequence[tuple[str, int]], groups: Sequence[int], title: str) -> str:
    """Return the grid of `axes`; `groups[d]` is the colour of device d, -1 for none.

    Devices are in row-major order. Returns "" for meshes that are too large to draw.
    """
    sizes = [size for _, size in axes]
    if not groups or prod(sizes) != len(groups) or len(groups) > MOST_DEVICES:
        return ""
    columns = sizes[-1]
    rows = sizes[-2] if len(sizes) > 1 else 1
    per_grid = rows * columns
    grids = len(groups) // per_grid
    width = columns * CELL
    cells = []
    for device, group in enumerate(groups):
        grid, place = divmod(device, per_grid)
        x = grid * (width + _GAP) + place % columns * CELL
        y = place // columns * CELL
        fill = COLOURS[group % len(COLOURS)] if group >= 0 else "#ffffff"
        words = f"device {device}" + (f", {group}" if group >= 0 else ", none")
        cells.append(_cell(x, y, fill, str(group) if group >= 0 else "-", words))
    total = grids * (width + _GAP) - _GAP
    height = rows * CELL
    return (
        f'<svg class="mesh" role="img" aria-label={quoteattr(title)} width="{total:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {total:.0f} {height:.0f}">{"".join(cells)}</svg>'
    )


def legend_svg(axes: Sequence[tuple[str, int]]) -> str:
    """Return the grid with the numbers of the devices and the directions of the axes.

    Returns "" for meshes that are too large to draw.
    """
    sizes = [size for _, size in axes]
    if not sizes or prod(sizes) > MOST_DEVICES:
        return ""
    columns, rows = sizes[-1], sizes[-2] if len(sizes) > 1 else 1
    across, outer = f"{axes[-1][0]} \u2192", axes[:-2]
    down = f"{axes[-2][0]} \u2193" if len(axes) > 1 else ""
    left = len(down) * _LETTER + _GAP if down else 0.0
    top = _LABEL * (2 if outer else 1)
    names = [_coordinates(outer, grid) for grid in range(prod(size for _, size in outer))]
    step = max(columns * CELL, (max(map(len, (*names, across))) + 1) * _LETTER) + _GAP
    parts = [_label(0.0, top + 14, down)] if down else []
    for grid, name in enumerate(names):
        x = left + grid * step
        parts += [_label(x, 12, name)] if outer else []
        parts.append(_label(x, top - 5, across))
        for place in range(rows * columns):
            device = grid * rows * columns + place
            at = x + place % columns * CELL, top + place // columns * CELL
            parts.append(_cell(*at, "#d0d7de", str(device), f"device {device}"))
    width, height = left + len(names) * step - _GAP, top + rows * CELL
    return (
        f'<svg class="mesh" role="img" aria-label="the devices of the mesh" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">{"".join(parts)}</svg>'
    )


def _coordinates(axes: Sequence[tuple[str, int]], number: int) -> str:
    """Return `x=1, y=0` for device `number` in row-major order."""
    words = []
    for name, size in reversed(axes):
        number, at = divmod(number, size)
        words.append(f"{name}={at}")
    return ", ".join(reversed(words))


def _label(x: float, y: float, text: str) -> str:
    return f'<text class="label" x="{x:.0f}" y="{y:.0f}">{escape(text)}</text>'


def _cell(x: float, y: float, fill: str, number: str, words: str) -> str:
    return (
        f'<g><title>{escape(words)}</title><rect x="{x:.0f}" y="{y:.0f}" '
        f'width="{CELL - 2:.0f}" height="{CELL - 2:.0f}" rx="3" fill="{fill}"/>'
        f'<text x="{x + CELL / 2 - 1:.0f}" y="{y + CELL / 2 + 3:.0f}" text-anchor="middle">'
        f"{number}</text></g>"
    )


def tile_groups(
    axes: Sequence[tuple[str, int]], split: Sequence[Sequence[str]] | None
) -> tuple[int, ...]:
    """Return for each device, in row-major order, the number of its tile; () if unknown.

    Args:
        axes: the axes of the mesh, with their sizes.
        split: for each dimension of the array the axes that shard it, major first.
    """
    if split is None or prod(size for _, size in axes) > MOST_DEVICES:
        return ()
    sizes = dict(axes)
    numbers = []
    for device in range(prod(sizes.values())):
        at: dict[str, int] = {}
        for name, size in reversed(axes):
            device, at[name] = divmod(device, size)
        number = 0
        for names in split:
            for name in names:
                number = number * sizes[name] + at[name]
        numbers.append(number)
    return tuple(numbers)
