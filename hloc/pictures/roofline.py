"""A roofline: the operations per second of each kernel, against the peaks of the machine.

Kernels on the left are memory-bound, those on the right compute-bound (Williams, Waterman and
Patterson, 2009). A self-contained SVG without scripts, in the style of the other charts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import atan, ceil, degrees, floor, log10
from xml.sax.saxutils import escape

from hloc.lazy_dataclass import dataclass
from hloc.pictures.colours import kind_of
from hloc.pictures.labels import shown
from hloc.pictures.style import chart, kind_style, label, legend, line

_WIDTH, _HEIGHT = 1000.0, 600.0
_LEFT, _TOP, _RIGHT, _BOTTOM = 96.0, 66.0, 24.0, 78.0
_MOST_LABELS, _MOST_TRIED = 8, 200
_LARGEST = 13.0


@dataclass(frozen=True, slots=True)
class Kernel:
    """One dot: the work and the time of a kernel, `measured` or modelled."""

    name: str
    opcode: str
    flops: int
    bytes: int
    seconds: float
    measured: bool

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.flops / self.bytes

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.flops / self.seconds


@dataclass(frozen=True, slots=True)
class Roofs:
    """Operations per second, and (name, bytes per second) of memories, fastest first."""

    flops: float
    memories: Sequence[tuple[str, float]]

    def seconds(self, flops: int, size_bytes: int) -> float:
        """Return the roofline time of these operations and of bytes from the slowest memory."""
        return max(flops / self.flops, size_bytes / self.memories[-1][1])

    def reached(self, flops: int, size_bytes: int, seconds: float) -> tuple[float, str]:
        """Return the share of the roof that a measured time reaches, and the kind of that roof.

        It is `compute` or a memory: the slowest that could have moved the bytes in that time. For
        arrays that stay in a cache between runs, that is the cache.
        """
        able = (row for row in reversed(self.memories) if size_bytes / row[1] <= seconds)
        name, rate = next(able, self.memories[0])
        compute, move = flops / self.flops, size_bytes / rate
        return max(compute, move) / seconds, "compute" if compute > move else name

    def bound(self, flops: int, size_bytes: int) -> str:
        """Return `compute` or the slowest memory, whichever determines the roofline time."""
        name, rate = self.memories[-1]
        return "compute" if flops / self.flops > size_bytes / rate else name


def roofline(title: str, roofs: Roofs, kernels: Sequence[Kernel]) -> str:
    """Return the chart; kernels without operations or bytes are not in it."""
    drawn = [k for k in kernels if k.flops and k.bytes and k.seconds > 0]
    drawn.sort(key=lambda k: (-k.seconds, k.name))
    scale = _Scale(roofs, drawn)
    if drawn and not any(k.measured for k in drawn):
        title += ", modelled times"
    marks = (
        *_grid(scale),
        *_roofs(roofs, scale),
        *_dots(drawn, scale),
        *_roof_names(roofs, scale),
        *_labels(drawn, scale),
        *legend((kind_of(k.opcode) for k in drawn), _LEFT, _HEIGHT - 14),
    )
    size = _WIDTH, _HEIGHT
    return chart(shown(title), _note(kernels, drawn), size, _LEFT, _STYLE, marks)


_STYLE = """  .roof { stroke: currentColor; stroke-width: 1.6; fill: none; }
  .cache { stroke-opacity: 0.4; stroke-dasharray: 5 4; }
  circle { stroke-width: 1.4; }
  .model { fill-opacity: 0.25; stroke-dasharray: 3 2; }
  .halo { paint-order: stroke; stroke: #ffffff; stroke-width: 3; }
  @media (prefers-color-scheme: dark) { .halo { stroke: #0d1117; } }
""" + kind_style(":is(circle, rect)")


class _Scale:
    """Maps operations per byte and per second to coordinates of the drawing; both logarithmic."""

    def __init__(self, roofs: Roofs, kernels: Sequence[Kernel]) -> None:
        ridge = roofs.flops / roofs.memories[-1][1]
        across = [ridge * 8, ridge / 100, *(k.intensity for k in kernels)]
        up = [roofs.flops * 1.6, roofs.flops / 500, *(k.rate for k in kernels)]
        self.left, self.right = floor(log10(min(across))), ceil(log10(max(across)))
        self.bottom, self.top = floor(log10(min(up))), ceil(log10(max(up)))

    def x(self, intensity: float) -> float:
        share = (log10(intensity) - self.left) / (self.right - self.left)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, rate: float) -> float:
        share = (log10(rate) - self.bottom) / (self.top - self.bottom)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _grid(scale: _Scale) -> Iterator[str]:
    top, bottom, left, right = _TOP, _HEIGHT - _BOTTOM, _LEFT, _WIDTH - _RIGHT
    for power in range(scale.left, scale.right + 1):
        x = scale.x(10.0**power)
        yield line("grid", x, top, x, bottom)
        yield label(x, bottom + 18, f"{10.0**power:g}", "middle")
    for power in range(scale.bottom, scale.top + 1):
        y = scale.y(10.0**power)
        yield line("grid", left, y, right, y)
        yield label(left - 8, y + 4, _rate(10.0**power), "end")
    yield line("axis", left, bottom, right, bottom)
    yield label((left + right) / 2, bottom + 40, "operations per byte", "middle")
    yield label(left - 8, top - 14, "operations/s", "end", "soft")


def _roofs(roofs: Roofs, scale: _Scale) -> Iterator[str]:
    """Yield one slope per memory up to the flat roof; the model uses the slowest."""
    lowest, widest = 10.0**scale.left, 10.0**scale.right
    peak = scale.y(roofs.flops)
    for i, (_, rate) in enumerate(roofs.memories):
        is_last = i == len(roofs.memories) - 1
        ridge = roofs.flops / rate
        start = max(lowest, 10.0**scale.bottom / rate)
        classes = "roof" if is_last else "roof cache"
        x, y = scale.x(start), scale.y(start * rate)
        yield (
            f'<path class="{classes}" d="M{x:.1f} {y:.1f}L{scale.x(ridge):.1f} {peak:.1f}'
            f'H{scale.x(widest):.1f}"/>'
        )


def _roof_names(roofs: Roofs, scale: _Scale) -> Iterator[str]:
    """Yield the name of each roof along it, in front of the dots."""
    lowest, widest = 10.0**scale.left, 10.0**scale.right
    peak = scale.y(roofs.flops)
    for i, (name, rate) in enumerate(roofs.memories):
        ridge = roofs.flops / rate
        start = max(lowest, 10.0**scale.bottom / rate)
        share = 0.3 + 0.2 * i  # adjacent names are at different heights
        at = start ** (1 - share) * ridge**share
        slope = (scale.y(start * rate) - peak) / max(scale.x(ridge) - scale.x(start), 1.0)
        turn = -degrees(atan(slope))
        yield (
            f'<text class="soft halo" transform="translate({scale.x(at):.1f} '
            f'{scale.y(at * rate) - 7:.1f}) rotate({turn:.1f})" text-anchor="middle">'
            f"{escape(name)} {rate / 1e9:.0f} GB/s</text>"
        )
    words = f"multiply-add {roofs.flops / 1e9:.0f} GFLOP/s"
    yield label(scale.x(widest) - 4, peak - 7, words, "end")


def _dots(kernels: Sequence[Kernel], scale: _Scale) -> Iterator[str]:
    """Yield a circle per kernel, large ones first; its area is its share of the time.

    Equal kernels, such as those of equal layers, are one circle: overlapping pale ones would look
    dark.
    """
    most = max((k.seconds for k in kernels), default=1.0)
    dots: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        radius = max(3.0, _LARGEST * (kernel.seconds / most) ** 0.5)
        classes = kind_of(kernel.opcode) + ("" if kernel.measured else " model")
        place = (
            f'<circle class="{classes}" cx="{scale.x(kernel.intensity):.1f}" '
            f'cy="{scale.y(kernel.rate):.1f}" r="{radius:.1f}">'
        )
        dots.setdefault(place, []).append(kernel)
    for place, (kernel, *alike) in dots.items():
        how = "measured" if kernel.measured else "modelled"
        title = (
            f"{kernel.name} {kernel.opcode}\n{kernel.flops:,} operations, {kernel.bytes:,} bytes\n"
            f"{_rate(kernel.rate)} operations/s, {kernel.seconds * 1e6:.1f} us {how}"
        )
        if alike:
            title += f"\nand {len(alike):,} more like it"
        yield f"{place}<title>{escape(_lines(title))}</title></circle>"


def _labels(kernels: Sequence[Kernel], scale: _Scale) -> Iterator[str]:
    """Yield the names of the kernels that take longest, if there is room for them."""
    taken = []
    for kernel in kernels:
        x, y = scale.x(kernel.intensity), scale.y(kernel.rate)
        taken.append((x - _LARGEST, y - _LARGEST, x + _LARGEST, y + _LARGEST))
    written = 0
    for kernel in kernels[:_MOST_TRIED]:  # each is compared with all dots
        name = shown(kernel.name, 28)
        x, y = scale.x(kernel.intensity) + _LARGEST + 5, scale.y(kernel.rate) + 4
        wide = len(name) * 6.6
        if x + wide > _WIDTH - _RIGHT:
            x -= wide + 2 * _LARGEST + 10
        area = (x, y - 11, x + wide, y + 3)
        if any(_overlap(area, other) for other in taken):
            continue
        taken.append(area)
        yield label(x, y, name)
        written += 1
        if written == _MOST_LABELS:
            return


_Area = tuple[float, float, float, float]


def _overlap(a: _Area, b: _Area) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _note(kernels: Sequence[Kernel], drawn: Sequence[Kernel]) -> str:
    """Return the description of the dots, or why there are none."""
    left_out = len(kernels) - len(drawn)
    if not drawn:
        return "no kernel does arithmetic" if kernels else "the module has no kernels"
    modelled = sum(not k.measured for k in drawn)
    parts = [f"{len(drawn):,} kernel{'s' * (len(drawn) > 1)}, area by time"]
    if modelled == len(drawn):
        parts.append("modelled times: the least that the roof allows")
    elif modelled:
        parts.append(f"{modelled:,} pale with modelled times")
    if left_out:
        parts.append(f"{left_out:,} without arithmetic not drawn")
    return "; ".join(parts)


def _rate(value: float) -> str:
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size * 0.9995:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def _lines(text: str) -> str:
    return "\n".join(map(shown, text.split("\n")))
