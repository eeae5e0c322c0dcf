"""The explanation of a sharded module as one HTML page without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from hloc.analysis.network.sharding_explanation import ArrayRow, CollectiveRow, ShardingExplanation
from hloc.pictures.labels import shown
from hloc.pictures.mesh_picture import MOST_DEVICES, legend_svg, mesh_svg, tile_groups
from hloc.pictures.plain_page import plain_page
from hloc.quantities import duration, size_text

_MOST_ROWS = 500
_BAR = 240.0
_LETTERS = 200

_STYLE = """
:root { --wait: #d1242f; --hide: #2f9e44; }
.collectives { min-width: 44rem; width: 100%; }
.bar { max-width: 100%; }
svg.mesh text { fill: #1b1f24; font: 11px system-ui, sans-serif; }
svg.mesh text.label { fill: currentColor; }
.mesh-and-links { align-items: flex-start; display: flex; flex-wrap: wrap; gap: 1rem 4rem; }
.wait { fill: var(--wait); } .hide { fill: var(--hide); }
.tiles { display: flex; flex-wrap: wrap; gap: 2rem; }
.tiles b { display: block; font-size: 1.4rem; }
@media (max-width: 66rem) { .bar { width: 7rem; } }
@media (prefers-color-scheme: dark) { :root { --wait: #ff7b72; --hide: #56d364; } }
"""


def sharding_page(found: ShardingExplanation, name: str) -> str:
    """Return the page of file `name`."""
    title = f"{name}: {found.devices} devices, mesh {found.mesh_text}"
    body = [
        *_totals(found),
        *_mesh(found),
        *_collectives(found),
        *_arrays(found),
        *_advice(found),
    ]
    return plain_page(title, _STYLE, body)


def _totals(found: ShardingExplanation) -> Iterator[str]:
    tiles = [
        (size_text(found.total_bytes), "sent per device and run"),
        (duration(found.seconds), "per run"),
        (duration(found.exposed_seconds), "of it waiting for collectives"),
    ]
    if found.memory is not None:
        tiles.append((size_text(found.memory.total_bytes), "memory per device"))
    yield '<div class="tiles">'
    yield from (f"<div><b>{escape(b)}</b>{escape(words)}</div>" for b, words in tiles)
    yield "</div>"
    yield f'<p class="quiet">Modelled: computing on {escape(found.device)}.</p>'


def _mesh(found: ShardingExplanation) -> Iterator[str]:
    yield "<h2>Mesh</h2>"
    rows = (
        f"<tr><td>{escape(axis)}</td><td class='number'>{size}</td><td>{escape(link)}</td></tr>"
        for (axis, size), link in zip(found.mesh, found.links, strict=True)
    )
    yield '<div class="mesh-and-links">'
    yield "<table><tr><th>axis</th><th class='number'>devices</th><th>link</th></tr>"
    yield from rows
    yield "</table>"
    legend = legend_svg(found.mesh)
    if legend:
        words = "Each picture below shows the devices in these places."
        yield f'<div>{legend}<div class="quiet">{words}</div></div>'
    yield "</div>"
    if not legend:
        yield f'<p class="quiet">Meshes of more than {MOST_DEVICES} devices are not drawn.</p>'


def _collectives(found: ShardingExplanation) -> Iterator[str]:
    """Yield the table of collectives, those that move the most bytes first."""
    yield "<h2>Collectives</h2>"
    if not found.collectives:
        yield "<p>None: every device works alone.</p>"
        return
    yield (
        f'<p class="quiet">{_drawn(found, "exchange data with each other", "group")}Bars: time on '
        f"the network; {_box('wait')} is waited for, {_box('hide')} is hidden behind independent "
        "work.</p><div class='wide' tabindex='0'><table class='collectives'>"
        "<tr><th>groups</th><th>why</th><th>where</th>"
        "<th class='number'>runs</th><th class='number'>sent</th><th>time</th></tr>"
    )
    longest = max(row.seconds for row in found.collectives) or 1.0
    rows = sorted(found.collectives, key=lambda row: (-row.size_bytes, row.text_line))
    yield from (_collective(row, found, longest) for row in rows[:_MOST_ROWS])
    yield "</table></div>"
    if len(rows) > _MOST_ROWS:
        yield f"<p>{len(rows) - _MOST_ROWS:,} more are not shown.</p>"


def _drawn(found: ShardingExplanation, doing: str, what: str) -> str:
    """Return the meaning of colours and numbers, "" if nothing is drawn."""
    if found.devices > MOST_DEVICES:
        return ""
    return f"Devices of one colour {doing}; the number is that of the {what}. "


def _path(text: str) -> str:
    """Return a path that may be broken after its slashes."""
    return escape(text).replace("/", "/<wbr>")


def _box(kind: str) -> str:
    return f'<svg width="10" height="10"><rect class="{kind}" width="10" height="10"/></svg>'


def _collective(row: CollectiveRow, found: ShardingExplanation, longest: float) -> str:
    """Return the table row of one collective, with its groups drawn on the mesh."""
    picture = mesh_svg(found.mesh, row.group_of, f"groups of {row.name}")
    along = ", ".join(row.axes) or "no axis"
    where = [f"line {row.text_line}" if row.text_line else "", row.source, row.op_name]
    runs = f"{row.times:,}" + ("" if row.exact else " or more")
    places = "<br>".join(_path(shown(text, _LETTERS)) for text in where if text)
    what = "pair" if row.opcode.startswith("collective-permute") else "group"
    groups = f"{row.groups:,} {what}{'s' if row.groups != 1 else ''}"
    groups += f" of {row.members:,}" if what == "group" else ""
    return (
        f"<tr><td>{picture}<div class='quiet'>{groups} along {escape(along)}</div></td>"
        f"<td><b>{escape(row.opcode)}</b> <code>{escape(shown(row.name, _LETTERS))}</code><br>"
        f"{escape(shown(row.reason, _LETTERS))}<br><code>{escape(shown(row.operands, _LETTERS))}: "
        f"{escape(row.before)} → {escape(row.after)}</code></td>"
        f"<td>{places}</td><td class='number'>{runs}</td>"
        f"<td class='number'>{escape(size_text(row.size_bytes))}</td><td>{_bar(row, longest)}"
        f"{escape(duration(row.seconds))}, {escape(row.verdict)}</td></tr>"
    )


def _bar(row: CollectiveRow, longest: float) -> str:
    """Return a bar of the time: the exposed part, then the hidden part."""
    width = max(2.0, _BAR * row.seconds / longest)
    waits = min(width, width * row.exposed_seconds / row.seconds if row.seconds else 0.0)
    return (
        f'<svg class="bar" viewBox="0 0 {_BAR:.0f} 10" width="{_BAR:.0f}" height="10" '
        f'preserveAspectRatio="none" role="img" aria-label="{escape(row.verdict)}">'
        f'<rect class="wait" width="{waits:.1f}" height="10"/>'
        f'<rect class="hide" x="{waits:.1f}" width="{width - waits:.1f}" height="10"/></svg><br>'
    )


def _arrays(found: ShardingExplanation) -> Iterator[str]:
    yield "<h2>Arguments and results</h2>"
    yield (
        f'<p class="quiet">{_drawn(found, "hold the same part of the array", "part")}</p>'
        "<div class='wide' tabindex='0'><table><tr><th>parts</th><th>name</th>"
        "<th>on one device</th><th>sharding</th><th class='number'>bytes</th></tr>"
    )
    rows = (*found.arguments, *found.results)
    yield from (_array(row, found) for row in rows[:_MOST_ROWS])
    yield "</table></div>"


def _array(row: ArrayRow, found: ShardingExplanation) -> str:
    picture = mesh_svg(found.mesh, tile_groups(found.mesh, row.split), f"parts of {row.name}")
    return (
        f"<tr><td>{picture}</td><td><code>{escape(shown(row.name, _LETTERS))}</code></td>"
        f"<td><code>{escape(row.shape)}</code></td><td>{escape(row.sharding)}</td>"
        f"<td class='number'>{escape(size_text(row.size_bytes))}</td></tr>"
    )


def _advice(found: ShardingExplanation) -> Iterator[str]:
    if not found.tried:
        return
    yield "<h2>Annotations that were tried</h2>"
    if not found.advice:
        yield f"<p>None of {found.tried:,} removes bytes.</p>"
        return
    yield "<div class='wide' tabindex='0'><table><tr><th>value</th><th>sharding</th>"
    yield "<th class='number'>bytes sent</th><th class='number'>saved</th></tr>"
    for advice in found.advice:
        yield (
            f"<tr><td><code>{escape(advice.value)} {escape(advice.shape)}</code> "
            f"{escape(shown(advice.source, _LETTERS))}</td><td>{escape(advice.sharding)}</td>"
            f"<td class='number'>{escape(size_text(advice.size_bytes))}</td>"
            f"<td class='number'>{escape(size_text(advice.saved_bytes))}</td></tr>"
        )
    yield "</table></div>"
