"""The `diff` command: two states compared, with the change in cost.

    diff [A] [B] [@computation|%name] [--side|--unified|--stat|--json|--text] [--expand] [--all]
         [--names] [--order]

Without states it shows the changes of the last command that ran passes; with one state, it compares
that with the current one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from hloc.analysis.diff.diff_groups import only_about
from hloc.analysis.diff.diff_rows import (
    CONTENT,
    DiffTable,
    RowOptions,
    table_of,
)
from hloc.analysis.measure import Measure, measure_of
from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass
from hloc.near_names import near_name_notes
from hloc.report.diff.diff_data import diff_data
from repl.diff import text_diff
from repl.settings import Setting, add_setting
from repl.state import State, path, snapshot_of

if TYPE_CHECKING:
    from repl.session import Session

MODES = ("unified", "side", "stat", "json", "text")
_FLAGS = ("--expand", "--all", "--names", "--order")
_USAGE = "use: diff [A] [B] [@computation|%name] [--side|--stat|--json|--text] [--expand] [--all]"

MAX_LINES = 200
"""Lines of a diff that are shown without --all."""

_KEPT_STATES = 8

for _setting in (
    Setting("diff", "unified", "how diff shows changes", ("unified", "side")),
    Setting(
        "names",
        "short",
        "full: diff also shows instructions that were only renamed",
        ("short", "full"),
    ),
):
    add_setting(_setting)

StateOf = Callable[[str], State]


@dataclass(frozen=True, slots=True)
class ShownDiff:
    """A diff of two states and how to show it.

    Attributes:
        by: the passes in between.
        mode: one of `unified`, `side`, `stat`.
        limit: most lines, None for all.
    """

    before: State
    after: State
    by: str
    table: DiffTable
    measures: tuple[Measure, Measure]
    mode: str = "unified"
    expand: bool = False
    limit: int | None = MAX_LINES


@dataclass(frozen=True, slots=True)
class DiffJson:
    """A diff as JSON text."""

    text: str


@dataclass(frozen=True, slots=True)
class DiffRequest:
    """A request for a diff.

    Attributes:
        before: a state, "" for the one at which the last command began.
        mode: one of MODES.
        about: `@computation` or `%name`, "" for everything.
    """

    before: str
    after: str
    mode: str = "unified"
    about: str = ""
    expand: bool = False
    everything: bool = False
    names: bool = False
    order: bool = False

    @staticmethod
    def parse(rest: str, mode: str = "unified") -> DiffRequest:
        """Parse the words after `diff`; `mode` is the default chosen by F2.

        Raises:
            HloError: an unknown option, or too many states.
        """
        flags, states, about = set(), [], ""
        for word in rest.split():
            if word.startswith("--"):
                flags.add(word)
            elif word.startswith(("@", "%")):
                about = word
            else:
                states += [part for part in word.split("..") if part]
        modes = [flag[2:] for flag in sorted(flags) if flag[2:] in MODES]
        unknown = sorted(flags - {f"--{name}" for name in MODES} - set(_FLAGS))
        if unknown:
            known = [*(f"--{name}" for name in MODES), *_FLAGS]
            raise HloError(
                f"diff has no option {unknown[0]!r}",
                notes=(*near_name_notes(unknown[0], known), _USAGE),
            )
        if len(states) > 2 or len(modes) > 1:
            raise HloError(f"cannot read {rest!r}", notes=(_USAGE,))
        before, after = [*states, *["", "$"][len(states) :]]
        return DiffRequest(
            before,
            after,
            modes[0] if modes else mode,
            about,
            "--expand" in flags,
            "--all" in flags,
            "--names" in flags,
            "--order" in flags,
        )


def diff_command(session: Session, rest: str) -> Iterator[object]:
    """Run `diff`, with the settings of the session as defaults."""
    request = DiffRequest.parse(rest, session.settings.text("diff"))
    if not request.before:
        start = session.starts.get(session.current)
        request = replace(request, before=start.label if start else "prev")
    names = request.names or session.settings.text("names") == "full"
    yield from diff_results(replace(request, names=names), session.state)


def diff_results(request: DiffRequest, state_of: StateOf) -> Iterator[object]:
    """Yield the results of `diff`.

    Raises:
        HloError: there is no state, computation or instruction of that name.
    """
    before, after = state_of(request.before), state_of(request.after)
    if request.mode == "text":
        yield text_diff(before, after)
        return
    shown = compared(before, after, RowOptions(request.names, request.order))
    if request.about:
        shown = replace(shown, table=_about(shown, request.about))
    if request.mode == "json":
        yield DiffJson(json.dumps(as_data(shown), indent=1, ensure_ascii=False))
        return
    yield replace(
        shown,
        mode=request.mode,
        expand=request.expand,
        limit=None if request.everything else MAX_LINES,
    )


def compared(before: State, after: State, options: RowOptions = CONTENT) -> ShownDiff:
    """Return the diff of two states; rules are known if one leads to the other."""
    between = path(before, after)
    events = tuple(event for state in between for event in state.events)
    table = table_of(snapshot_of(before), snapshot_of(after), events, options)
    by = ", ".join(state.how for state in between[:4]) + (", ..." if len(between) > 4 else "")
    return ShownDiff(before, after, by, table, (measure(before), measure(after)))


@lru_cache(maxsize=_KEPT_STATES)
def measure(state: State) -> Measure:
    """Return the size and cost of a state."""
    return measure_of(state.module)


def _about(shown: ShownDiff, about: str) -> DiffTable:
    """Return the part of a diff that concerns a computation or an instruction."""
    name = about.lstrip("@%")
    computations = shown.table.computations
    if about.startswith("@"):
        found = tuple(c for c in computations if c.name == name)
        modules = (shown.before.module, shown.after.module)
        names = [c.name for module in modules for c in module.computations]
        if not found and name not in names:
            raise HloError(f"no computation named {name!r}", notes=near_name_notes(name, names))
        return DiffTable(found)
    kept = []
    for computation in computations:
        rows = only_about(computation, name)
        if rows:
            kept.append(replace(computation, rows=rows))
    if not kept:
        names = [row.name for c in computations for row in c.rows][:20000]
        raise HloError(f"no difference at {name!r}", notes=near_name_notes(name, names))
    return DiffTable(tuple(kept))


# ---------------------------------------------------------------- data


def as_data(shown: ShownDiff) -> dict[str, object]:
    """Return a diff as JSON data."""
    old, new = shown.measures
    return {
        "before": shown.before.label,
        "after": shown.after.label,
        "by": shown.by,
        "delta": {
            "instructions": new.instructions - old.instructions,
            "kernels": new.kernels - old.kernels,
            "flops": new.cost.flops - old.cost.flops,
            "bytes": new.cost.bytes - old.cost.bytes,
        },
        **diff_data(shown.table),
    }
