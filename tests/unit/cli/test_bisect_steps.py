"""The search for the pass of XLA: two neighbours, few modules asked, some without an answer."""

import pytest

from hloc.cli.bisect_xla import wrong_step


@pytest.mark.parametrize("first", range(27))
def test_the_first_wrong_module_is_found_by_halves(first: int) -> None:
    asked: list[int] = []

    def fault_after(number: int) -> str:
        asked.append(number)
        return f"wrong from {first}" if number >= first else ""

    step = wrong_step(27, fault_after)
    assert step is not None
    assert (step.right, step.wrong) == (first - 1 if first else None, first)
    assert step.fault == f"wrong from {first}"
    assert len(asked) <= 6


def test_all_are_right() -> None:
    assert wrong_step(27, {26: ""}.__getitem__) is None  # only the last is asked
    assert wrong_step(0, lambda _: "wrong") is None


def test_modules_without_an_answer_do_not_count() -> None:
    answers = {0: "", 1: None, 2: None, 3: "", 4: None, 5: "wrong", 6: None, 7: None}
    step = wrong_step(8, answers.__getitem__)
    assert step is not None
    assert (step.right, step.wrong, step.fault) == (3, 5, "wrong")
