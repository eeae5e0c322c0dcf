"""Pictures of the current state."""

from __future__ import annotations

from os.path import expanduser, splitext

from hloc.errors import HloError
from repl.commands.row import Command, Results, split_flags
from repl.results import Message
from repl.session import Session

_USAGE = "graph [%name|@computation] [FILE.html|.svg|.dot] [--diff] [--radius=N]"


def _graph(session: Session, rest: str) -> Results:
    """Write the graph of the module, or around an instruction; the file's ending is its form."""
    from hloc.pictures.graph import FORMS, write

    words = [word for word in rest.split() if not word.startswith("--radius=")]
    radius = _radius([word for word in rest.split() if word.startswith("--radius=")])
    names, flags = split_flags(" ".join(words), ("--diff",), _USAGE)
    state = session.current
    files = [name for name in names if splitext(name)[1].lower() in FORMS]
    around = [name for name in names if name not in files]
    if len(files) > 1 or len(around) > 1:
        raise HloError(f"cannot read {rest!r}", notes=(f"use: {_USAGE}",))
    path = expanduser(files[0]) if files else f"{state.module.name}-{state.label}.html"
    before = state.parent if "--diff" in flags else None
    diff = session.diff_of(before, state, state.events) if before is not None else None
    write(
        state.module,
        path,
        around=around[0].removeprefix("@") if around else None,
        radius=radius,
        before=before.module if before is not None else None,
        diff=diff,
    )
    yield Message(f"{state.label} drawn to {path}")


def _radius(words: list[str]) -> int:
    text = words[-1].partition("=")[2] if words else "2"
    if not text.isdecimal() or int(text) > 1000:
        raise HloError(f"expected a radius of 0 or more, found {text!r}")
    return int(text)


ROWS = (
    Command("graph", _USAGE, "draw the state, or the neighbourhood of an instruction, to a file",
            _graph, "instruction"),
)  # fmt: skip
