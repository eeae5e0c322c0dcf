"""`--resume-from=DIR/STEP`: resumes the pipeline after the pass of a step of `--dump-dir`."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from hloc.cli.watching.dump_dir import INPUT, MANIFEST, RESUMED
from hloc.errors import HloError, printable, reason_of
from hloc.near_names import near_name_notes
from hloc.opt.pipeline import Fixpoint, Pipeline, text_of
from hloc.report.exits import UsageError


def resume(arguments: Namespace) -> str:
    """Set file, pipeline and options of `arguments` from the dump.

    Returns:
        A description of what is resumed, with the rest of the pipeline.

    Raises:
        UsageError: a file or a pipeline is named as well.
        HloError: no such step, or its folder has no manifest.
    """
    if arguments.files or arguments.passes:
        raise UsageError("--resume-from needs no FILE and no --passes: the dump has both")
    folder, name = os.path.split(arguments.resume_from)
    manifest = _manifest(folder)
    try:
        passes = Pipeline.parse(manifest["pipeline"]).passes
        step = _step(manifest["steps"], name)
        left = _remaining_passes(passes, step)
        options: Mapping[str, Any] = manifest["options"]
        file = INPUT if step is None else step["file"]
    except (KeyError, TypeError, IndexError):
        note = ("dump again with --dump-dir",)
        raise HloError(f"{printable(folder)}/{MANIFEST} is of another form", notes=note) from None
    for option in RESUMED:
        if not getattr(arguments, option) or option == "opt_level":
            value = options[option]
            setattr(arguments, option, tuple(value) if isinstance(value, list) else value)
    arguments.files = [os.path.join(folder, file)]
    arguments.passes = left or "fixpoint()"  # "" would be the passes of the level
    after = "the input" if step is None else step["text"]
    return f"resuming after {after}: {left.replace(',', ', ') or 'no pass'}"


def _manifest(folder: str) -> dict[str, Any]:
    path = os.path.join(folder, MANIFEST)
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except OSError as fault:
        raise HloError(
            f"cannot read {printable(path)}: {reason_of(fault)}",
            notes=("--resume-from=DIR/STEP takes a file of a folder that --dump-dir wrote",),
        ) from None
    except ValueError as fault:
        raise HloError(f"cannot read {printable(path)}: {fault}") from None
    return found if isinstance(found, dict) else {}


def _step(steps: Sequence[dict[str, Any]], name: str) -> dict[str, Any] | None:
    """Return the step whose file is `name` (`07-cse.hlo`, `07-cse` or `7`), None for the input."""
    files = {INPUT: None, **{step["file"]: step for step in steps if "file" in step}}
    for file, step in files.items():
        number = file.partition("-")[0]
        if name in (file, file.removesuffix(".hlo"), number, number.lstrip("0") or "0"):
            return step
    notes = near_name_notes(name, list(files)) or (f"it has {', '.join(list(files)[:6])} ...",)
    raise HloError(f"the dump has no step {printable(name)!r}", notes=notes)


def _remaining_passes(passes: Sequence[Any], step: dict[str, Any] | None) -> str:
    """Return the passes after `step`: the rest of its round, its fixpoint again, and the rest."""
    if step is None:
        return ",".join(map(text_of, passes))
    number, inner = step["pipeline"]
    here = passes[number]
    left = list(passes[number + 1 :])
    if isinstance(here, Fixpoint):
        is_flat = not any(isinstance(p, Fixpoint) for p in here.passes)
        rest = here.passes[inner % len(here.passes) + 1 :] if is_flat else ()
        left = [*rest, here, *left]
    return ",".join(map(text_of, left))
