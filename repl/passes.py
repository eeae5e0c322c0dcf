"""One run of a pass as a state: verified, compared on request, with errors traced to a rewrite.

A pass that fails leaves the session unchanged; one that leaves an invalid module creates a state
that records this and names the rewrite that broke it.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator

from hloc.analysis.diff.diff_rows import DiffTable, table_of
from hloc.errors import HloError, InternalError
from hloc.ir.module import Module
from hloc.ir.verifier import check
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import Pass
from hloc.opt.pipeline import Pipeline, text_of
from hloc.opt.registry import is_registered, registered_rules
from hloc.report.no_gain import no_gain_text
from hloc.report.repro_file import repro_path, write_with_header
from repl.recipe import OnRewrite, Recipe, Replay
from repl.results import Effect
from repl.session import Session
from repl.state import State, snapshot_of
from repl.state_diff import measure
from repl.verifying import Culprit, Verified, culprit_in, verify_states
from repl.walk import Stepping


@dataclass(frozen=True, slots=True)
class Applied:
    """The effect of one pass: the state it made, None if it changed nothing.

    Attributes:
        culprit: the rewrite that made the module invalid, None if it is valid.
        verified: the comparison of results, None if it was not requested.
        no_gain: why kernels and bytes did not decrease, "" if they did or it is unknown.
    """

    what: str
    state: State | None
    before: int
    after: int
    diff: DiffTable
    rewrites: tuple[tuple[str, int], ...]
    wall_ms: float
    warnings: tuple[str, ...] = ()
    culprit: Culprit | None = None
    verified: Verified | None = None
    no_gain: str = ""

    @property
    def is_news(self) -> bool:
        """True if there is something to report."""
        return self.state is not None or bool(self.warnings)

    @property
    def is_wrong(self) -> bool:
        """True if the module is invalid, or gives other results."""
        invalid = self.state is not None and not self.state.is_valid
        return invalid or (self.verified is not None and not self.verified.ok)


def recipe_for(session: Session, what: Pass) -> Recipe:
    """Return the recipe of `what` with the current settings."""
    fast = session.settings.is_on("fast-math")
    return Recipe(what, frozenset(session.disabled_rules), fast, session.highest_uid)


def run_guarded(
    session: Session,
    base: State,
    recipe: Recipe,
    on_rewrite: OnRewrite | None,
    limit: int | None = None,
) -> Replay:
    """Run a pass; one that fails writes a reproducer and leaves the state unchanged."""
    if base.faults:
        raise HloError(f"{base.label} is invalid: {base.faults[0]}", notes=("undo goes back",))
    copy, session.spare = session.spare, None
    try:
        return recipe.run(base.module, limit, on_rewrite, [], _copy_of(base, copy))
    except InternalError as fault:
        session.last_fault = traceback.format_exc()
        words = [f"--passes={text_of(recipe.what)}", "--verify-each"]
        words += ["--fast-math"] * recipe.fast_math
        path = repro_path(base.module.name, None)
        write_with_header(base.module, words, list(session.plugins), path)
        message, *more = str(fault).split("\n")
        notes = (*more, f"the state is unchanged; `trace` prints the traceback; reproducer: {path}")
        raise HloError(message, notes=notes) from fault


def _copy_of(state: State, spare: tuple[State, Module] | None) -> Module | None:
    """Return the copy of a module that the last pass has left as it was, if it is of `state`.

    Most passes change nothing, and a copy of 16,000 instructions takes 0.1 s.
    """
    return spare[1] if spare is not None and spare[0] is state else None


def enter(session: Session, base: State, recipe: Recipe, replay: Replay) -> Applied:
    """Enter the state after a whole run of a pass, if the run changed something."""
    name = text_of(recipe.what)
    rewrites = tuple(sorted(replay.context.fired.items()))
    warnings = [*replay.context.warnings, *_misreports(replay)]
    count = base.instructions
    if not replay.events:
        if replay.changed_nothing:
            session.spare = base, replay.module
        return Applied(
            name,
            None,
            count,
            count,
            DiffTable(()),
            rewrites,
            replay.wall_ms,
            tuple(warnings),
            no_gain=no_gain_text(measure(base), measure(base), replay.context.remarks or ()),
        )
    state = session.add_state(
        base,
        name,
        replay.module,
        replay.events,
        rewrites=rewrites,
        wall_ms=replay.wall_ms,
        recipe=recipe,
    )
    culprit = verified = None
    if state.faults:
        culprit = culprit_in(state, first_fault)
    elif _wants_comparison(session, state):
        try:
            verified = verify_states(session, base, state)
        except HloError as fault:
            warnings.append(f"not verified: {fault.message}")
    return Applied(
        name,
        state,
        count,
        state.instructions,
        table_of(snapshot_of(base), snapshot_of(state), tuple(replay.events)),
        rewrites,
        replay.wall_ms,
        tuple(warnings),
        culprit,
        verified,
        no_gain_text(measure(base), measure(state), replay.context.remarks or ()),
    )


def effect_of(session: Session, name: str, summary: str) -> Effect:
    """Try a pass on the current state; a failure is recorded and does not end the list."""
    (what,) = Pipeline.parse(name).passes
    try:
        fired = recipe_for(session, what).run(session.current.module).rules
    except HloError as fault:
        return Effect(name, summary, 0, failure=fault.message)
    except InternalError as fault:
        session.last_fault = traceback.format_exc()
        return Effect(name, summary, 0, failure=str(fault).partition("\n")[0])
    rules = Counter(by.partition("/")[2] for by in fired if "/" in by)
    return Effect(name, summary, len(fired), tuple(sorted(rules.items())))


def first_fault(module: Module) -> str:
    """Return the first message of the verifier, "" if the module is valid."""
    faults = check(module)
    return faults[0].message if faults else ""


def _misreports(replay: Replay) -> Iterator[str]:
    """Yield disagreements between what a pass reported and its change log."""
    if replay.said_changed and not replay.events:
        yield "the pass says that it changed something, but it did not"
    if replay.events and not replay.said_changed:
        yield "the pass says that it changed nothing, but it did"


def _wants_comparison(session: Session, state: State) -> bool:
    wish = session.settings.text("auto-verify")
    if wish != "plugins":
        return wish == "on"
    assert state.recipe is not None
    if is_registered(state.recipe.what.name):
        return True
    added = {rule.name for rule in registered_rules()}
    return any(by.partition("/")[2] in added for by, _ in state.rewrites)


def enter_inside(session: Session, stepping: Stepping, replay: Replay) -> State:
    """Enter the state after the rewrites of `replay`."""
    number = max(1, len(replay.rules))
    here = session.current
    is_next = here.base is stepping.base and here.step == number - 1
    parent = here if is_next else stepping.base
    known = parent.step if parent is here and is_next else 0
    return session.add_state(
        parent,
        stepping.name,
        replay.module,
        replay.events_after(known),
        rewrites=tuple(Counter(replay.rules[known:]).items()),
        wall_ms=replay.wall_ms,
        recipe=stepping.recipe,
        base=stepping.base,
        step=number,
    )
