"""The order of passes keeps the reasons written down for it, at every level."""

import pytest

from hloc.opt.pipeline import Pipeline
from hloc.opt.pipelines import ORDER, PIPELINES, broken_order, pipeline_for
from hloc.opt.registry import PASSES


@pytest.mark.parametrize("level", range(4))
def test_pipelines_keep_the_order(level: int) -> None:
    assert broken_order(pipeline_for(level).passes) == ()


def test_level_0_does_nothing() -> None:
    assert PIPELINES[0] == ()


def test_rows_name_passes_that_exist_and_give_a_reason() -> None:
    for row in ORDER:
        assert row.first in PASSES
        assert row.second in PASSES
        assert len(row.because) > 10


def test_a_broken_order_is_found() -> None:
    swapped = Pipeline.parse("fusion,fixpoint(call-inliner,dce)")
    assert [row.first for row in broken_order(swapped.passes)] == ["call-inliner"]


def test_an_order_broken_by_a_second_run_is_found() -> None:
    late = Pipeline.parse("cse,fusion,cse")
    assert [row.first for row in broken_order(late.passes)] == ["cse"]
