"""Passes: list, apply, step through a pipeline."""

from __future__ import annotations

from collections.abc import Iterator

from hloc import driver
from hloc.errors import HloError
from hloc.opt.pipeline import Pipeline
from hloc.opt.registry import canonical_name
from hloc.options import CompileOptions
from hloc.report.measure_text import effect_text
from hloc.report.no_gain import heaviest_text, is_gain
from hloc.report.text import plural
from repl.applying import Applied, Outcome, follow
from repl.commands.row import Command, Results, number_of
from repl.passes import effect_of
from repl.results import Effect, Effects, Message, PipelineView, Report, Table
from repl.session import Session
from repl.state_diff import measure
from repl.walk import Walk

_MANY = 6
"""With more passes than this, those that did nothing are only counted."""

_LEVELS = ("-O0", "-O1", "-O2", "-O3")


def _passes(session: Session, rest: str) -> Results:
    """List the passes whose name or summary has all words; `--effective` tries each on a copy."""
    from hloc.report.describe import pass_summaries

    words = rest.split()
    try_out = "--effective" in words
    patterns = [word for word in words if not word.startswith("--")]
    known = pass_summaries()
    chosen = [row for row in known if all(p in row[0] or p in row[1] for p in patterns)]
    if not chosen:
        raise HloError(f"no pass matches {rest!r}")
    if try_out and session.is_loaded:
        rows = session.progress.track("trying passes", chosen, lambda row: row[0])
        found = tuple(effect_of(session, *row) for row in rows)
    else:
        found = tuple(Effect(*row, None) for row in chosen)
    if try_out and "--all" not in words:
        idle = [effect for effect in found if not effect.rewrites and not effect.failure]
        found = tuple(effect for effect in found if effect.rewrites or effect.failure)
        if found:
            yield Effects(found)
        yield Message(f"  {plural(len(idle), 'other pass')} would change nothing here", "dim")
    else:
        yield Effects(found)


def _explain(session: Session, rest: str) -> Results:
    from hloc.report.explanation import explanation_of

    yield Report(explanation_of(rest), prose=True)


def pipeline_of(text: str) -> Pipeline:
    """Return the pipeline of a level or of the text of passes."""
    if text in _LEVELS:
        return driver.pipeline_of(CompileOptions(opt_level=int(text[2])))
    return Pipeline.parse(text)


def _apply(session: Session, rest: str) -> Results:
    pipeline = pipeline_of(rest)
    before = session.current
    reasons: list[str] = []
    outcomes = _collect_reasons(reasons, follow(session, Walk.of(rest, pipeline.passes)))
    with session.progress.work("passes"):
        yield from counting_idle(outcomes) if len(pipeline.passes) > _MANY else outcomes
    now = session.current
    if len(pipeline.passes) > 1:
        yield Message(
            f"{before.label} → {now.label}: {effect_text(measure(before), measure(now), '→')}   "
            f"{before.instructions:,} → {now.instructions:,} instructions"
        )
        if not is_gain(measure(before), measure(now)):
            reason = reasons[0] if reasons else heaviest_text(before.module, now.module)
            yield Message(f"  {reason}", "dim")


def _collect_reasons(reasons: list[str], outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
    """Yield `outcomes`, and collect the reasons of passes that gained nothing."""
    for outcome in outcomes:
        if isinstance(outcome, Applied) and outcome.state is None and outcome.no_gain:
            reasons.append(outcome.no_gain)
        yield outcome


def counting_idle(outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
    """Yield `outcomes`; passes that changed nothing become a count at the end."""
    idle = 0
    for outcome in outcomes:
        if isinstance(outcome, Applied) and not outcome.is_news:
            idle += 1
        else:
            yield outcome
    if idle:
        yield Message(f"  {plural(idle, 'run')} of passes changed nothing", "dim")


def _pipeline(session: Session, rest: str) -> Results:
    if rest:
        session.walks[session.current] = Walk.of(rest, pipeline_of(rest).passes)
    walk = _walk(session)
    yield PipelineView(walk.name, walk.steps())


def _walk(session: Session) -> Walk:
    """Return the pipeline that the current state is in; -O2 from its beginning if in none."""
    here = session.current
    return session.walks.get(here) or Walk.of("-O2", pipeline_of("-O2").passes)


def _next(session: Session, rest: str) -> Results:
    count = number_of(rest)
    yield from _walked(session, _walk(session), count=count)


def _until(session: Session, rest: str) -> Results:
    name = canonical_name(rest)
    yield from _walked(session, _walk(session), until=name)


def _walked(session: Session, walk: Walk, *, until: str = "", count: int | None = None) -> Results:
    if walk.upcoming is None:
        raise HloError(f"pipeline {walk.name} is finished", notes=("pipeline -O2 restarts it",))
    outcomes = follow(session, walk, keeps_cursor=True, until=until, count=count)
    with session.progress.work("passes"):
        yield from counting_idle(outcomes)
    after = session.walks.get(session.current)
    if after is not None and session.pending is None:
        upcoming = after.upcoming
        yield Message(
            f"  next: {upcoming.name}" if upcoming else "  the pipeline is finished", "dim"
        )


def _time(session: Session, rest: str) -> Results:
    states = session.lineage()[1:]
    rows = tuple(
        (s.label, s.how, f"{s.wall_ms:.1f}", str(s.rewrite_count), f"{s.instructions:,}")
        for s in states
    )
    total = sum(s.wall_ms for s in states)
    heads = ("state", "by", "ms", "rewrites", "instrs")
    yield Table(f"{total:.1f} ms from s0 to {session.current.label}", heads, rows, right=(2, 3, 4))


ROWS = (
    Command("passes", "passes [--effective [--all]] [WORD]",
            "list passes; --effective tries which would change this state", _passes),
    Command("explain", "explain PASS|RULE|OPCODE|CODE",
            "explain a pass, rule, opcode or diagnostic", _explain,
            "pass", question="explain what?"),
    Command("apply", "apply PASS,PASS... | -O2",
            "run passes; each one that changes the module creates a state", _apply, "pass", True,
            question="apply what?"),
    Command("pipeline", "pipeline [-O2|PASS,PASS...]",
            "choose the pipeline for next, and show its position",
            _pipeline, "pass", True),
    Command("next", "next [N]", "run the pipeline up to its next change, or N changes", _next,
            "", True),
    Command("until", "until PASS", "run the pipeline up to a pass", _until, "pass", True,
            question="until which pass?"),
    Command("finish", "finish", "run the rest of the pipeline",
            lambda session, _rest: _walked(session, _walk(session)), "", True),
    Command("time", "time", "time spent in each pass so far", _time),
)  # fmt: skip
