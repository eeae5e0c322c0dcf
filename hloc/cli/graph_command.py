"""`hloc graph FILE`: a module, or a part of it, as a picture."""

from __future__ import annotations

import os
from argparse import Namespace

from hloc.cli.talk import Talk
from hloc.errors import printable
from hloc.ir.module import Module
from hloc.output_file import write_form
from hloc.pictures.graph import FORMS, draw
from hloc.pictures.model_explorer import model_explorer
from hloc.pictures.places import BOXES_AT_START
from hloc.pictures.selection import Picked, between, picked
from hloc.report.exits import Exit, UsageError
from hloc.report.source_input import read_module, shown_name
from hloc.report.text import plural


def graph_file(arguments: Namespace, talk: Talk) -> int:
    """`hloc graph FILE [%NAME] [--radius=N] [--diff=BEFORE] -o OUT`."""
    a = arguments
    path = a.output_file or ""
    for_explorer = a.format == "model-explorer" or (not a.format and path.endswith(".json"))
    if not path or not (a.format or path.lower().endswith((*FORMS, ".json"))):
        raise UsageError(f"expected -o with a file that ends in one of {', '.join(FORMS)}, .json")
    if for_explorer and (a.diff or a.boxes is not None):
        raise UsageError("--diff and --boxes are for pictures, not for Model Explorer")
    file, *names = a.files or [""]
    if not file:
        raise UsageError("no input file")
    _check(a, names)
    module = read_module(file)
    before = read_module(a.diff) if a.diff else None
    what = _picked(module, names, a)
    if for_explorer:
        write_form(path, model_explorer(what))
    else:
        form = f".{a.format}" if a.format else os.path.splitext(path)[1].lower()
        boxes = BOXES_AT_START if a.boxes is None else a.boxes
        write_form(path, FORMS[form](draw(what, before=before), boxes))
    members = what.members
    count = len(what.computation) if members is None else len(members)
    talk.say(
        f"{shown_name(file)}: {printable(what.computation.name)}, "
        f"{plural(count, 'instruction')}, in {printable(path)}"
    )
    return Exit.OK


def _check(a: Namespace, names: list[str]) -> None:
    """Raise UsageError for names and options that contradict each other."""
    if a.paths and len(names) != 2:
        raise UsageError(f"--paths: expected two instructions, found {len(names)}")
    if not a.paths and len(names) > 1:
        raise UsageError(f"expected a file and at most one name, found {len(names)} names")
    if a.backward and a.forward:
        raise UsageError("--backward and --forward exclude each other")
    needing = {
        "--radius": a.radius is not None,
        "--until": bool(a.until),
        "--backward": a.backward,
        "--forward": a.forward,
    }
    for option, given in needing.items():
        if given and (a.paths or not names):
            raise UsageError(f"{option} needs the name of one instruction: FILE %NAME")


def _picked(module: Module, names: list[str], a: Namespace) -> Picked:
    if a.paths:
        return between(module, *names)
    direction = "backward" if a.backward else "forward" if a.forward else ""
    radius = 2 if a.radius is None else a.radius
    name = names[0] if names else None
    return picked(module, name, radius=radius, until=a.until, direction=direction)
