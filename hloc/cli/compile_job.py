"""The compilation of one file: read, optimise, emit, run, compare."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import field
from math import prod
from typing import TYPE_CHECKING, Any

from hloc import driver
from hloc.cli.aot_command import implied_kinds, write_library
from hloc.cli.compare_with_xla import results_of_xla
from hloc.cli.emit import LIBRARY_KINDS, PICTURES, text_options, write_products
from hloc.cli.exchange_report import exchange_lines
from hloc.cli.input_options import inputs_of
from hloc.cli.kept_run import only_runs
from hloc.cli.memory_option import show_memory
from hloc.cli.process_job import ProcessJob
from hloc.cli.profile_report import cpu_profile, profile_lines
from hloc.cli.run_outcome import Outcome, runs_to_time, tell_outcome
from hloc.cli.talk import Talk
from hloc.cli.tuning_report import show_tuning
from hloc.cli.watching.pass_table import StageTime, show_times
from hloc.cli.watching.watched_passes import WatchedPasses
from hloc.dtypes import Array
from hloc.errors import HloError
from hloc.formats.snapshot import Snapshot, fitting_arrays
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.options import CompileOptions
from hloc.quantities import size_text
from hloc.report.compare import Bounds, compare
from hloc.report.device_task import DeviceTask, device_task
from hloc.report.exits import Exit, UsageError
from hloc.report.inputs import (
    load_arrays,
    parameter_leaves,
    result_leaves,
)
from hloc.report.interpreter import Interpreter
from hloc.report.kernel_times import kernel_data, kernel_lines
from hloc.report.module_facts import facts_of, headline
from hloc.report.progress import Progress
from hloc.report.run_data import comparison_data
from hloc.report.run_report import (
    Timing,
    comparison_text,
    run_executable,
)
from hloc.report.source_input import read_snapshots, shown_name
from hloc.report.text import plural

if TYPE_CHECKING:
    from hloc.codegen.backend import CompiledModule
    from hloc.runtime.loading import Runnable


@dataclass(slots=True)
class CompileJob:
    """The compilation of one file: its steps share module, options and streams."""

    name: str
    arguments: Namespace
    options: CompileOptions
    talk: Talk
    progress: Progress
    processes: ProcessJob | None = None
    _read: StageTime = StageTime("parse and verify", 0.0)
    _stages: list[StageTime] = field(default_factory=list)
    _snapshot: Snapshot | None = None
    _task: DeviceTask | None = None
    _flops: int = 0

    def run(self) -> int:
        """Read, optimise, emit, run every module of the file; return the highest exit code."""
        started = time.perf_counter()
        snapshots = read_snapshots(self.name)
        self._read = StageTime("parse and verify", time.perf_counter() - started)
        a = self.arguments
        if len(snapshots) > 1 and (a.output_file or a.output or a.dump_dir):
            raise UsageError("an output file or folder needs a file with a single module")
        return max(self._run(snapshot) for snapshot in snapshots)

    def _run(self, snapshot: Snapshot) -> int:
        """Run the steps that the options ask for, in this order, and return the exit code.

        Inputs are made first, from the module as written. It is kept for `--compare-with`, since
        passes change a module in place. What is measured runs within `progress.running`, reports
        come after it.
        """
        a = self.arguments
        self.talk.begin_data()
        module, self._snapshot = snapshot.module, snapshot
        self._summary(module)
        self._task = self._device_task(module) if a.run else None
        inputs = self._inputs(module) if a.run else []
        if self._task is not None:
            module = self._task.module
        if a.run and a.backend == "interp":
            interpreter = Interpreter(module, self.options.fill_constants)
            return self._execute(module, interpreter, inputs, module)
        kept = clone_module(module) if a.compare_with else module
        passes = WatchedPasses(a, self.options, self.talk, self.progress)
        differs: int = Exit.OK
        if only_runs(a):
            with self.progress.running():
                program = self._kept_or_compiled(module, passes)
            return self._execute(kept, program, inputs, module)
        with self.progress.running():
            passes.run(module)
            told = a.run or a.memory is not None or a.autotune
            if a.compare_each:
                from hloc.cli.compare_each import compare_each

                differs = compare_each(module, inputs, Bounds(a.rtol, a.atol), self.talk)
            library = implied_kinds(a)
            is_data = a.time_passes in ("json", "trace") or a.format == "json"
            is_hidden = self._is_hidden()
            silent = bool(library) or ((told or is_data or is_hidden) and not a.output_file)
            emit = a.emit or (() if silent else ("hlo",))
            emit = tuple(dict.fromkeys((*emit, *library)))
            compiled = self._generate(module) if told or set(emit) - {"hlo", *PICTURES} else None
            executable = self._load(compiled) if a.run and compiled is not None else None
        if passes.times is not None:
            show_times(passes.times, a.time_passes, self._read, self._stages, self.talk)
        if a.autotune and self.options.target == "cpu":
            show_tuning(compiled, self.talk)
        if a.memory is not None:
            show_memory(compiled, a.memory, self.talk)
        if set(emit) & LIBRARY_KINDS:
            write_library(emit, compiled, a, self.name, self.talk)
        if emit:
            write_products(emit, module, compiled, a.output_file, text_options(a), self.talk)
        if is_hidden and not (emit or told or is_data):
            self.talk.say("(the module is not printed after a report; -o - prints it)")
        if executable is None:
            return Exit.OK
        return max(differs, self._execute(kept, executable, inputs, module))

    def _is_hidden(self) -> bool:
        """Return whether the module would push a report off the terminal."""
        a, talk = self.arguments, self.talk
        reports = (a.print_changed, a.remarks, a.time_passes, a.check_each, a.dump_dir)
        return any(reports) and not talk.quiet and talk.out.isatty() and talk.err.isatty()

    def _device_task(self, module: Module) -> DeviceTask | None:
        """Return how the module runs on several devices, None on one."""
        a = self.arguments
        sizes = [size for _, size in a.mesh]
        devices = a.devices or (prod(sizes) if sizes else 0)
        if sizes and prod(sizes) != devices:
            raise UsageError(f"--devices={devices} is not the {prod(sizes)} devices of --mesh")
        if self.processes is not None:
            self.processes.agree(module, self.options, a)
            devices = self.processes.devices(module, devices)
        return device_task(module, devices, per_device=a.per_device)

    def _kept_or_compiled(self, module: Module, passes: WatchedPasses) -> Runnable:
        """Return the program of an earlier run of the same text; else compile it."""

        def compiled() -> CompiledModule:
            passes.run(module)
            return self._generate(module)

        span = module.entry.root.span
        if span is None:  # not read from text
            return self._load(compiled())
        text = span.source.text
        if self._task is None:
            note = facts_of(module).to_text()
            return driver.kept_or_compiled(text, self.options, compiled, note)
        text += f"\n// {self._task.devices} devices"  # the task may have derived the number itself
        return driver.kept_or_compiled(text, self.options, compiled)

    def _summary(self, module: Module) -> None:
        self._flops = flops = driver.flops_of(module)  # of the module as given, in all reports
        line = f"{shown_name(self.name)}: {headline(module, flops)}"
        counts = {
            "instructions": module.instruction_count,
            "computations": len(module.computations),
            "flops": flops,
        }
        data = {"file": shown_name(self.name), "name": module.name, **counts}
        self.talk.report("module", [line], data)

    def _generate(self, module: Module) -> CompiledModule:
        self.progress.begin("code generation")
        started = time.perf_counter()
        compiled = driver.generate(clone_module(module), self.options)
        seconds = time.perf_counter() - started
        assignment: float = getattr(compiled, "assignment_seconds", 0.0)
        if assignment:
            note = _buffers_text(compiled)
            end = started + assignment
            self._stages.append(StageTime("buffer-assignment", assignment, note, end))
        self._stages.append(StageTime("code generation", seconds - assignment))
        return compiled

    def _load(self, compiled: CompiledModule) -> Runnable:
        self.progress.begin("LLVM")
        started = time.perf_counter()
        executable = driver.load_compiled(compiled)
        seconds = time.perf_counter() - started
        self._stages.append(StageTime("llvm", seconds, _code_text(compiled)))
        return executable

    # ---- run

    def _execute(
        self, module: Module, executable: Runnable, inputs: list[Array], optimised: Module
    ) -> int:
        """Run and time a program, report, and compare; `module` is what it was compiled from.

        Of several processes, one reports.
        """
        a = self.arguments
        task = self._task
        shapes = result_leaves(module) if task is None else task.output_shapes
        outputs, timing = self._timed(executable, inputs, runs_to_time(a, self.talk))
        if self.processes is not None and not self.processes.speaks:
            if a.compare_with == "O0":  # computed by every process
                self._wanted(module, inputs, a.compare_with)
            return Exit.OK
        outcome = Outcome(
            outputs,
            timing,
            shapes,
            self._flops if task is None else 0,
            getattr(executable, "threads", 1),  # programs of other targets may lack it
            devices=1 if task is None else task.devices,
            stacked=() if task is None else task.stacked_outputs,
        )
        tell_outcome(outcome, a, self.talk, self._profile(optimised, executable, inputs))
        other = a.compare_with or self._stored_result()
        return self._compare(module, inputs, outputs, other) if other else Exit.OK

    def _profile(
        self, optimised: Module, executable: Runnable, inputs: list[Array]
    ) -> tuple[Sequence[str], object] | None:
        """Return the lines of `--profile` and its JSON data, None without the option."""
        if not self.arguments.profile:
            return None
        if self._task is None and self.options.target == "cpu":
            found = cpu_profile(optimised, self.options)
            return kernel_lines(*found), kernel_data(*found)
        lines = (
            profile_lines(executable, inputs) if self._task is None else exchange_lines(executable)
        )
        return lines, {"lines": lines}

    def _timed(
        self, executable: Runnable, inputs: list[Array], repeat: int | None
    ) -> tuple[list[Array], Timing]:
        """Run and time; sharding the arguments and joining the results are not timed."""
        task = self._task
        if task is None:
            return run_executable(executable, inputs, repeat)
        if self.processes is not None:
            return self.processes.run(task, executable, inputs, repeat)
        program, parts = task.program(executable), task.parts(inputs)
        results, timing = run_executable(lambda: program(parts), (), repeat)
        return task.outputs(results), timing

    def _stored_result(self) -> str:
        """Return `snapshot` if the file has a result for the inputs of this run."""
        stored = self._snapshot is not None and self._snapshot.result is not None
        return "snapshot" if stored and not self._chooses_inputs else ""

    def _inputs(self, module: Module) -> list[Array]:
        a, task = self.arguments, self._task
        shapes = parameter_leaves(module) if task is None else task.input_shapes
        stored = self._snapshot.arguments if self._snapshot and not self._chooses_inputs else ()
        if stored:
            self.talk.say("inputs from the snapshot")
            return fitting_arrays(stored, shapes, "argument")
        given = inputs_of(a, module)
        if a.random is None and not a.inputs and len(given.specs) < len(shapes):
            first = "no other inputs" if given.specs else "no inputs"
            self.talk.say(f"{first} given: random, seed 0")
        return given.arrays(module, shapes)

    @property
    def _chooses_inputs(self) -> bool:
        """True if the options choose the inputs, instead of those stored with the module."""
        a = self.arguments
        return bool(a.inputs or a.input) or a.random is not None

    def _compare(
        self, module: Module, inputs: list[Array], outputs: list[Array], other: str
    ) -> int:
        a, paint = self.arguments, self.talk.paint
        want = self._wanted(module, inputs, other)
        found = compare(outputs, want, Bounds(a.rtol, a.atol))
        verdict = paint.good("OK") if found.ok else paint.bad("FAILED")
        line = f"compare with {other}: {verdict}  {comparison_text(found)}"
        from hloc.report.conditioning import conditioning_of
        from hloc.report.conditioning_text import conditioning_data, conditioning_lines

        conditioning = [] if self._task else conditioning_of(found, module, inputs, outputs, want)
        data = {"with": other, **comparison_data(found), "outputs": conditioning_data(conditioning)}
        lines = [line, *conditioning_lines(conditioning)]
        self.talk.report("comparison", lines, data, is_failure=not found.ok)
        return Exit.OK if found.ok else Exit.FAULT

    def _wanted(self, module: Module, inputs: list[Array], other: str) -> list[Array]:
        """Return the results to compare with."""
        fill, task = self.options.fill_constants, self._task
        shapes = result_leaves(module) if task is None else task.output_shapes
        if other == "interp" and task is not None:
            return task.outputs(task.evaluated(module, task.parts(inputs), fill))
        if other == "interp":
            return driver.evaluate(module, *inputs, fill_constants=fill)
        if other == "O0":
            plain = CompileOptions(opt_level=0, fill_constants=fill)
            return self._timed(driver.compile_module(module, plain), inputs, 1)[0]
        if other == "xla":
            assert self._snapshot is not None
            given = module if task is None else self._snapshot.module
            return results_of_xla(given, inputs, devices=1 if task is None else task.devices)
        if other == "snapshot":
            if self._snapshot is None or self._snapshot.result is None:
                raise HloError(f"{shown_name(self.name)} has no stored result to compare with")
            return fitting_arrays([self._snapshot.result], shapes, "result")
        return load_arrays(other, "out", shapes)


def _buffers_text(compiled: Any) -> str:
    """Return `temp 128 KiB, constants 4 B, 1 in place`."""
    report = compiled.buffers
    sizes = f"temp {size_text(report.arena_bytes)}, constants {size_text(report.constant_bytes)}"
    return f"{sizes}, {report.in_place:,} in place"


def _code_text(compiled: Any) -> str:
    """Return `in 2 processes, 46 of 47 kernels from the cache`."""
    code = getattr(compiled, "code", None)  # of a CPU; other targets compile kernels elsewhere
    if code is None:
        return ""
    parts = [f"in {code.processes} processes"] if code.processes > 1 else []
    if code.kept:
        parts.append(f"{code.kept:,} of {plural(code.functions, 'kernel')} from the cache")
    return ", ".join(parts)
