"""Options of the command line that choose passes, as the driver takes them."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass

from hloc import driver
from hloc.cli.exits import UsageError
from hloc.errors import HloError
from hloc.opt.pipeline import Pipeline
from hloc.opt.plugin import load_plugin
from hloc.options import CompileOptions


def compile_options(arguments: Namespace) -> CompileOptions:
    """Return the options of a compilation.

    Raises:
        UsageError: a target, processor or feature that there is not.
    """
    machine = _machine(arguments)
    return CompileOptions(
        opt_level=int(arguments.opt_level),
        target=machine.backend,
        triple=machine.triple,
        cpu=machine.cpu,
        features=machine.features,
        passes=arguments.passes or "",
        disabled_passes=arguments.disable_pass,
        disabled_rules=arguments.disable_rule,
        fill_constants=getattr(arguments, "fill_constants", "zeros"),
        fast_math=arguments.fast_math,
        memory_limit_bytes=getattr(arguments, "memory_limit", 0),
        verify_each=getattr(arguments, "verify_each", False),
    )


@dataclass(frozen=True, slots=True)
class _Machine:
    """Where code is to run, as `CompileOptions` names it."""

    backend: str = "cpu"
    triple: str = ""
    cpu: str = ""
    features: str = ""


def _machine(arguments: Namespace) -> _Machine:
    """Return the options that choose a backend and the machine it makes code for.

    Raises:
        UsageError: a target, processor or feature that there is not.
    """
    named = [getattr(arguments, name, "") for name in ("target", "mcpu", "mattr")]
    if not any(named):
        return _Machine()
    from hloc.codegen.backend import backend_names
    from hloc.codegen.target import target_for

    target, cpu, features = named
    backend = target if target in backend_names() else "cpu"
    triple = "" if target == backend else target
    if backend != "cpu":
        if cpu or features:
            raise UsageError(f"--mcpu and --mattr say nothing to target {backend}")
        return _Machine(backend)
    try:
        target_for(triple, cpu, features)
    except HloError as fault:
        raise UsageError("; ".join((fault.message, *fault.diagnostics[0].notes))) from None
    return _Machine(backend, triple, cpu, features)


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
