"""A pipeline with a cursor: the next pass, also inside fixpoints.

It is immutable: advancing returns a new walk, so each state keeps its own position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import Pass
from hloc.opt.pipeline import Fixpoint, steps_of, text_of
from repl.recipe import Recipe, Replay
from repl.state import State


@dataclass(frozen=True, slots=True)
class _Frame:
    """The pipeline or fixpoint being run: `index` is its next pass.

    `changed` says whether a pass of this round changed something, `ever` of any round.
    """

    passes: tuple[Pass, ...]
    limit: int
    index: int = 0
    round: int = 0
    changed: bool = False
    ever: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One line in the listing of a pipeline.

    Attributes:
        depth: number of fixpoints around it.
        status: `done`, `next` or `""`.
    """

    text: str
    depth: int
    status: str


@dataclass(frozen=True, slots=True)
class Walk:
    """A pipeline with a position.

    Attributes:
        name: the user's name of the pipeline, `-O2`.
        exhausted: the fixpoint that just reached its limit while passes still changed
            something, "" for none.
    """

    name: str
    frames: tuple[_Frame, ...]
    exhausted: str = ""

    @staticmethod
    def of(name: str, passes: Sequence[Pass]) -> Walk:
        """Return a walk positioned before the first pass."""
        return Walk(name, (_Frame(tuple(passes), 1),))._settled()

    @property
    def upcoming(self) -> Pass | None:
        """The next pass, None at the end."""
        frame = self.frames[-1]
        return frame.passes[frame.index] if frame.index < len(frame.passes) else None

    @property
    def position(self) -> tuple[int, int]:
        """Passes done and their total; later rounds of a fixpoint are not counted."""
        done = 0
        for frame in self.frames:
            done += steps_of(frame.passes if frame.round else frame.passes[: frame.index])
            if frame.round:
                break
        return done, steps_of(self.frames[0].passes)

    @property
    def is_repeated(self) -> bool:
        """True if the next pass is in a fixpoint."""
        return len(self.frames) > 1

    def advanced(self, changed: bool) -> Walk:
        """Return the walk after the next pass; `changed` says whether it changed something."""
        *outer, top = self.frames
        moved = replace(
            top, index=top.index + 1, changed=top.changed or changed, ever=top.ever or changed
        )
        return Walk(self.name, (*outer, moved))._settled()

    def _settled(self) -> Walk:
        """Return the walk with the cursor on a single pass, or at the end."""
        frames = list(self.frames)
        exhausted = ""
        while True:
            top = frames[-1]
            if top.index < len(top.passes):
                what = top.passes[top.index]
                if not isinstance(what, Fixpoint):
                    break
                frames.append(_Frame(what.passes, what.limit if what.passes else 0))
            elif len(frames) == 1:
                break
            elif top.changed and top.round + 1 < top.limit:
                frames[-1] = replace(top, index=0, round=top.round + 1, changed=False)
            else:
                if top.changed:
                    exhausted = str(Fixpoint(top.passes, top.limit))
                frames.pop()
                outer = frames[-1]
                frames[-1] = replace(
                    outer,
                    index=outer.index + 1,
                    changed=outer.changed or top.ever,
                    ever=outer.ever or top.ever,
                )
        return Walk(self.name, tuple(frames), exhausted)

    def steps(self) -> tuple[Step, ...]:
        """Return the lines of the pipeline with the cursor."""
        return tuple(_steps(self.frames[0].passes, self.frames, 0))


def _steps(passes: tuple[Pass, ...], frames: tuple[_Frame, ...], depth: int) -> list[Step]:
    """Return the lines of `passes`; `frames` gives the cursor (none: it is outside)."""
    found: list[Step] = []
    here = frames[0] if frames else None
    for number, what in enumerate(passes):
        status = "done" if here and number < here.index else ""
        is_here = here is not None and number == here.index
        if isinstance(what, Fixpoint):
            inner = frames[1:] if is_here else ()
            turn = f", round {inner[0].round + 1}" if inner else ""
            found.append(Step(f"fixpoint (at most {what.limit} rounds{turn})", depth, status))
            found += _steps(what.passes, inner, depth + 1)
        else:
            found.append(Step(text_of(what), depth, "next" if is_here else status))
    return found


@dataclass(frozen=True, slots=True)
class Stepping:
    """A pass that is being stepped through: its start, and its complete run."""

    base: State
    recipe: Recipe
    whole: Replay

    @property
    def name(self) -> str:
        return text_of(self.recipe.what)

    @property
    def total(self) -> int:
        """Number of single steps; a pass that counts no rewrites is one step."""
        return len(self.whole.rules) or bool(self.whole.events)


@dataclass(frozen=True, slots=True)
class Pending:
    """What `continue` does after the current pass.

    Attributes:
        walk: the pipeline; its next pass is the current one.
        at: the state where it stopped.
        keeps_cursor: it is the pipeline of `next`.
        until: stop before this pass.
    """

    walk: Walk
    at: State
    keeps_cursor: bool
    until: str = ""
