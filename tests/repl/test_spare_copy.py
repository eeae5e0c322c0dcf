"""A pass that changes nothing leaves its copy of the module to the next one: the same states."""

from pathlib import Path

import pytest

from hloc.ir.clone import clone_module
from hloc.ir.traversal import all_instructions
from repl import recipe
from repl.applying import Applied, follow
from repl.commands.passes import pipeline_of
from repl.session import Session
from repl.walk import Walk

EXAMPLE = Path(__file__).parents[2] / "examples" / "gpt_block.hlo"


def states(session: Session, drop: bool) -> list[tuple[str, list[int]]]:
    """Return text and uids of each state at -O2; with `drop` each pass copies the module anew."""
    session.load(str(EXAMPLE))
    for outcome in follow(session, Walk.of("-O2", pipeline_of("-O2").passes)):
        assert isinstance(outcome, Applied)
        if drop:
            session.spare = None
    return [
        (state.module.to_text(), [inst.uid for inst in all_instructions(state.module)])
        for state in session.states
    ]


def test_states_are_those_of_fresh_copies_and_few_copies_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied = 0

    def counted(*arguments: object) -> object:
        nonlocal copied
        copied += 1
        return clone_module(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(recipe, "clone_module", counted)
    session = Session()
    kept = states(session, drop=False)
    few, copied = copied, 0
    assert kept == states(Session(), drop=True)
    assert few <= len(kept)
    assert copied > 3 * few
    session.spare = session.current, session.current.module
    session.load(str(EXAMPLE))
    assert session.spare is None
