"""Passes take the same time for each instruction of a small and of a large module."""

from pathlib import Path

import pytest

import hloc
from benchmarks.bench_passes import EXAMPLE, measure, repeated
from hloc.ir.verifier import verify


def test_a_repeated_module_is_valid_and_has_all_parameters_and_results() -> None:
    module = hloc.load(str(Path(EXAMPLE)))
    larger = repeated(module, 3)
    verify(larger)
    assert len(larger.entry.parameters) == 3 * len(module.entry.parameters)
    assert [root.shape for root in larger.entry.root.operands] == 3 * [module.entry.root.shape]


@pytest.mark.slow
def test_twice_the_instructions_take_about_twice_the_time() -> None:
    """`make bench-passes` measures up to 24,000 instructions; this only guards."""
    module = hloc.load(str(Path(EXAMPLE)))
    sizes = [repeated(module, times) for times in (8, 16)]
    measure(sizes[0])
    small, large = (min(measure(m).seconds for _ in range(3)) for m in sizes)
    assert large / small <= 3.0
