"""The analysis cache computes once per version, and never hands out a stale result."""

from hloc.analysis.cache import AnalysisCache
from hloc.ir.computation import Computation
from tests.unit.opt.modules import negations


def test_a_result_lasts_until_the_computation_changes() -> None:
    calls: list[int] = []

    def size(computation: Computation) -> int:
        calls.append(1)
        return len(computation)

    module, cache = negations(3), AnalysisCache()
    assert cache.get(size, module.entry) == 4
    assert cache.get(size, module.entry) == 4
    assert len(calls) == 1
    module.entry.set_root(module.entry.instructions[1])
    module.entry.remove(module.entry.instructions[3])
    assert cache.get(size, module.entry) == 3
    assert len(calls) == 2
