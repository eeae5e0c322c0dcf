"""The views of a module that a magic shows; needs no IPython."""

from __future__ import annotations

from collections.abc import Iterator

from hloc.ir.module import Module
from hloc.notebook.magic_options import MagicOptions
from hloc.notebook.slider import slider
from repl.render import rendered_text
from repl.running import run
from repl.session import Session
from repl.state import State

_AS_IT_STANDS = 0
"""Level without passes, which keeps the module after the passes of the cell."""


def views_of(options: MagicOptions, before: Module, after: Module) -> Iterator[object]:
    """Yield the requested views as objects that notebooks show; texts are printed.

    Args:
        options: only `views` is used.
        before: the given module.
        after: the module after the passes.
    """
    for view in options.views:
        if view == "diff":
            yield before.diff(after)
        elif view == "slider":
            yield slider(before, options.passes or "-O2")
        elif view == "graph":
            yield after.graph(None if after is before else before)
        elif view == "run":
            yield run_text(before, after, options.passes)
        elif view == "memory":
            yield after.memory(_AS_IT_STANDS)
        else:
            yield after.roofline(_AS_IT_STANDS, run="run" in options.views)
    if not options.views and not options.name:
        yield after


def run_text(before: Module, after: Module, passes: str) -> str:
    """Return the results of a module on random inputs, compared with those of the evaluator.

    Raises:
        HloError: hloc cannot run it, or the run failed.
    """
    session = Session()
    try:
        origin = session.load_module(before)
        if after is not before:
            session.tree.enter(State(1, origin, passes, after))
        return rendered_text(run(session))
    finally:
        session.close()
