"""Halo exchange: fetches the part of a sharded array that a device needs beyond its own tile.

In a dimension with tiles of t elements, the device of tile c needs the elements
`[starts[c], starts[c] + size)`. Elements of other tiles arrive by one collective-permute for each
distance between tiles, which sends only the elements that some device needs. After the GSPMD
paper (Xu et al., 2021), section 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from hloc.dtypes import S32
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.spmd.region import Region
from hloc.opt.spmd.tiling import Axes, Mesh
from hloc.shapes import ArrayShape


@dataclass(frozen=True, slots=True)
class Span:
    """The range that each device needs of one dimension.

    Attributes:
        dim: the dimension.
        axes: the axes of the result's tiles.
        starts: first element, by tile of the result; may be outside of the array.
        size: number of elements.
        used: number of them that matter, by tile; the rest may be anything.
    """

    dim: int
    axes: Axes
    starts: tuple[int, ...]
    size: int
    used: tuple[int, ...]


def span_of(
    dim: int,
    axes: Axes,
    mesh: Mesh,
    results: int,
    *,
    first: int = 0,
    stride: int = 1,
    extent: int = 1,
) -> Span:
    """Return the span of a dimension of `results` elements, sharded along `axes`.

    Element i of the result reads the elements `first + i * stride ...` of the operand, `extent` of
    them.
    """
    count = mesh.size(axes)
    size = -(-results // count)
    valid = [min(max(results - tile * size, 0), size) for tile in range(count)]
    return Span(
        dim,
        axes,
        tuple(first + tile * size * stride for tile in range(count)),
        (size - 1) * stride + extent if size else 0,
        tuple((v - 1) * stride + extent if v else 0 for v in valid),
    )


@dataclass(slots=True)
class _Piece:
    """The data sent over one distance: elements `[low, high)` of the tile, to tiles `targets`."""

    low: int
    high: int
    targets: list[int] = field(default_factory=list)


def _pieces(span: Span, whole: int, tile: int) -> dict[int, _Piece]:
    """Return the pieces by distance: number of the sending tile minus that of the target."""
    found: dict[int, _Piece] = {}
    for target, (start, used) in enumerate(zip(span.starts, span.used, strict=True)):
        low, high = max(start, 0), min(start + used, whole)
        if low >= high:
            continue
        for source in range(low // tile, (high - 1) // tile + 1):
            first, last = max(low - source * tile, 0), min(high - source * tile, tile)
            piece = found.setdefault(source - target, _Piece(first, last))
            piece.low, piece.high = min(piece.low, first), max(piece.high, last)
            piece.targets.append(target)
    return found


def halo_bytes(x: ArrayShape, span: Span, axes: Axes, whole: int) -> float:
    """Return the bytes that a device sends for `span` of local parts `x`, the mean over devices.

    Args:
        x: shape of the local part, sharded along `axes` in the dimension of the span.
        span: what is needed.
        axes: of the operand's tiles; () if every device holds the whole dimension.
        whole: size of the dimension.
    """
    if not axes or not whole:
        return 0.0
    row = x.size_bytes / max(1, x.dims[span.dim])
    pieces = _pieces(span, whole, x.dims[span.dim])
    return sum(
        row * (piece.high - piece.low) * len(piece.targets) / len(span.starts)
        for distance, piece in pieces.items()
        if distance
    )


def exchanged(
    region: Region, x: Instruction, span: Span, axes: Axes, whole: int, fill: Instruction | None
) -> Instruction:
    """Return the elements of `span`.

    Args:
        region: where instructions are added.
        x: the local part of an array.
        span: what is needed.
        axes: of the operand's tiles: those of the span, or () if `x` holds the whole dimension.
        whole: size of the dimension.
        fill: scalar value outside of the array; None if nothing there is used.
    """
    if not axes:
        return _cut_out(region, x, span, whole, fill)
    tile, dim, b = x.array.dims[span.dim], span.dim, region.build
    pieces = _pieces(span, whole, tile)
    offsets = _offsets(span, tile)
    low, high = min(offsets), max(offsets) + span.size
    parts, missing = list[Instruction](), 0
    for distance in range(low // tile, -(-high // tile)):
        first, last = max(low - distance * tile, 0), min(high - distance * tile, tile)
        piece = pieces.get(distance)
        if piece is None:
            missing += last - first
            continue
        parts += _zeros(region, x, dim, missing + piece.low - first)
        part = sliced(region, x, dim, piece.low, piece.high)
        if distance:
            part = region.permute(part, _pairs(region, span, distance, piece))
        parts.append(part)
        missing = last - piece.high
    parts += _zeros(region, x, dim, missing)
    x = parts[0] if len(parts) == 1 else b.concatenate(parts, dim)
    if x.array.dims[dim] != span.size:
        x = _dynamic(region, x, span, [offset - low for offset in offsets])
    return _filled(region, x, span, whole, tile, fill)


def sliced(region: Region, x: Instruction, dim: int, first: int, last: int) -> Instruction:
    """Return the elements `[first, last)` of dimension `dim`."""
    dims = x.array.dims
    if (first, last) == (0, dims[dim]):
        return x
    starts = [first if d == dim else 0 for d in range(len(dims))]
    return region.build.slice(x, starts, [last if d == dim else n for d, n in enumerate(dims)])


def _offsets(span: Span, tile: int) -> list[int]:
    """Return the start of the span, relative to the device's own tile."""
    offsets = [start - number * tile for number, start in enumerate(span.starts)]
    needed = [offset for offset, used in zip(offsets, span.used, strict=True) if used]
    default = needed[-1] if needed else 0
    return [o if used else default for o, used in zip(offsets, span.used, strict=True)]


