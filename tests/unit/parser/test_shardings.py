"""Shardings in normal form; every normal form means the same devices as what was written."""

from itertools import permutations

import numpy as np
import pytest

from hloc.errors import HloError
from hloc.ir.sharding import Iota, LeafSharding, Tiles, iota
from hloc.parser.values import ValueReader
from hloc.source import SourceFile


def read(text: str) -> LeafSharding:
    """Return the sharding that `text` spells."""
    return ValueReader(SourceFile(text)).read("sharding", text, 0)  # type: ignore[no-any-return]


def devices(value: Iota) -> list[int]:
    """Return the devices in order."""
    flat = np.arange(value.count).reshape(value.reshape).transpose(value.transpose)
    found: list[int] = flat.reshape(-1).tolist()
    return found


@pytest.mark.parametrize("reshape", [(2, 3, 4), (2, 1, 2), (1, 1), (4,), (2, 2, 2, 2)])
def test_the_normal_form_of_an_iota_lists_the_same_devices(reshape: tuple[int, ...]) -> None:
    for transpose in permutations(range(len(reshape))):
        assert devices(iota(reshape, transpose)) == devices(Iota(reshape, transpose))


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_moving_tile_dimensions_moves_the_devices(order: tuple[int, ...]) -> None:
    dims = (2, 4, 2)
    moved = tuple(dims[dim] for dim in order)
    for reshape, transpose in [((16,), (0,)), ((4, 4), (1, 0)), ((2, 4, 2), (2, 0, 1))]:
        tiles = Tiles(dims, iota(reshape, transpose))
        plain = Tiles(dims, tuple(devices(iota(reshape, transpose))))
        for replicas in (0, 1):
            found = tiles.rearranged(order, moved, replicas).devices
            expected = plain.rearranged(order, moved, replicas).devices
            assert tuple(devices(found) if isinstance(found, Iota) else found) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{devices=[2,2]<=[2,1,2]T(2,1,0)}", "{devices=[2,2]<=[2,2]T(1,0)}"),
        ("{devices=[1,4]<=[4] last_tile_dim_replicate}", "{replicated}"),
        ("{devices=[1,1,2]<=[2] last_tile_dims={manual}}", "{manual}"),
        (
            "{devices=[2,2]<=[4] last_tile_dims={replicated, manual}}",
            "{devices=[2,2]<=[2,2]T(1,0) last_tile_dims={manual, replicated}}",
        ),
        (
            "{devices=[2,2,2]<=[8] last_tile_dims={manual, manual}}",
            "{devices=[2,4]<=[8] last_tile_dims={manual}}",
        ),
        (
            "{devices=[2,1,2]3,1,2,0 last_tile_dim_replicate}",
            "{devices=[2,1,2]1,3,0,2 last_tile_dim_replicate}",
        ),
        ("{ mesh['a'=2,\"b\"=4], [{'a','b':(1)2},{ ? }] }", None),
    ],
)
def test_normal_form(text: str, expected: str | None) -> None:
    assert str(read(text)) == (expected or "{mesh['a'=2,'b'=4], [{'a', 'b':(1)2}, {?}]}")


@pytest.mark.parametrize(
    "text",
    [
        "{maximal}", "{devices=[1]0}", "{devices=[2,2]}", "{devices=[2,2]0,1,2}",
        "{devices=[2,2]<=[2,2]}", "{devices=[4]<=[4]T(0)}", "{devices=[4]<=[2,2]T(1,1)}",
        "{mesh['a'=2], [{'b'}]}", "{mesh['a'=2], [{'a':(1)2}]}", "{replicated manual}", "{foo}",
    ],
)  # fmt: skip
def test_what_is_refused(text: str) -> None:
    with pytest.raises(HloError):
        read(text)
