"""Passes about gather, scatter and dynamic slices keep every result, indices out of range too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fuzz.cases.indexing import gather, scatter
from fuzz.draft import Draft
from hloc.dtypes import F32, S32
from tests.unit.opt.theme_checks import check_many


@pytest.mark.parametrize(
    ("name", "draw"),
    [
        ("gather-simplifier", gather),
        ("gather-expander", gather),
        ("batched-gather-scatter-normalizer", gather),
        ("scatter-simplifier", scatter),
        ("scatter-expander", scatter),
        ("batched-gather-scatter-normalizer", scatter),
    ],
)
def test_indexed_access_keeps_its_values(name: str, draw: Callable[[Draft], str]) -> None:
    check_many(name, draw)


def sliced_by_vector(d: Draft) -> str:
    """Draw a dynamic slice or update whose start indices are one vector."""
    dims = d.dims(1, 3)
    sizes = tuple(d.integer(0, size) for size in dims)
    x, starts = d.any_array(F32, dims), d.indices(S32, (len(dims),), max(dims))
    if d.flag():
        d.add("dynamic-slice", [x, starts], dynamic_slice_sizes=sizes)
    else:
        d.add("dynamic-update-slice", [x, d.any_array(F32, sizes), starts])
    return "exact"


def test_start_vectors_are_split() -> None:
    check_many("dynamic-index-splitter", sliced_by_vector)
