"""The outputs of a compilation: texts of every stage, to stdout or to files."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hloc.cli.talk import Talk
from hloc.ir.module import Module
from hloc.output_file import write_form
from hloc.report.exits import UsageError

if TYPE_CHECKING:
    from hloc.codegen.backend import CompiledModule

EXTENSIONS = {
    "hlo": ".hlo",
    "llvm-ir": ".ll",
    "llvm-ir-opt": ".opt.ll",
    "asm": ".s",
    "schedule": ".schedule.txt",
    "buffers": ".buffers.txt",
    "obj": ".o",
    "header": ".h",
    "shared": ".so",
    "exe": "",
    "html": ".html",
    "svg": ".svg",
    "dot": ".dot",
}
"""Kind -> ending of its file when several kinds go to one `-o`."""

PICTURES = frozenset({"html", "svg", "dot"})
"""Kinds that draw the optimised module, as `hloc graph` does."""

LIBRARY_KINDS = frozenset({"obj", "header", "shared", "exe"})
"""Kinds that `hloc/cli/aot_command.py` writes."""

STAGES = {"schedule": "hlo"}
"""Kind -> stage of the backend, where the names differ."""


def check_kinds(kinds: Sequence[str], target: str) -> None:
    """Raise `UsageError` for a stage that the backend `target` does not have."""
    stages = [kind for kind in kinds if kind not in {"hlo", *PICTURES, *LIBRARY_KINDS}]
    if not stages:
        return
    from hloc.codegen.backend import backend_for

    known = [stage.name for stage in backend_for(target).stages]
    for kind in stages:
        if STAGES.get(kind, kind) not in known:
            raise UsageError(
                f"--emit: target {target} has no stage {kind!r}; its stages are {', '.join(known)}"
            )


def text_options(arguments: Namespace) -> dict[str, str]:
    """Return the arguments of `Module.to_text` that the command line asks for."""
    return {"style": arguments.style, "tuple_style": arguments.tuple_style}


def write_products(
    kinds: Sequence[str],
    module: Module,
    compiled: CompiledModule | None,
    path: str | None,
    text: dict[str, str],
    talk: Talk,
) -> None:
    """Write the texts of `kinds`; with several and a path, FILE.hlo, FILE.ll ...

    `text` is what `text_options` returns.
    Kinds of libraries count towards the number of outputs, but are written elsewhere.

    Raises:
        HloError: a file cannot be written.
    """
    for kind in (kind for kind in kinds if kind not in LIBRARY_KINDS):
        form = _form(kind, module, compiled, text)
        target = path
        if path not in (None, "-") and len(kinds) > 1:
            target = os.path.splitext(str(path))[0] + _ending(kind, compiled)
        deliver(form, target, talk)


def _form(
    kind: str, module: Module, compiled: CompiledModule | None, text: dict[str, str]
) -> str | bytes:
    if kind == "hlo":
        return module.to_text(**text, large_constants=True)
    if kind in PICTURES:
        from hloc.pictures.graph import drawing

        return drawing(module.entry, kind)
    assert compiled is not None
    return compiled.stage(STAGES.get(kind, kind))


def _ending(kind: str, compiled: CompiledModule | None) -> str:
    """Return the ending of a file of `kind`; stages of other backends define their own."""
    if kind in EXTENSIONS:
        return EXTENSIONS[kind]
    assert compiled is not None
    return next(stage.suffix for stage in compiled.stages if stage.name == kind)


def deliver_module(module: Module, arguments: Namespace, talk: Talk) -> None:
    """Write `module` in the style of the options, to the file of `-o` or to stdout."""
    text = module.to_text(**text_options(arguments), large_constants=True)
    deliver(text, arguments.output_file, talk)


def deliver(form: str | bytes, path: str | None, talk: Talk) -> None:
    """Write a text or bytes to the file `path`, or to stdout if there is none or it is `-`.

    Raises:
        HloError: the file cannot be written.
    """
    if path in (None, "", "-"):
        talk.product(form)
    else:
        write_form(path, form)
