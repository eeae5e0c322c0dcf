"""Shardings and lists of devices, kept in the form they were written and normalised as XLA does.

Sources: format reference, 10.4 and 10.5; XLA's `hlo_sharding.cc` and `tile_assignment.cc` for the
rules of normal form.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import TypeAlias

import numpy as np

from hloc.ir.attribute_fields import metadata_text
from hloc.ir.attributes import Metadata
from hloc.lazy_dataclass import dataclass

MANUAL, REPLICATED, UNREDUCED = "manual", "replicated", "unreduced"
_SUBGROUP_ORDER = {MANUAL: 0, UNREDUCED: 1, REPLICATED: 2}


@dataclass(frozen=True, slots=True)
class Iota:
    """`<=[2,2]T(1,0)`: the devices 0, 1, ... reshaped and transposed; made by `iota`."""

    reshape: tuple[int, ...]
    transpose: tuple[int, ...]

    def __str__(self) -> str:
        text = f"<=[{commas(self.reshape)}]"
        return text if len(self.reshape) == 1 else f"{text}T({commas(self.transpose)})"

    @property
    def count(self) -> int:
        return prod(self.reshape)


def iota(reshape: tuple[int, ...], transpose: tuple[int, ...]) -> Iota:
    """Return the normal form: no dimension of size 1, none that could be merged with the next.

    `[2,1,2]T(2,1,0)` -> `[2,2]T(1,0)`; `[2,2]T(0,1)` -> `[4]T(0)`.
    """
    order = [dim for dim in transpose if reshape[dim] != 1]
    runs: list[list[int]] = []
    kept = [dim for dim, size in enumerate(reshape) if size != 1]
    next_of = dict(pairwise(kept))
    for dim in order:
        if runs and next_of.get(runs[-1][-1]) == dim:
            runs[-1].append(dim)
        else:
            runs.append([dim])
    if not runs:
        return Iota((1,), (0,))
    by_place = sorted(runs)
    return Iota(
        tuple(prod(reshape[dim] for dim in run) for run in by_place),
        tuple(by_place.index(run) for run in runs),
    )


@dataclass(frozen=True, slots=True)
class Tiles:
    """The device array of a tiled sharding: its dimensions, and an iota or the devices in order."""

    dims: tuple[int, ...]
    devices: Iota | tuple[int, ...]

    def __str__(self) -> str:
        text = f"devices=[{commas(self.dims)}]"
        return text + (
            str(self.devices) if isinstance(self.devices, Iota) else commas(self.devices)
        )

    def rearranged(self, order: tuple[int, ...], dims: tuple[int, ...], replicas: int) -> Tiles:
        """Return the array with its dimensions in `order`, then reshaped to `dims`.

        The last `replicas` of `order` hold the same data, so their devices are sorted.
        """
        if not replicas and order == tuple(range(len(order))):
            return Tiles(dims, self.devices)
        if isinstance(self.devices, Iota):
            moved = _transposed(self.dims, self.devices, order, replicas)
            if moved is not None:
                return Tiles(dims, moved)
            flat = np.arange(self.devices.count).reshape(self.devices.reshape)
            array = flat.transpose(self.devices.transpose).reshape(self.dims)
        else:
            array = np.array(self.devices).reshape(self.dims)
        array = array.transpose(order).reshape(dims)
        if replicas:
            array = np.sort(array, axis=-1)
        return Tiles(dims, tuple(array.reshape(-1).tolist()))


def _transposed(
    dims: tuple[int, ...], devices: Iota, order: tuple[int, ...], replicas: int
) -> Iota | None:
    """Return `devices` with the tile dimensions `dims` put in `order`, None if that is no iota.

    Both the tile dimensions and the transposed iota dimensions are split until they agree.
    """
    sizes = [devices.reshape[dim] for dim in devices.transpose]
    pieces: list[tuple[int, int, int]] = []  # tile dimension, iota dimension, size
    i, left = 0, sizes[0] if sizes else 1
    for tile, size in enumerate(dims):
        while size > 1:
            while left == 1:
                i += 1
                left = sizes[i]
            step = min(size, left)
            if size % step or left % step:
                return None
            pieces.append((tile, devices.transpose[i], step))
            size //= step
            left //= step
    reshaped = sorted(range(len(pieces)), key=lambda p: (pieces[p][1], p))
    place = {piece: new for new, piece in enumerate(reshaped)}
    first = len(order) - replicas
    moved = [p for tile in order[:first] for p in range(len(pieces)) if pieces[p][0] == tile]
    moved += [p for p in reshaped if pieces[p][0] in order[first:]]
    return iota(tuple(pieces[p][2] for p in reshaped), tuple(place[p] for p in moved))


@dataclass(frozen=True, slots=True)
class LeafSharding:
    """How one array is sharded over devices.

    Attributes:
        kind: `replicated`, `manual`, `unknown`, `unreduced`, `maximal` (then `device`), `tiled`
            (then `tiles`) or `named` (then `name`, the text between the braces).
        subgroups: the kinds of the trailing dimensions of `tiles`: `manual`, `replicated` ...
        group: `shard_as N`, `shard_like N` or "".
        reduction: that of kind `unreduced`: `max`, `min`, or "" for sums.
    """

    kind: str
    tiles: Tiles | None = None
    subgroups: tuple[str, ...] = ()
    device: int = -1
    name: str = ""
    group: str = ""
    metadata: tuple[Metadata, ...] = ()
    reduction: str = ""

    def __str__(self) -> str:
        return self.text(metadata=True)

    def text(self, metadata: bool) -> str:
        """Return the text, with or without the metadata."""
        parts = [self._head()]
        if self.subgroups == (REPLICATED,):
            parts.append("last_tile_dim_replicate")
        elif self.subgroups:
            parts.append(f"last_tile_dims={{{', '.join(self.subgroups)}}}")
        if self.group:
            parts.append(self.group)
        text = " ".join(parts)
        if metadata and self.metadata:
            inner = [f"{{{metadata_text(m, m.stack_frame_id)}}}" for m in self.metadata]
            if self.kind == "named":
                text += f", metadata={{{', '.join(inner)}}}"
            else:
                text += (
                    f" metadata={inner[0]}"
                    if len(inner) == 1
                    else f" metadata={{{', '.join(inner)}}}"
                )
        return "{" + text + "}"

    def _head(self) -> str:
        if self.kind == "tiled":
            return str(self.tiles)
        if self.kind == "maximal":
            return f"maximal device={self.device}"
        if self.kind == "named":
            return self.name
        return f"{self.kind}={self.reduction}" if self.reduction else self.kind

    def for_leaves(self, count: int) -> TupleSharding:
        """Return this sharding for each of `count` leaves."""
        return TupleSharding((self,) * count)


@dataclass(frozen=True, slots=True)
class TupleSharding:
    """One sharding per leaf of a tuple shape."""

    elements: tuple[LeafSharding, ...]

    def __str__(self) -> str:
        return self.text(metadata=True)

    def text(self, metadata: bool) -> str:
        """Return the text, with or without the metadata."""
        texts = [element.text(metadata) for element in self.elements]
        marked = [f"/*index={i}*/{t}" if i and i % 5 == 0 else t for i, t in enumerate(texts)]
        return "{" + ", ".join(marked) + "}"

    def for_leaves(self, _count: int) -> TupleSharding:
        """Return this sharding, which already has one per leaf."""
        return self


Sharding: TypeAlias = LeafSharding | TupleSharding


def normalized(sharding: LeafSharding) -> LeafSharding:
    """Return a tiled sharding in normal form: subgroups sorted, merged, none of size 1."""
    tiles = sharding.tiles
    if tiles is None:
        return sharding
    data = len(tiles.dims) - len(sharding.subgroups)
    if len(set(sharding.subgroups)) == 1 and prod(tiles.dims[:data]) == 1:
        return replace(sharding, kind=sharding.subgroups[0], tiles=None, subgroups=())
    kinds = sorted(set(sharding.subgroups), key=lambda kind: _SUBGROUP_ORDER.get(kind, 9))
    order, dims, kept = list(range(data)), list(tiles.dims[:data]), []
    trivial: list[int] = []
    replicas = 0
    for kind in kinds:
        places = [data + i for i, k in enumerate(sharding.subgroups) if k == kind]
        trivial += [place for place in places if tiles.dims[place] == 1]
        places = [place for place in places if tiles.dims[place] != 1]
        if places:
            order += places
            replicas = len(places) if kind == REPLICATED else 0
            dims.append(prod(tiles.dims[place] for place in places))
            kept.append(kind)
    order[data:data] = trivial
    return replace(
        sharding,
        tiles=tiles.rearranged(tuple(order), tuple(dims), replicas),
        subgroups=tuple(kept),
    )


def commas(values: Iterable[int]) -> str:
    """Return numbers with commas between them, as groups and tiles are written."""
    return ",".join(map(str, values))
