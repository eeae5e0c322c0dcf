"""Writes a reproducer when a pass fails, and applies the options of one that is read."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from hloc import driver
from hloc.cli.arguments import parse_arguments
from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.bisection import module_before_step
from hloc.opt.pass_base import Pass, PassContext
from hloc.opt.pipeline import PipelineObserver, text_of
from hloc.options import CompileOptions
from hloc.report.exits import UsageError
from hloc.report.repro_file import HEADER, repro_path, write_with_header

REPLAYED = (
    "passes",
    "opt_bisect_limit",
    "fast_math",
    "disable_rule",
    "verify_each",
    "check_each",
)
"""Options that a header may set: none of them reads or writes a file, or loads a plug-in."""


@dataclass(slots=True, eq=False)
class Recorder(PipelineObserver):
    """Records the running step and the module as it was read, for a reproducer.

    Attributes:
        original: the module before all passes.
        step, what: the step that is running or ran last; None before the first.
        rewrites: rewrites of the steps before.
    """

    original: Module
    context: PassContext
    step: int = 0
    what: Pass | None = None
    rewrites: int = 0

    def on_step_start(self, module: Module, number: int, what: Pass) -> None:
        """Record the step."""
        self.step, self.what, self.rewrites = number, what, self.context.rewrites


def write_reproducer(
    recorder: Recorder,
    options: CompileOptions,
    folder: str | None,
    checks: Sequence[str] = (),
    plugins: Sequence[str] = (),
) -> str:
    """Write the module before the step that failed and return the path of the file.

    Args:
        recorder: has the step.
        options: of the run that failed.
        folder: where the file goes; None creates a temporary folder.
        checks: those of `--verify-each` and `--check-each` that were on.
        plugins: files that the user must load, since the header cannot request it.

    Raises:
        HloError: the file cannot be written.
    """
    assert recorder.what is not None
    limit = recorder.context.rewrite_limit
    context, pipeline = driver.context_of(options), driver.pipeline_of(options)
    context.rewrite_limit = limit
    module = module_before_step(recorder.original, pipeline, context, recorder.step)
    done = recorder.context.rewrites - recorder.rewrites
    left = done + 1 if limit is None else min(done + 1, limit - recorder.rewrites)
    words = [f"--passes={text_of(recorder.what)}", f"--opt-bisect-limit={left}"]
    words += ["--fast-math"] if options.fast_math else []
    words += [f"--disable-rule={','.join(options.disabled_rules)}"] * bool(options.disabled_rules)
    words += checks
    return write_with_header(module, words, plugins, repro_path(module.name, folder))


def apply_header(arguments: Namespace, words: Sequence[str]) -> None:
    """Apply the options of a header.

    Raises:
        HloError: an option that a header may not set, or an invalid value.
    """
    try:
        found = parse_arguments("", words)
        default = parse_arguments("", ())
    except UsageError as fault:
        raise HloError(f"the line {HEADER!r} is wrong: {fault}") from None
    for name, value in vars(found).items():
        if value == getattr(default, name):
            continue
        if name not in REPLAYED:
            raise HloError(f"the line {HEADER!r} may not set {name.replace('_', '-')}")
        setattr(arguments, name, value)
