"""Single rewrites: a pass is run again from its start and stopped one rewrite later."""

from __future__ import annotations

from hloc.analysis.diff.rewrite_text import describe_rewrite
from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline, text_of
from repl.passes import enter_inside, recipe_for, run_guarded
from repl.rules import rule_place
from repl.session import Session
from repl.state import State
from repl.walk import Stepping


@dataclass(frozen=True, slots=True)
class Stepped:
    """One rewrite of a pass.

    Attributes:
        state: the state after it, None if no rewrite was left.
        number, of: number of the rewrite, and their total.
        by: `pass/rule`; `place` is where the rule is defined.
    """

    what: str
    state: State | None
    number: int
    of: int
    by: str
    place: str


def under_way(session: Session) -> Stepping | None:
    """Return the pass that the current state is in the middle of, or at the start of."""
    here, stepping = session.current, session.stepping
    if stepping is not None and stepping.base in (here, here.base):
        return stepping
    if here.base is None or here.recipe is None:
        return None
    whole = run_guarded(session, here.base, here.recipe, None)
    session.stepping = Stepping(here.base, here.recipe, whole)
    return session.stepping


def step(session: Session, text: str = "") -> Stepped:
    """Do the next rewrite of a pass.

    Args:
        session: is moved.
        text: the pass; "" for the one that is being stepped through, or the last one.

    Raises:
        HloError: no pass, or several.
    """
    stepping = under_way(session)
    if text or stepping is None:
        stepping = _begin(session, text, stepping)
    here = session.current
    number = (here.step if here.base is stepping.base else 0) + 1
    if number > stepping.total:
        return Stepped(stepping.name, None, number - 1, stepping.total, "", "")
    limit = number if stepping.whole.rules else None
    replay = run_guarded(session, stepping.base, stepping.recipe, None, limit)
    by = replay.rules[-1] if replay.rules else stepping.recipe.what.name
    state = enter_inside(session, stepping, replay)
    return Stepped(stepping.name, state, number, stepping.total, by, rule_place(by))


def _begin(session: Session, text: str, present: Stepping | None) -> Stepping:
    """Return the pass to step through; one that is under way continues."""
    text = text or session.last_step
    if not text:
        raise HloError("step what?", notes=("use: step PASS",))
    pipeline = Pipeline.parse(text)
    if len(pipeline.passes) != 1:
        raise HloError("step takes one pass")
    (what,) = pipeline.passes
    session.last_step = text
    if present is not None and present.recipe.what == what:
        return present
    base, recipe = session.current, recipe_for(session, what)
    session.stepping = Stepping(base, recipe, run_guarded(session, base, recipe, None))
    whole = session.stepping.whole
    session.highest_uid = max(session.highest_uid, whole.module.new_uid())
    return session.stepping


@dataclass(frozen=True, slots=True)
class Rewrites:
    """The rewrites of one pass: number, rule, instruction and change of the size.

    Attributes:
        done: how many of them the current state already has.
    """

    what: str
    label: str
    rows: tuple[tuple[int, str, str, int], ...]
    done: int


def rewrites_of(session: Session, text: str = "") -> Rewrites:
    """List the rewrites of a pass: one that would run here, or the one that made this state.

    Raises:
        HloError: the state was not made by a pass, and none is named.
    """
    here, stepping = session.current, under_way(session)
    if text:
        pipeline = Pipeline.parse(text)
        if len(pipeline.passes) != 1:
            raise HloError("rewrites takes one pass")
        recipe, base, done = recipe_for(session, pipeline.passes[0]), here, 0
    elif stepping is not None:
        recipe, base = stepping.recipe, stepping.base
        done = here.step if here.base is base else 0
    elif here.recipe is not None and here.parent is not None:
        recipe, base, done = here.recipe, here.base or here.parent, 0
    else:
        raise HloError("rewrites of what?", notes=("use: rewrites PASS",))
    sizes = [base.instructions]
    texts: list[str] = []

    def after_rewrite(module: Module, context: PassContext, by: str) -> None:
        events = module.log.since(marks[-1])
        marks.append(marks[-1] + len(events))
        texts.append(describe_rewrite(events).at)
        sizes.append(module.instruction_count)

    marks = [0]
    replay = run_guarded(session, base, recipe, after_rewrite)
    rows = tuple(
        (i + 1, by, texts[i], sizes[i + 1] - sizes[i]) for i, by in enumerate(replay.rules)
    )
    return Rewrites(text_of(recipe.what), base.label, rows, done)
