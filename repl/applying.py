"""Runs passes on the current state: a pipeline, a pass or a rewrite at a time; breakpoints.

A walk stops at breakpoints, and when a pass leaves an invalid module; `go_on` continues it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import PassContext
from repl.breakpoints import Breakpoint
from repl.passes import Applied as Applied
from repl.passes import enter, enter_inside, recipe_for, run_guarded
from repl.recipe import Recipe
from repl.results import Message
from repl.session import Session
from repl.state import State
from repl.stepping import under_way
from repl.walk import Pending, Stepping, Walk


@dataclass(frozen=True, slots=True)
class Stopped:
    """A walk that stopped before its end; `continue` resumes it."""

    why: str
    state: State


Outcome: TypeAlias = Applied | Stopped | Message


# ---------------------------------------------------------------- walks


def follow(
    session: Session,
    walk: Walk,
    *,
    keeps_cursor: bool = False,
    until: str = "",
    count: int | None = None,
    resumed: bool = False,
) -> Iterator[Outcome]:
    """Run the passes of `walk`; each that changes something makes a state.

    Args:
        session: its current state advances.
        walk: the pipeline, from its cursor on.
        keeps_cursor: record the position of the walk in each state.
        until: stop before the pass of this name.
        count: stop after this many passes that changed something.
        resumed: a breakpoint has already stopped before the first pass.
    """
    session.pending = None
    start = session.current
    is_begun, changes = False, 0
    while (what := walk.upcoming) is not None and (count is None or changes < count):
        if until and what.name == until and is_begun:
            break
        hit = None if resumed else session.breaks.before_pass(what.name)
        resumed = False
        if hit is not None:
            session.pending = Pending(walk, session.current, keeps_cursor, until)
            yield Stopped(f"breakpoint {hit}, before it runs", session.current)
            return
        session.progress.done, session.progress.total = walk.position
        session.progress.detail = what.name
        outcome = run_one(session, session.current, recipe_for(session, what))
        if isinstance(outcome, Stopped):
            session.pending = Pending(walk, outcome.state, keeps_cursor, until)
            yield outcome
            return
        walk = walk.advanced(outcome.state is not None)
        is_begun = True
        if outcome.state is not None:
            changes += 1
            _keep_start(session, start, outcome.state)
        if walk.exhausted:
            yield Message(f"  warning: {walk.exhausted} did not converge within its limit", "bad")
        if keeps_cursor:
            session.walks[session.current] = walk
        if outcome.state is not None or not walk.is_repeated or keeps_cursor:
            yield outcome
        why = _why_stop(session, outcome)
        if why and outcome.state is not None and walk.upcoming is not None:
            session.pending = Pending(walk, outcome.state, keeps_cursor, until)
            yield Stopped(why, outcome.state)
            return


def _keep_start(session: Session, start: State, made: State) -> None:
    """Record the first state of the command for the last state that it made."""
    if made.parent is not None and made.parent is not start:
        session.starts.pop(made.parent, None)
    session.starts[made] = start


def _why_stop(session: Session, outcome: Applied) -> str:
    """Return why a walk stops after this pass, "" if it continues."""
    if not outcome.is_wrong:
        return ""
    hit = session.breaks.after_fault()
    if hit is not None:
        return f"breakpoint {hit}"
    valid = outcome.state is None or outcome.state.is_valid
    return "the answers differ" if valid else "the module is invalid"


def go_on(session: Session) -> Iterator[Outcome]:
    """Finish the pass that is being stepped through, then resume the stopped pipeline.

    Raises:
        HloError: there is nothing to continue.
    """
    pending, stepping = session.pending, under_way(session)
    if pending is not None and pending.at is not session.current and stepping is None:
        pending = None
    if stepping is not None and session.current.base is stepping.base:
        outcome = run_one(session, stepping.base, stepping.recipe, session.current.step)
        if isinstance(outcome, Stopped):
            session.pending = pending and replace(pending, at=outcome.state)
            yield outcome
            return
        session.stepping = None
        yield outcome
        if pending is None or pending.walk.upcoming != stepping.recipe.what:
            return
        walk = pending.walk.advanced(outcome.state is not None)
        if pending.keeps_cursor:
            session.walks[session.current] = walk
        session.pending = replace(pending, walk=walk, at=session.current)
        why = _why_stop(session, outcome) if walk.upcoming is not None else ""
        if why:
            yield Stopped(why, session.current)
            return
        rest = follow(session, walk, keeps_cursor=pending.keeps_cursor, until=pending.until)
    elif pending is not None:
        rest = follow(
            session,
            pending.walk,
            keeps_cursor=pending.keeps_cursor,
            until=pending.until,
            resumed=True,
        )
    else:
        raise HloError(
            "nothing to continue", notes=("continue works after step and after a breakpoint",)
        )
    yield from rest


# ---------------------------------------------------------------- one pass


def run_one(session: Session, base: State, recipe: Recipe, passed: int = 0) -> Applied | Stopped:
    """Run a pass on `base` and enter the state it makes, or the one at which a breakpoint stops.

    Args:
        session: its current state advances.
        base: the state that the pass runs on.
        recipe: the pass.
        passed: breakpoints are checked only after this many rewrites.
    """
    hits: list[Breakpoint] = []
    look = session.breaks.look_inside
    mark = 0

    def after_rewrite(module: Module, context: PassContext, by: str) -> None:
        nonlocal mark
        events = module.log.since(mark)
        mark += len(events)
        if context.rewrites <= passed or hits:
            return
        hit = session.breaks.after_rewrite(module, context.rewrites, by, events)
        if hit is not None:
            hits.append(hit)
            context.rewrite_limit = context.rewrites

    if look and not passed:
        session.breaks.begin_pass(base.module)
    replay = run_guarded(session, base, recipe, after_rewrite if look else None)
    session.highest_uid = max(session.highest_uid, replay.module.new_uid())
    if hits:
        session.stepping = Stepping(base, recipe, run_guarded(session, base, recipe, None))
        state = enter_inside(session, session.stepping, replay)
        number, by = len(replay.rules), replay.rules[-1]
        return Stopped(f"breakpoint {hits[0]}, after rewrite {number}, {by}", state)
    return enter(session, base, recipe, replay)
