"""`hloc FILE...` and `hloc run FILE`: read, optimise, emit, run, compare."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from hloc import driver
from hloc.cli.compare import Bounds, compare
from hloc.cli.emit import write_products
from hloc.cli.exits import Exit, UsageError
from hloc.cli.guard import guarded
from hloc.cli.inputs import (
    load_arrays,
    parameter_leaves,
    random_inputs,
    result_leaves,
    save_arrays,
)
from hloc.cli.pass_report import PassReport, VerifyEach, names_of, pass_table
from hloc.cli.run_report import comparison_text, output_lines, run_executable, run_line
from hloc.cli.source_input import need_files, read_snapshots, shown_name
from hloc.cli.suggest import did_you_mean
from hloc.cli.talk import Talk
from hloc.cli.text import count_text, plural
from hloc.errors import HloError
from hloc.formats.snapshot import Snapshot, fitting_arrays
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.opt.pipeline import PipelineObserver
from hloc.options import CompileOptions

if TYPE_CHECKING:
    from hloc.codegen.backend import CompiledModule
    from hloc.runtime.executable import Executable

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
_T = TypeVar("_T")
_R = TypeVar("_R")
COMPARE_WORDS = ("interp", "O0")


def run_files(arguments: Namespace, talk: Talk) -> int:
    """`hloc run FILE...`."""
    arguments.run, arguments.emit, arguments.output_file = True, (), None
    arguments.style = "default"
    return compile_files(arguments, talk)


def compile_files(arguments: Namespace, talk: Talk) -> int:
    """`hloc FILE...`: one after the other; the highest exit code counts."""
    files = need_files(arguments.files)
    _check(arguments)
    options = CompileOptions(
        opt_level=int(arguments.opt_level),
        passes=arguments.passes or "",
        disabled_passes=arguments.disable_pass,
        disabled_rules=arguments.disable_rule,
        fill_constants=arguments.fill_constants,
        verify_each=arguments.verify_each,
    )
    _check_names(options, arguments.print_after)
    return max(
        guarded(talk, lambda name=name: _Job(name, arguments, options, talk).run())  # type: ignore[misc]
        for name in files
    )


def _check(arguments: Namespace) -> None:
    """Raise UsageError for options that do not go together."""
    if not arguments.run:
        for option in ("inputs", "output", "compare_with", "random", "repeat", "print_output"):
            if getattr(arguments, option) is not None:
                raise UsageError(f"--{option.replace('_', '-')} needs --run")
    if arguments.random is not None and arguments.inputs:
        raise UsageError("--random and --inputs exclude each other")
    if len(arguments.files) > 1 and (arguments.output_file or arguments.output):
        raise UsageError("an output file needs a single input file")
    other = arguments.compare_with
    if other and other not in (*COMPARE_WORDS, "snapshot") and not other.endswith(".npz"):
        raise UsageError(
            f"--compare-with: expected interp, O0, snapshot or FILE.npz, found {other!r}"
        )


def _check_names(options: CompileOptions, print_after: Sequence[str]) -> None:
    """Raise UsageError for a pass or rule that does not exist, before any file is read."""
    try:
        pipeline = driver.pipeline_of(options)
        driver.context_of(options)
    except HloError as fault:
        raise UsageError("; ".join((fault.message, *fault.diagnostics[0].notes))) from None
    names = [name for what in pipeline.passes for name in names_of(what)]
    for pattern in print_after:
        if not any(fnmatchcase(name, pattern) for name in names):
            hint = did_you_mean(pattern, names)
            raise UsageError(f"--print-after: no pass that runs is called {pattern!r}{hint}")


@dataclass(slots=True)
class _Job:
    """One file on its way: the steps share its module, options and streams."""

    name: str
    arguments: Namespace
    options: CompileOptions
    talk: Talk
    _stages: list[tuple[str, float]] = field(default_factory=list)
    _snapshot: Snapshot | None = None

    def run(self) -> int:
        """Read, optimise, emit, run every module of the file; return the highest exit code."""
        snapshots = read_snapshots(self.name)
        if len(snapshots) > 1 and (self.arguments.output_file or self.arguments.output):
            raise UsageError("an output file needs a file with a single module")
        return max(self._run(snapshot) for snapshot in snapshots)

    def _run(self, snapshot: Snapshot) -> int:
        a = self.arguments
        module, self._snapshot = snapshot.module, snapshot
        self._summary(module)
        inputs = self._inputs(module) if a.run else []
        kept = clone_module(module) if a.compare_with in COMPARE_WORDS else module
        report = self._optimise(module)
        emit = a.emit or (() if a.run else ("hlo",))
        lowered = a.run or set(emit) - {"hlo"}
        compiled = self._timed("code generation", self._generate, module) if lowered else None
        executable = None
        if a.run and compiled is not None:
            executable = self._timed("llvm", driver.load_compiled, compiled)
        if a.time_passes:
            self.talk.say("\n".join(pass_table(report.entries, self._stages)))
        if emit:
            write_products(emit, module, compiled, a.output_file, a.style, self.talk)
        return Exit.OK if executable is None else self._execute(kept, executable, inputs)

    def _summary(self, module: Module) -> None:
        flops = driver.flops_of(module)
        self.talk.say(
            f"{shown_name(self.name)}: module {module.name}"
            f"  {plural(module.instruction_count, 'instruction')}"
            f" / {plural(len(module.computations), 'computation')}"
            + (f"   {count_text(flops, 'FLOP')}" if flops else "")
        )

    def _optimise(self, module: Module) -> PassReport:
        a = self.arguments
        context = driver.context_of(self.options)
        report = PassReport(self.talk, context, a.print_changed or "", a.print_after, a.style)
        observers: list[PipelineObserver] = [report]
        if self.options.verify_each:
            observers.append(VerifyEach())
        driver.optimise(module, self.options, observers, context)
        for warning in context.warnings:
            self.talk.warn(warning)
        return report

    def _generate(self, module: Module) -> CompiledModule:
        return driver.generate(clone_module(module), self.options)

    def _timed(self, stage: str, action: Callable[[_T], _R], argument: _T) -> _R:
        """Do `action`, and note how long it took."""
        started = time.perf_counter()
        result = action(argument)
        self._stages.append((stage, time.perf_counter() - started))
        return result

    # ---- run

    def _execute(self, module: Module, executable: Executable, inputs: list[Array]) -> int:
        a = self.arguments
        shapes = result_leaves(module)
        repeat = 1 if a.repeat is None and self.talk.quiet else a.repeat
        outputs, timing = run_executable(executable, inputs, repeat)
        self.talk.say(run_line(shapes, timing, driver.flops_of(module)))
        if a.output:
            save_arrays(a.output, "out", outputs, shapes)
        if a.print_output is not None or not (a.output or a.emit):
            for line in output_lines(outputs, shapes, a.print_output):
                self.talk.product(line)
        other = a.compare_with or self._stored_result(a)
        return self._compare(module, inputs, outputs, other) if other else Exit.OK

    def _stored_result(self, a: Namespace) -> str:
        """Return `snapshot` if the file has the result of the run that was just repeated."""
        stored = self._snapshot is not None and self._snapshot.result is not None
        return "snapshot" if stored and not a.inputs and a.random is None else ""

    def _inputs(self, module: Module) -> list[Array]:
        a = self.arguments
        if a.inputs:
            return load_arrays(a.inputs, "arg", parameter_leaves(module))
        if a.random is None and self._snapshot is not None and self._snapshot.arguments:
            self.talk.say("inputs from the snapshot")
            return fitting_arrays(self._snapshot.arguments, parameter_leaves(module), "argument")
        if a.random is None and parameter_leaves(module):
            self.talk.say("no inputs given: random, seed 0")
        return random_inputs(module, a.random or 0)

    def _compare(
        self, module: Module, inputs: list[Array], outputs: list[Array], other: str
    ) -> int:
        a, paint = self.arguments, self.talk.paint
        want = self._wanted(module, inputs, other)
        found = compare(outputs, want, Bounds(a.rtol, a.atol))
        verdict = paint.good("OK") if found.ok else paint.bad("FAILED")
        self.talk.say(f"compare with {other}: {verdict}  {comparison_text(found)}")
        return Exit.OK if found.ok else Exit.FAULT

    def _wanted(self, module: Module, inputs: list[Array], other: str) -> list[Array]:
        """Return the results to compare with."""
        fill = self.options.fill_constants
        if other == "interp":
            return driver.evaluate(module, *inputs, fill_constants=fill)
        if other == "O0":
            plain = CompileOptions(opt_level=0, fill_constants=fill)
            return run_executable(driver.compile_module(module, plain), inputs, 1)[0]
        if other == "snapshot":
            if self._snapshot is None or self._snapshot.result is None:
                raise HloError(f"{shown_name(self.name)} has no stored result to compare with")
            return fitting_arrays([self._snapshot.result], result_leaves(module), "result")
        return load_arrays(other, "out", result_leaves(module))
