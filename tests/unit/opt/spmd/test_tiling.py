"""Tilings say of each partition what the written sharding says, by the sets of indices it holds."""

from __future__ import annotations

import itertools
import random
from math import prod

import numpy as np
import pytest

from hloc.driver import parse_text
from hloc.ir.sharding import Iota, LeafSharding
from hloc.opt.spmd.mesh_axes import mesh_of, prime_mesh, tiling_of
from hloc.opt.spmd.tiling import Mesh, Tiling

Tile = tuple[int, ...]


def written(text: str) -> LeafSharding:
    """Return the sharding of a parameter that is written so."""
    module = parse_text(
        f"HloModule m, num_partitions=8\n\nENTRY e {{\n  ROOT p = f32[8,8] parameter(0), "
        f"sharding={text}\n}}\n"
    )
    assert module.entry is not None
    sharding = module.entry.root.common.sharding
    assert isinstance(sharding, LeafSharding)
    return sharding


def held(sharding: LeafSharding, rank: int, count: int) -> list[Tile]:
    """Return the tile that each partition holds, counted from the definition of the text."""
    if sharding.tiles is None:
        return [(0,) * rank] * count
    devices = sharding.tiles.devices
    if isinstance(devices, Iota):
        flat = np.arange(devices.count).reshape(devices.reshape).transpose(devices.transpose)
        devices = tuple(flat.ravel().tolist())
    found: list[Tile] = [()] * count
    for device, index in zip(devices, np.ndindex(*sharding.tiles.dims), strict=True):
        found[device] = index[:rank]
    return found


def held_by(tiling: Tiling) -> list[Tile]:
    """Return the tile of each partition by the tiling."""
    columns = [tiling.mesh.coordinates(axes).tolist() for axes in tiling.dims]
    return [tuple(column[i] for column in columns) for i in range(tiling.mesh.count)]


def random_tiling(mesh: Mesh, rank: int, draw: random.Random) -> Tiling:
    """Return a tiling with each axis in some dimension or in none."""
    dims: list[list[int]] = [[] for _ in range(rank)]
    for axis in draw.sample(mesh.axes, len(mesh.axes)):
        place = draw.randrange(rank + 1)
        if place < rank:
            dims[place].append(axis)
    return Tiling(mesh, tuple(map(tuple, dims)))


MESHES = [
    Mesh((2, 2, 2)),
    Mesh((4, 2)),
    Mesh((2, 3, 2)),
    Mesh((8,)),
    Mesh((2, 2, 2), (0, 1, 3, 2, 6, 7, 5, 4)),
]


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_a_tiling_is_written_and_read_without_loss(mesh: Mesh) -> None:
    draw = random.Random(1)
    for _ in range(60):
        tiling = random_tiling(mesh, draw.randrange(1, 4), draw)
        sharding = tiling.sharding()
        assert held(sharding, len(tiling.dims), mesh.count) == held_by(tiling), sharding
        assert tiling_of(sharding, mesh, len(tiling.dims)) == tiling


@pytest.mark.parametrize(
    "text",
    [
        "{devices=[4,2]<=[8]}",
        "{devices=[2,4]<=[4,2]T(1,0)}",
        "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
        "{devices=[2,2,2]<=[2,2,2]T(2,0,1) last_tile_dim_replicate}",
        "{devices=[4,2]0,1,2,3,4,5,6,7}",
        "{devices=[4,2]0,2,4,6,1,3,5,7}",
        "{devices=[4,2]0,1,3,2,6,7,5,4}",
        "{devices=[1,8]7,6,5,4,3,2,1,0}",
        "{replicated}",
    ],
)
def test_every_written_form_has_the_tiles_it_says(text: str) -> None:
    sharding = written(text)
    mesh = mesh_of([sharding], 8)
    for each in (mesh, prime_mesh(mesh)):
        tiling = tiling_of(sharding, each, 2)
        assert tiling is not None
        assert held_by(tiling) == held(sharding, 2, 8)


