"""Whole arrays cut for devices and joined again."""

# One line per instruction, however long.
# ruff: noqa: E501

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc.errors import HloError
from hloc.ir.sharded_signature import ShardedArray, ShardedSignature, sharded_signature
from hloc.runtime.shards import cut_all, join, join_all


def signature(shape: str, sharding: str, devices: int = 4) -> ShardedSignature:
    """Return the signature of the identity on `shape`."""
    text = f"HloModule m, num_partitions={devices}\nENTRY e {{ ROOT a = {shape} parameter(0), sharding={sharding} }}"
    return sharded_signature(hloc.parse(text))


def there_and_back(shape: str, sharding: str, devices: int = 4) -> list[list[float]]:
    """Cut 0, 1, 2 ... and join the parts again; return the parts as flat lists."""
    found = signature(shape, sharding, devices)
    dims = found.parameters[0].whole.dims
    whole = np.arange(np.prod(dims, dtype=int), dtype=np.float32).reshape(dims)
    parts = cut_all([whole], found)
    (again,) = join_all(parts, found)
    assert again is not None
    assert np.array_equal(again, whole)
    return [part.ravel().tolist() for part in parts[0]]


def test_tiles_of_a_matrix() -> None:
    parts = there_and_back("f32[2,4]", "{devices=[2,2]<=[2,2]T(1,0)}")
    assert parts == [[0, 1], [4, 5], [2, 3], [6, 7]]


def test_replicated_arrays_are_the_same_everywhere() -> None:
    assert there_and_back("f32[3]", "{replicated}") == [[0, 1, 2]] * 4


def test_partly_replicated_tiles() -> None:
    parts = there_and_back("f32[4]", "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}")
    assert parts == [[0, 1], [2, 3], [0, 1], [2, 3]]


def test_uneven_tiles_are_padded_and_cut_off_again() -> None:
    parts = there_and_back("f32[13]", "{devices=[8]<=[8]}", 8)
    assert parts == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11], [12, 0], [0, 0]]


def test_what_lies_in_the_padding_does_not_reach_the_whole() -> None:
    found = signature("f32[3]", "{devices=[2]<=[2]}", 2)
    parts = [np.array(part, np.float32) for part in ([1, 2], [7, np.nan])]
    whole = join(parts, found.results[0])
    assert whole is not None
    assert whole.tolist() == [1, 2, 7]


def test_one_device_has_all_and_the_others_nothing() -> None:
    parts = there_and_back("f32[2]", "{maximal device=2}")
    assert parts[2] == [0, 1]


def test_empty_arrays_and_scalars() -> None:
    assert there_and_back("f32[0,4]", "{devices=[1,4]<=[4]}") == [[]] * 4
    assert there_and_back("f32[]", "{replicated}") == [[0]] * 4


def test_results_of_unknown_sharding_are_not_joined() -> None:
    found = signature("f32[2]", "{replicated}").results[0]
    assert join([np.ones(2, np.float32)] * 4, ShardedArray(found.whole, found.local, None)) is None


def test_a_whole_argument_of_another_shape_is_refused() -> None:
    found = signature("f32[4]", "{devices=[4]<=[4]}")
    with pytest.raises(
        HloError, match=r"the whole argument is f32\[4\], but float32\[1\] was given"
    ):
        cut_all([np.ones(1, np.float32)], found)
    with pytest.raises(HloError, match="takes 1 arrays, but 2"):
        cut_all([np.ones(4, np.float32)] * 2, found)
