"""What a magic shows of a module; needs no IPython."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from hloc import driver
from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.near_names import near_name_notes
from hloc.notebook.magic_options import MagicOptions
from repl.render import render
from repl.running import run
from repl.session import Session
from repl.state import State

_AS_IT_STANDS = 0
"""Level that leaves a module as the passes of the cell have made it."""

CELL = "<cell>"
"""What messages call the text of a cell."""


def module_of_cell(text: str) -> Module:
    """Return the module in the text below `%%hlo`; lines are counted as the notebook does.

    Raises:
        HloError: the faults of the text, with line and caret.
    """
    return driver.parse_text(f"\n{text}", name=CELL)


def module_named(source: str, variables: Mapping[str, Any]) -> Module:
    """Return the module that a variable holds, as such, as text or lowered from JAX; or of a file.

    Raises:
        HloError: there is neither, or it holds no module.
    """
    if source not in variables:
        if os.path.exists(source):
            return driver.load_module(source)
        notes = near_name_notes(source, [name for name in variables if not name.startswith("_")])
        raise HloError(f"there is no variable or file {source!r}", notes=notes)
    return module_in(variables[source], source)


def module_in(value: object, name: str) -> Module:
    """Return the module that `value` is, holds, or is the text of.

    Raises:
        HloError: it is none of these; `name` is what the message calls it.
    """
    if isinstance(value, str):
        return driver.parse_text(value, name=name)
    found = getattr(value, "module", value)
    if not isinstance(found, Module):
        raise HloError(f"{name} is no module, but of type {type(value).__name__}")
    return found


def views_of(options: MagicOptions, before: Module, after: Module) -> Iterator[object]:
    """Yield what the options ask to see, each as an object that notebooks show; texts are printed.

    Args:
        options: `views` counts.
        before: the module as it was given.
        after: the same after the passes.
    """
    for view in options.views:
        if view == "diff":
            yield before.diff(after)
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
        return "\n".join(line.plain for line in render(run(session)))
    finally:
        session.close()
