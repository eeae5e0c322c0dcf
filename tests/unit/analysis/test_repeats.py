"""Periodic parts of sequences are found where they are, and nowhere else."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hloc.analysis.repeats import Run, periodic_runs

NUMBERS = st.lists(st.integers(0, 3), max_size=40)


@settings(deadline=None)
@given(NUMBERS, st.lists(st.integers(0, 50), min_size=6, max_size=30), st.integers(3, 9), NUMBERS)
def test_runs_are_periodic_and_apart(
    before: list[int], layer: list[int], times: int, behind: list[int]
) -> None:
    sequence = before + layer * times + behind
    end = 0
    for run in periodic_runs(sequence, 4, 3):
        assert run.start >= end
        assert run.period >= 4
        assert run.end - run.start > 2 * run.period
        part = sequence[run.start : run.end]
        assert part[run.period :] == part[: -run.period]
        end = run.end
    assert end <= len(sequence)


def test_layers_between_other_numbers_are_found() -> None:
    layer = list(range(20))
    sequence = [90, 91, 92] + layer * 5 + [93, 94]
    assert periodic_runs(sequence, 8, 3) == [Run(3, 103, 20)]
    assert periodic_runs(sequence, 21, 3) == []
    assert periodic_runs(sequence, 8, 6) == []


def test_two_kinds_of_layers_do_not_overlap() -> None:
    """The second kind begins with what would continue the first."""
    first, second = list(range(20)), [*range(5), *range(30, 60)]
    found = periodic_runs(first * 4 + second * 4, 8, 3)
    assert [run.period for run in found] == [20, 35]
    assert found[0].end <= found[1].start


def test_an_empty_sequence_has_no_runs() -> None:
    assert periodic_runs([], 8, 3) == []
