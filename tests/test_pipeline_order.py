"""The order of passes keeps the reasons written down for it, at every level."""

from collections.abc import Iterator, Sequence

import pytest

from hloc.codegen.gpu.amdgcn import chips as amdgcn
from hloc.codegen.gpu.nvptx import chips as nvptx
from hloc.codegen.lower.expansion import EXPANSION, FUSION
from hloc.driver import pipeline_of
from hloc.opt.pass_base import Pass
from hloc.opt.pipeline import Fixpoint, Pipeline
from hloc.opt.pipelines import GPU_CHIPS, ORDER, PIPELINES, STANDS_FOR, Before, pipeline_for
from hloc.opt.registry import PASSES
from hloc.options import CompileOptions


def broken_order(passes: Sequence[Pass]) -> tuple[Before, ...]:
    """Return the rows of `ORDER` that `passes` violate."""
    names = [STANDS_FOR.get(name, name) for name in _names(passes)]
    return tuple(
        row
        for row in ORDER
        if row.first in names
        and row.second in names
        and len(names) - 1 - names[::-1].index(row.first) > names.index(row.second)
    )


def _names(passes: Sequence[Pass]) -> Iterator[str]:
    for p in passes:
        if isinstance(p, Fixpoint):
            yield from _names(p.passes)
        else:
            yield p.name


@pytest.mark.parametrize("target", ["cpu", "nvptx64", "amdgcn"])
@pytest.mark.parametrize("level", range(4))
def test_pipelines_keep_the_order(level: int, target: str) -> None:
    assert broken_order(pipeline_for(level, target).passes) == ()


@pytest.mark.parametrize("passes", [EXPANSION, FUSION])
def test_pipelines_of_code_generation_keep_the_order(passes: str) -> None:
    """They run after those of every level, by themselves at -O0."""
    assert broken_order(Pipeline.known(passes).passes) == ()


def test_passes_for_gpus_know_the_chip() -> None:
    """They choose by the figures of the chip that code is made for, or of the target's default."""
    assert "priority-fusion{chip=sm_90}" in str(pipeline_for(2, "nvptx64", "sm_90"))
    assert "priority-fusion{chip=sm_80}" in str(pipeline_for(2, "nvptx64"))
    assert "priority-fusion{chip=sm_80}" in str(pipeline_for(2, "nvptx64", "native"))
    assert "priority-fusion{chip=gfx90a}" in str(pipeline_for(3, "amdgcn"))
    assert "operand-fusion{chip=sm_90a}" in str(pipeline_for(2, "nvptx64", "sm_90a"))
    assert "priority" not in str(pipeline_for(2, "cpu", "sm_90"))
    assert GPU_CHIPS == {"nvptx64": nvptx.DEFAULT_CHIP, "amdgcn": amdgcn.DEFAULT_CHIP}


def test_libraries_multiply_arrays_in_memory() -> None:
    """So producers of their operands stay kernels."""
    for library, fuses in (("cublaslt", False), ("cudnn", False), ("cufft", True)):
        options = CompileOptions(target="nvptx64", use_library=(library,))
        assert ("operand-fusion" in str(pipeline_of(options))) == fuses


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


def test_an_expansion_in_the_wrong_order_is_found() -> None:
    early = Pipeline.known(f"dynamic-padder,{EXPANSION}")
    assert "scan-expander" in [row.first for row in broken_order(early.passes)]
