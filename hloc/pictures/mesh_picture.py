"""A mesh as a grid of coloured devices: equal colours meet in a collective, or hold the same tile.

The last axis runs across, the one before it down; others repeat the grid. The number of the colour
is written in each cell, since colours repeat after twelve.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from xml.sax.saxutils import escape, quoteattr

CELL = 22.0
_GAP = 8.0
_MOST_DEVICES = 64
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
"""Light enough for dark text on pages of either kind."""


def mesh_svg(axes: Sequence[tuple[str, int]], groups: Sequence[int], title: str) -> str:
    """Return the grid of `axes`; `groups[d]` is the colour of device d, -1 for none.

    Devices lie in the mesh row by row. Returns "" for meshes that are too large to draw.
    """
    sizes = [size for _, size in axes]
    if not groups or prod(sizes) != len(groups) or len(groups) > _MOST_DEVICES:
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
        cells.append(
            f'<g><title>{escape(words)}</title><rect x="{x:.0f}" y="{y:.0f}" '
            f'width="{CELL - 2:.0f}" height="{CELL - 2:.0f}" rx="3" fill="{fill}"/>'
            f'<text x="{x + CELL / 2 - 1:.0f}" y="{y + CELL / 2 + 3:.0f}" text-anchor="middle">'
            f"{group if group >= 0 else '-'}</text></g>"
        )
    total = grids * (width + _GAP) - _GAP
    height = rows * CELL
    return (
        f'<svg class="mesh" role="img" aria-label={quoteattr(title)} width="{total:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {total:.0f} {height:.0f}">{"".join(cells)}</svg>'
    )


def tile_groups(
    axes: Sequence[tuple[str, int]], split: Sequence[Sequence[str]] | None
) -> tuple[int, ...]:
    """Return for each device, row by row, the number of the tile it holds; () if unknown.

    Args:
        axes: of the mesh, with their sizes.
        split: for each dimension of the array the axes that split it, major first.
    """
    if split is None or prod(size for _, size in axes) > _MOST_DEVICES:
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
