"""Write a graph: interactive HTML, SVG, or Graphviz text."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

from hloc.analysis.diff.module_diff import ModuleDiff
from hloc.errors import HloError, printable
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.output_file import write_form
from hloc.pictures.changes import changes_between
from hloc.pictures.dot import dot
from hloc.pictures.page import page
from hloc.pictures.places import BOXES_AT_START
from hloc.pictures.scene import Scene, scene_of
from hloc.pictures.selection import Picked, picked
from hloc.pictures.svg import svg

FORMS: dict[str, Callable[[Scene, int], str]] = {".html": page, ".svg": svg, ".dot": dot}
"""File extension -> its writer."""


def write(
    module: Module,
    path: str,
    *,
    around: str | None = None,
    radius: int = 2,
    before: Module | None = None,
    diff: ModuleDiff | None = None,
) -> Scene:
    """Draw a module, or a part of it, into the file `path`.

    Args:
        module: the module to draw; it is not changed.
        path: a file name that ends in .html, .svg or .dot.
        around: the name of an instruction, to draw its neighbourhood, or of a computation.
        radius: size of the neighbourhood in steps along operands and users.
        before: an earlier module; changes are marked, removed instructions dashed.
        diff: the diff from `before`, if both are states of one module and share uids.

    Returns:
        What was drawn.

    Raises:
        HloError: nothing is called `around`, or the file has another extension or cannot be
            written.
    """
    what = picked(module, around, radius=radius)
    scene = draw(what, before=before, diff=diff)
    write_scene(scene, path)
    return scene


def drawing(computation: Computation, form: str) -> str:
    """Return the text of a picture of a computation; `form` is html, svg or dot."""
    return FORMS[f".{form}"](scene_of(computation), BOXES_AT_START)


def draw(what: Picked, *, before: Module | None = None, diff: ModuleDiff | None = None) -> Scene:
    """Return the scene of the selection, with the differences from `before` marked."""
    computation: Computation = what.computation
    members: Collection[Instruction] | None = what.members
    changes = changes_between(before, computation.module, diff) if before is not None else None
    return scene_of(computation, members, changes)


def write_scene(scene: Scene, path: str) -> None:
    """Write `scene` in the format given by the extension of `path`.

    Raises:
        HloError: the extension is unknown, or the file cannot be written.
    """
    ending = os.path.splitext(path)[1].lower()
    if ending not in FORMS:
        known = ", ".join(FORMS)
        raise HloError(f"expected a file that ends in one of {known}, found {printable(path)!r}")
    write_form(path, FORMS[ending](scene, BOXES_AT_START))
