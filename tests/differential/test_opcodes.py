"""Every opcode that one device can run: evaluator and machine code agree on drawn modules.

The default run is the same every time and short; `pytest -m slow` draws many more.
"""

from __future__ import annotations

from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, note, settings

from docs.generators.opcodes import ask
from fuzz.agreement import check
from fuzz.cases import elementwise, structured
from fuzz.draft import Draft
from hloc.ir.verifier import verify
from hloc.ops import OPCODES
from hloc.report.opcode_examples import example_of
from tests.differential.drawn import Drawn

CASES: dict[str, Callable[[Draft], str]] = {**elementwise.CASES, **structured.CASES}

PATIENT = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
QUICK = settings(
    max_examples=3, derandomize=True, deadline=None, database=None, suppress_health_check=PATIENT
)
SLOW = settings(max_examples=100, deadline=None, suppress_health_check=PATIENT)


def check_drawn(name: str, data: st.DataObject) -> None:
    """Draw a module around opcode `name`, run it, compare."""
    draft = Draft(Drawn(data.draw))
    how = CASES[name](draft)
    module = draft.finish()
    verify(module)
    note(module.to_text("short"))
    note(f"arguments: {draft.arguments!r}")
    check(module, draft.arguments, how)


@pytest.mark.parametrize("name", sorted(CASES))
@QUICK
@given(data=st.data())
def test_evaluator_and_machine_code_agree(name: str, data: st.DataObject) -> None:
    check_drawn(name, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CASES))
@SLOW
@given(data=st.data())
def test_evaluator_and_machine_code_agree_on_many(name: str, data: st.DataObject) -> None:
    check_drawn(name, data)


def test_every_opcode_is_drawn_or_has_a_reason() -> None:
    """An opcode without a case is refused, in words that its row has, or is in NOT_DRAWN."""
    refused = {name for name, row in OPCODES.items() if row.refusal}
    assert set(OPCODES) - set(CASES) - refused == set(structured.NOT_DRAWN)
    assert refused & set(CASES) == set()
    assert [name for name in refused if OPCODES[name].evaluate is not None] == []


def test_machine_code_runs_what_the_evaluator_runs() -> None:
    assert [name for name in CASES if ask(name, example_of(name).dtype).failed == "cpu"] == []
