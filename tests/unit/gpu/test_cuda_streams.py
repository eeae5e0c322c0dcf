"""Steps of a plan on streams: ordered where they must be, and with no wait too many."""

from __future__ import annotations

import random

from hloc.codegen.gpu.streams import Access, StraightRun, assign, dependencies, straight_runs
from hloc.codegen.plan.pointer_table import Place
from tests.unit.gpu.simulate import compiled, entry


def read(begin: int, size: int, slot: int = 0) -> Access:
    return Access(Place(slot, begin), size, False)


def write(begin: int, size: int, slot: int = 0) -> Access:
    return Access(Place(slot, begin), size, True)


def test_only_touching_bytes_order_steps() -> None:
    steps = [
        [write(0, 64)],
        [read(0, 64), write(64, 64)],
        [read(32, 8), write(128, 64)],  # beside the step before: both only read
        [write(0, 64)],  # over what both read
        [read(0, 64, slot=1), write(256, 8)],
    ]
    assert [set(b) for b in dependencies(steps)] == [set(), {0}, {0}, {0, 1, 2}, set()]


def test_a_write_hides_what_was_done_to_its_bytes_before() -> None:
    steps = [[write(0, 64)], [write(0, 128)], [read(0, 64)], [write(0, 16)], [read(0, 64)]]
    assert [set(b) for b in dependencies(steps)] == [set(), {0}, {1}, {1, 2}, {1, 3}]


def test_a_chain_stays_on_one_stream() -> None:
    found = assign([frozenset(), frozenset({0}), frozenset({0, 1}), frozenset({2})])
    assert found == ((0, ()), (0, ()), (0, ()), (0, ()))


def test_branches_go_to_streams_of_their_own_and_meet() -> None:
    found = assign([frozenset(), frozenset(), frozenset({0}), frozenset({1, 2})])
    assert found == ((0, ()), (1, ()), (0, ()), (0, (1,)))


def test_every_order_is_kept_with_waits_that_are_all_needed() -> None:
    """Random graphs: what streams and waits imply is what was asked for, and no wait is spare."""
    random_ = random.Random(5)
    for _ in range(200):
        count = random_.randrange(1, 14)
        before = [frozenset(j for j in range(i) if random_.random() < 0.25) for i in range(count)]
        streams = random_.randrange(1, 5)
        found = assign(before, streams)
        placed = [stream for stream, _ in found]
        waits = [list(w) for _, w in found]
        implied = _implied(placed, waits)
        assert all(needed <= implied[i] for i, needed in enumerate(before))
        for i, needed in enumerate(before):
            for spare in waits[i]:
                fewer = [[w for w in ws if (i, w) != (i_, spare)] for i_, ws in enumerate(waits)]
                assert not needed <= _implied(placed, fewer)[i]


def _implied(streams: list[int], waits: list[list[int]]) -> list[set[int]]:
    """Return for each step all steps that have ended before it."""
    found: list[set[int]] = []
    for number, stream in enumerate(streams):
        earlier = [i for i in range(number) if streams[i] == stream][-1:] + waits[number]
        found.append(set(earlier).union(*(found[i] for i in earlier)))
    return found


def test_independent_kernels_of_a_module_run_beside_one_another() -> None:
    module = compiled(
        entry("f32[3,5];f32[8]", "(f32[5,3], f32[8]) tuple(a, b)").replace(
            "  ROOT",
            "  a = f32[5,3] transpose(p0), dimensions={1,0}\n  b = f32[8] sine(p1)\n  ROOT",
        )
    )
    ((run,),) = straight_runs(module.plan, module.kernels)
    assert isinstance(run, StraightRun)
    assert [(step.stream, step.waits) for step in run.steps] == [(0, ()), (1, ())]
