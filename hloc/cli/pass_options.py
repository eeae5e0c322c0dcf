"""Options of the command line that choose passes, as the driver takes them."""

from __future__ import annotations

from argparse import Namespace

from hloc import driver
from hloc.cli.exits import UsageError
from hloc.errors import HloError
from hloc.opt.pipeline import Pipeline
from hloc.opt.plugin import load_plugin
from hloc.options import CompileOptions


def compile_options(arguments: Namespace) -> CompileOptions:
    """Return the options of a compilation."""
    return CompileOptions(
        opt_level=int(arguments.opt_level),
        passes=arguments.passes or "",
        disabled_passes=arguments.disable_pass,
        disabled_rules=arguments.disable_rule,
        fill_constants=getattr(arguments, "fill_constants", "zeros"),
        fast_math=arguments.fast_math,
        memory_limit_bytes=getattr(arguments, "memory_limit", 0),
        verify_each=getattr(arguments, "verify_each", False),
    )


def load_plugins(arguments: Namespace) -> None:
    """Load the plug-ins of `--plugin`.

    Raises:
        HloError: one cannot be read, or fails.
    """
    for path in arguments.plugin:
        load_plugin(path)


def checked_pipeline(options: CompileOptions) -> Pipeline:
    """Return the pipeline of `options`.

    Raises:
        UsageError: a pass or rule that does not exist.
    """
    try:
        driver.context_of(options)
        return driver.pipeline_of(options)
    except HloError as fault:
        raise UsageError("; ".join((fault.message, *fault.diagnostics[0].notes))) from None