def _zeros(region: Region, x: Instruction, dim: int, size: int) -> list[Instruction]:
    """Return `size` zeros along `dim`, none for 0."""
    dims = tuple(size if d == dim else n for d, n in enumerate(x.array.dims))
    return [region.build.splat(0, ArrayShape(x.array.dtype, dims))] if size else []


def _pairs(region: Region, span: Span, distance: int, piece: _Piece) -> list[tuple[int, int]]:
    """Return (source, target) partitions of one permute."""
    groups = region.mesh.groups(span.axes).lists()
    return sorted((group[t + distance], group[t]) for group in groups for t in piece.targets)


def _cut_out(
    region: Region, x: Instruction, span: Span, whole: int, fill: Instruction | None
) -> Instruction:
    """Return the elements of `span` of a replicated dimension."""
    b, rank = region.build, x.array.rank
    low = max(0, -min(span.starts))
    high = max(0, max(span.starts) + span.size - whole)
    if low or high:
        edges = [[n if d == span.dim else 0 for d in range(rank)] for n in (low, high)]
        x = b.pad(x, fill or b.constant(0, x.array.dtype), *edges)
    starts = [start + low for start in span.starts]
    if len(set(starts)) == 1:
        return sliced(region, x, span.dim, starts[0], starts[0] + span.size)
    return _dynamic(region, x, span, starts)


def _dynamic(region: Region, x: Instruction, span: Span, starts: Sequence[int]) -> Instruction:
    """Return the elements from `starts` on, which differ from tile to tile."""
    sizes = list(x.array.dims)
    sizes[span.dim] = span.size
    indices = [region.zero()] * x.array.rank
    indices[span.dim] = by_tile(region, span.axes, starts)
    return region.build.dynamic_slice(x, indices, sizes)


def by_tile(region: Region, axes: Axes, numbers: Sequence[int]) -> Instruction:
    """Return `s32[]`, the entry of `numbers` for this device's tile along `axes`."""
    return region.table([numbers[tile] for tile in region.mesh.coordinates(axes).tolist()])


def _filled(
    region: Region, x: Instruction, span: Span, whole: int, tile: int, fill: Instruction | None
) -> Instruction:
    """Write `fill` where `x` is outside of the array."""
    pairs = list(zip(span.starts, span.used, strict=True))
    before = any(used and start < 0 for start, used in pairs)
    behind = any(used and start + used > whole for start, used in pairs)
    if fill is None or not (before or behind):
        return x
    if _is_zero(fill) and whole == tile * len(span.starts):
        return x  # a device that receives nothing has zeros
    b, dims = region.build, x.array.dims
    places = b.iota(S32, dims, span.dim)
    inside = None
    for needed, direction, bounds in (
        (before, "GE", [-start for start in span.starts]),
        (behind, "LT", [whole - start for start in span.starts]),
    ):
        if needed:
            bound = b.broadcast(by_tile(region, span.axes, bounds), dims)
            found = b.compare(places, bound, direction)
            inside = found if inside is None else b.logical_and(inside, found)
    assert inside is not None
    return b.select(inside, x, b.broadcast(fill, dims))


def _is_zero(fill: Instruction) -> bool:
    if not fill.is_a("constant"):
        return False
    value = fill.attributes.literal.value
    return value is not None and not value.tobytes().strip(b"\0")
