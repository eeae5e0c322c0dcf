"""Ways between tilings end where they should, on small meshes and on large ones."""

import random

import pytest

from hloc.opt.spmd.reshard_path import path
from hloc.opt.spmd.tiling import Mesh, Tiling


def _random_tiling(mesh: Mesh, rank: int, choice: random.Random) -> Tiling:
    dims: list[list[int]] = [[] for _ in range(rank)]
    axes = list(mesh.axes)
    choice.shuffle(axes)
    for axis in axes:
        dim = choice.randrange(rank + 1)
        if dim < rank:
            dims[dim].append(axis)
    return Tiling(mesh, tuple(map(tuple, dims)))


@pytest.mark.parametrize("sizes", [(2, 2, 2), (4, 3), (2,) * 9])
def test_every_way_ends_at_the_target_and_sends_no_more_than_gathering(
    sizes: tuple[int, ...],
) -> None:
    mesh, choice = Mesh(sizes), random.Random(0)
    for _ in range(12):
        start, target = (_random_tiling(mesh, 2, choice) for _ in range(2))
        whole = choice.choice([(512, 512), (13, 512)])
        elements, steps = path(whole, start, target)
        end = steps[-1].tiling if steps else start
        assert end == target
        parts = mesh.size(start.axes)
        gathered = start.local_dims(whole)[0] * start.local_dims(whole)[1] * (parts - 1)
        assert elements <= gathered * 1.01 + 1


def test_an_all_to_all_where_a_split_changes_its_dimension() -> None:
    mesh = Mesh((2,) * 9)
    start = Tiling(mesh, ((0, 1, 2), (3, 4, 5), (6,)))
    elements, steps = path((1024, 1024, 64), start, start.with_dim(2, ()).with_dim(1, (3, 4, 5, 6)))
    assert [step.kind for step in steps] == ["swap"]
    assert elements == pytest.approx(128 * 128 * 32 / 2, rel=1e-3)