def test_one_mesh_expresses_all_shardings_of_a_module() -> None:
    texts = (
        "{devices=[4,2]<=[8]}",
        "{devices=[2,4]<=[4,2]T(1,0)}",
        "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
    )
    shardings = [written(text) for text in texts]
    mesh = mesh_of(shardings, 8)
    assert mesh == Mesh((2, 2, 2))
    tilings = [tiling_of(each, mesh, 2) for each in shardings]
    assert [t.dims if t else None for t in tilings] == [
        ((0, 1), (2,)),
        ((2,), (0, 1)),
        ((0,), ()),
    ]


def test_an_odd_list_of_devices_beside_an_iota_is_kept_apart() -> None:
    odd, plain = written("{devices=[8,1]7,6,4,5,1,3,2,0}"), written("{devices=[8,1]<=[8]}")
    mesh = mesh_of([plain, odd], 8)
    assert tiling_of(plain, mesh, 2) is not None
    assert tiling_of(odd, mesh, 2) is None
    assert mesh_of([plain, odd, odd], 8).devices == (7, 6, 4, 5, 1, 3, 2, 0), "the most count"


def test_subgroups_are_axes_of_their_kind() -> None:
    manual = written("{devices=[2,1,2,2]<=[2,2,2]T(1,0,2) last_tile_dims={manual, replicated}}")
    tiling = tiling_of(manual, mesh_of([manual], 8), 2)
    assert tiling is not None
    assert tiling == Tiling(tiling.mesh, ((1,), ()), manual=frozenset({0}))
    assert str(tiling.sharding()) == str(manual)
    assert str(tiling_of(LeafSharding("manual"), Mesh((8,)), 2).sharding()) == "{manual}"  # type: ignore[union-attr]
    assert str(Tiling(Mesh((8,)), ((),), unreduced=frozenset({0})).sharding()) == "{unreduced}"


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_the_merged_tiling_holds_what_both_hold(mesh: Mesh) -> None:
    """Evenly split arrays: the intersection of both index sets, for every partition."""
    draw = random.Random(2)
    whole = [mesh.count * 2] * 2
    merges = 0
    for _ in range(200):
        one, two = random_tiling(mesh, 2, draw), random_tiling(mesh, 2, draw)
        both = one.merged(two)
        if both is None:
            continue
        merges += 1
        for i in range(mesh.count):
            boxes = [box(each, whole, i) for each in (one, two, both)]
            assert boxes[0] & boxes[1] == boxes[2]
    assert merges > 10


def box(tiling: Tiling, whole: list[int], partition: int) -> set[tuple[int, ...]]:
    """Return the indices that a partition holds."""
    sizes = tiling.local_dims(whole)
    starts = [int(tiling.starts(whole, dim)[partition]) for dim in range(len(whole))]
    ranges = [range(s, min(s + n, w)) for s, n, w in zip(starts, sizes, whole, strict=True)]
    return set(itertools.product(*ranges))


def test_partial_shardings_merge_as_xla_merges_them() -> None:
    left, right = (
        written("{devices=[2,1,2]<=[4] last_tile_dim_replicate}"),
        written("{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"),
    )
    mesh = mesh_of([left, right], 4)
    one, two = tiling_of(left, mesh, 2), tiling_of(right, mesh, 2)
    assert one is not None
    assert two is not None
    assert str(one.merged(two).sharding()) == "{devices=[2,2]<=[4]}"  # type: ignore[union-attr]


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_groups_hold_the_partitions_that_differ_along_the_axes(mesh: Mesh) -> None:
    for count in range(1, len(mesh.sizes) + 1):
        for axes in itertools.permutations(mesh.axes, count):
            others = mesh.coordinates(mesh.except_for(axes))
            ranks = mesh.coordinates(axes)
            lists = mesh.groups(axes).lists()
            assert sorted(i for group in lists for i in group) == list(range(mesh.count))
            for group in lists:
                assert len({int(others[i]) for i in group}) == 1
                assert [int(ranks[i]) for i in group] == list(range(len(group)))


def test_tiles_are_ceiling_sized_and_may_start_beyond_the_end() -> None:
    tiling = Tiling(Mesh((8,)), ((0,),))
    assert tiling.local_dims([13]) == (2,)
    assert tiling.starts([13], 0).tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert not tiling.is_even([13], 0)
    assert prod(len(box(tiling, [13], i)) or 1 for i in range(7)) == 2**6
