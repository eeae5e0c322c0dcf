"""Command-line options that choose target and passes, as options of the driver."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from hloc import driver
from hloc.cli.emit import LIBRARY_KINDS
from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass
from hloc.near_names import did_you_mean
from hloc.opt.pipeline import Pipeline
from hloc.opt.plugin import load_plugin
from hloc.options import CompileOptions
from hloc.report.exits import UsageError


def compile_options(arguments: Namespace) -> CompileOptions:
    """Return the options of a compilation.

    Raises:
        UsageError: an unknown target, processor or feature.
    """
    machine = _machine(arguments)
    simulator = getattr(arguments, "simulate", None) or ""
    _check_simulator(machine.backend, simulator)
    _check_engine(machine.backend, getattr(arguments, "engine", ""))
    autotune = getattr(arguments, "autotune", False)
    if autotune:
        _check_autotune(machine, simulator)
    libraries = getattr(arguments, "use_library", ())
    _check_libraries(machine.backend, libraries)
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
        flush_subnormals=getattr(arguments, "flush_subnormals", False),
        threads=getattr(arguments, "threads", 0),
        memory_limit_bytes=getattr(arguments, "memory_limit", 0),
        verify_each=getattr(arguments, "verify_each", False),
        simulate=simulator,
        autotune=autotune,
        use_library=libraries,
        standalone=_makes_library(arguments),
        fast_collectives=getattr(arguments, "fast_collectives", False) and machine.backend != "cpu",
    )


def _makes_library(arguments: Namespace) -> bool:
    """True if the output is linked into another program."""
    asked = any(getattr(arguments, option, False) for option in ("compile_only", "shared"))
    return asked or bool(LIBRARY_KINDS.intersection(getattr(arguments, "emit", ())))


def _check_simulator(backend: str, simulator: str) -> None:
    """Raise UsageError if `--simulate` cannot run code for `backend`."""
    if simulator and backend == "cpu":
        raise UsageError("--simulate needs a GPU target such as --target=nvptx64")
    if simulator == "ptx" and backend == "amdgcn":
        raise UsageError("--simulate=ptx needs --target=nvptx64; use --simulate=host")


def _check_autotune(machine: _Machine, simulator: str) -> None:
    """Raise UsageError if kernels of the target cannot be measured here."""
    from hloc.codegen.llvm.target import target_for

    if machine.backend == "cpu":
        can_measure = target_for(machine.triple, machine.cpu, machine.features).is_host
    else:
        can_measure = machine.backend == "nvptx64" and not simulator
    if not can_measure:
        raise UsageError(
            "--autotune measures kernels: it needs a processor whose code this machine runs, or an "
            "NVIDIA GPU (--target=nvptx64 without --simulate)"
        )


def _check_engine(backend: str, engine: str) -> None:
    """Raise UsageError if `engine` does not support the devices of the target."""
    if engine == "nccl" and backend == "cpu":
        raise UsageError("--engine=nccl is for GPUs: it needs a target such as --target=nvptx64")
    if engine in ("local", "mpi") and backend in ("nvptx64", "amdgcn"):
        raise UsageError(f"--engine={engine} is for the target cpu; GPUs exchange data by NCCL")


@dataclass(frozen=True, slots=True)
class _Machine:
    """The machine to compile for, in the terms of `CompileOptions`."""

    backend: str = "cpu"
    triple: str = ""
    cpu: str = ""
    features: str = ""


def _machine(arguments: Namespace) -> _Machine:
    """Return the options that choose a backend and its machine.

    Raises:
        UsageError: an unknown target, processor or feature.
    """
    named = [getattr(arguments, name, "") for name in ("target", "mcpu", "mattr")]
    if not any(named):
        return _Machine()
    from hloc.codegen.backend import backend_for, takes_cpu
    from hloc.codegen.backend_names import backend_names
    from hloc.codegen.llvm.target import target_for

    target, cpu, features = named
    backend = target if target in backend_names() else "cpu"
    triple = "" if target == backend else target
    if backend != "cpu":
        if (cpu or features) and not takes_cpu(backend_for(backend)):
            raise UsageError(f"--mcpu and --mattr have no effect on target {backend}")
        return _Machine(backend, cpu=cpu, features=features)
    try:
        if "," in cpu:
            cpu = _lowest_of(cpu.split(","), features)
        target_for(triple, cpu, features)
    except HloError as fault:
        notes = fault.diagnostics[0].notes
        near = did_you_mean(target, backend_names()) if target else ""
        raise UsageError("; ".join((fault.message, *notes)) + near) from None
    return _Machine(backend, triple, cpu, features)


def _lowest_of(processors: Sequence[str], features: str) -> str:
    """Return the processor whose code all others of `processors` can run.

    Raises:
        UsageError: features are given too, without saying for which processor.
        HloError: processors between which an object cannot dispatch.
    """
    from hloc.codegen.cpu.aot.variants import levels_of

    if features:
        raise UsageError("--mattr needs a single processor, but --mcpu names several")
    return levels_of(processors)[0]


def _check_libraries(backend: str, libraries: Sequence[str]) -> None:
    """Raise UsageError for libraries that a backend does not support."""
    if not libraries:
        return
    from hloc.codegen.backend import backend_for, check_libraries

    try:
        check_libraries(backend_for(backend), libraries)
    except HloError as fault:
        raise UsageError(f"--use-library: {fault.message}") from None


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
