"""`hloc bench FILE`: the time of a run with its spread, on request compared with XLA's."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from hloc import driver
from hloc.cli.input_options import inputs_of
from hloc.cli.pass_options import checked_pipeline, compile_options, load_plugins
from hloc.cli.profile_report import cpu_profile
from hloc.cli.progress import progress_of
from hloc.cli.talk import Talk
from hloc.dtypes import Array
from hloc.ir.clone import clone_module
from hloc.jax.xla_child import XlaChild
from hloc.jax.xla_program import need_xla
from hloc.lazy_dataclass import dataclass
from hloc.quantities import count_text, duration
from hloc.report.exits import Exit
from hloc.report.json_report import json_report
from hloc.report.kernel_times import KernelTime, kernel_data, kernel_lines
from hloc.report.module_facts import headline
from hloc.report.run_report import Timing
from hloc.report.simulated_threads import simulated_data, simulated_lines
from hloc.report.source_input import need_files, need_one_device, read_module, shown_name
from hloc.report.text import aligned, plural
from hloc.runtime.hardware_counters import CountersMissing, counting

if TYPE_CHECKING:
    from hloc.codegen.cpu.thread_simulation import SimulatedRun
    from hloc.ir.module import Module
    from hloc.options import CompileOptions

Runs: TypeAlias = Callable[[int], Sequence[float]]
"""Runs a program the given number of times, and returns the seconds of each run."""

STRETCHES = 12
_STRETCH_SECONDS = 0.02
_MOST_RUNS = 1000
_COUNTED_RUNS = 20


@dataclass(frozen=True, slots=True)
class Measured:
    """The runs of one engine, grouped by the stretches in which the engines took turns."""

    name: str
    stretches: tuple[Timing, ...]

    @property
    def all(self) -> Timing:
        """All runs."""
        return Timing(tuple(sorted(s for stretch in self.stretches for s in stretch.seconds)))


@dataclass(frozen=True, slots=True)
class Report:
    """What `hloc bench` measured.

    Attributes:
        inputs: what the arguments are, in words.
        engines: hloc, and XLA if asked.
        counted: events of a run of hloc, by name; `missing` says why there are none.
        profile: the kernels, slowest first, and how many were not timed.
        simulated: runs on other numbers of threads.
    """

    inputs: str
    flops: int
    engines: list[Measured]
    counted: dict[str, float]
    missing: str
    profile: tuple[list[KernelTime], int] | None
    simulated: list[SimulatedRun]


def bench_file(arguments: Namespace, talk: Talk) -> int:
    """`hloc bench FILE [-O2] [--against=xla] [--threads=N] [--profile] [--counters] ...`."""
    a = arguments
    (file,) = need_files(a.files, exactly=1)
    load_plugins(a)
    options = compile_options(a)
    checked_pipeline(options)
    if a.against:
        need_xla("--against=xla")
    module = read_module(file)
    need_one_device(module, "hloc bench")
    found = _measured(module, a, options, talk)
    if a.format == "json":
        talk.product(json_report("bench", {"file": shown_name(file), **_data(found, a)}))
    else:
        talk.page("\n".join(_lines(found, a, shown_name(file), module)))
    return Exit.OK


def _measured(module: Module, a: Namespace, options: CompileOptions, talk: Talk) -> Report:
    """Run hloc, and XLA if asked, in turn, and what else the command line asks for."""
    given = inputs_of(a, module)
    arrays, text = given.arrays(module), module.to_text("default", large_constants=True)
    flops = driver.flops_of(module)
    progress = progress_of(talk, "measuring")
    with XlaChild(a.threads) as child, progress.running():
        program = driver.compile_module(module, options)

        def ours(count: int) -> list[float]:
            return [_seconds(program, arrays) for _ in range(count)]

        engines: dict[str, Runs] = {f"hloc -O{options.opt_level}": ours}
        if a.against:
            engines["XLA"] = lambda count: child.seconds("bench", text, arrays, count)
        engines_found = in_turn(engines, a.repeat or STRETCHES)
    counted, missing = _counted(ours) if a.counters else ({}, "")
    profile, simulated = None, []
    if a.profile or a.simulate_threads:
        optimised = clone_module(module)
        driver.optimise(optimised, options)
        profile = cpu_profile(optimised, options) if a.profile else None
        if a.simulate_threads:
            simulated = _simulated(module, optimised, options, a.simulate_threads)
    inputs = given.describe(module)
    return Report(inputs, flops, engines_found, counted, missing, profile, simulated)


def _data(found: Report, a: Namespace) -> dict[str, object]:
    """Return the JSON of a report."""
    data: dict[str, object] = {
        "inputs": found.inputs,
        "threads": a.threads,
        "flops": found.flops,
        "engines": [_engine_data(one) for one in found.engines],
    }
    if a.counters:
        named = {name.replace(" ", "_"): count for name, count in found.counted.items()}
        data["counters"] = named or None
    if found.profile is not None:
        data["kernels"] = kernel_data(*found.profile)
    if found.simulated:
        data["simulated_threads"] = simulated_data(found.simulated)
    return data


def _lines(found: Report, a: Namespace, name: str, module: Module) -> list[str]:
    """Return the lines of a report."""
    cores = plural(a.threads, "thread") if a.threads else "all cores"
    lines = [f"{name}: {headline(module, found.flops)}, {found.inputs}, {cores}"]
    lines += _table(found.engines, found.flops)
    lines += _ratio(found.engines)
    if a.counters:
        missing = f"no hardware counters: {found.missing}"
        lines.append(missing if found.missing else _counter_line(found.counted))
    if found.profile is not None:
        lines += kernel_lines(*found.profile)
    if found.simulated:
        lines += simulated_lines(found.simulated)
    return lines


def in_turn(engines: dict[str, Runs], stretches: int) -> list[Measured]:
    """Run the engines in turn, repeatedly, so that a busy moment of the machine affects all."""
    counts = {}
    for name, runs in engines.items():
        runs(2)  # compiles, and fills caches
        least = max(min(runs(3)), 1e-7)
        counts[name] = max(1, min(_MOST_RUNS, int(_STRETCH_SECONDS / least)))
    found: dict[str, list[Timing]] = {name: [] for name in engines}
    for _ in range(stretches):
        for name, runs in engines.items():
            found[name].append(Timing(tuple(sorted(runs(counts[name])))))
    return [Measured(name, tuple(timings)) for name, timings in found.items()]


def _simulated(
    module: Module, optimised: Module, options: CompileOptions, most: int
) -> list[SimulatedRun]:
    """Simulate a module on 1, 2, 4 and so on up to `most` cores; `optimised` is changed."""
    from hloc.codegen.cpu.backend import CpuModule
    from hloc.codegen.cpu.thread_simulation import simulate_threads, thread_counts, trips_of

    trips = trips_of(module) | trips_of(optimised)
    compiled = driver.generate(optimised, options)
    assert isinstance(compiled, CpuModule)
    return [simulate_threads(compiled, threads, trips) for threads in thread_counts(most)]


def _counted(runs: Runs) -> tuple[dict[str, float], str]:
    """Return the number of events of each kind in a run of hloc, or why it is not known."""
    try:
        with counting() as counts:
            runs(_COUNTED_RUNS)
    except CountersMissing as reason:
        return {}, str(reason)
    return {name: count / _COUNTED_RUNS for name, count in counts.events.items()}, ""


def _counter_line(counted: dict[str, float]) -> str:
    per_cycle = counted["instructions"] / max(counted["cycles"], 1)
    events = ", ".join(f"{count:,.0f} {name}" for name, count in counted.items())
    return f"each run of hloc: {events}; {per_cycle:.2f} instructions per cycle"


def ratios(found: Sequence[Measured]) -> list[float]:
    """Return the ratios of the first engine's median time to the second's, by stretch, sorted."""
    first, second = found
    pairs = zip(first.stretches, second.stretches, strict=True)
    return sorted(one.median / other.median for one, other in pairs)


def _seconds(program: Callable[..., object], arrays: Sequence[Array]) -> float:
    started = time.perf_counter()
    program(*arrays)
    return time.perf_counter() - started


def _table(found: Sequence[Measured], flops: int) -> list[str]:
    rows: list[tuple[str, ...]] = [("", "median", "least", "p95", "runs", "rate")]
    for one in found:
        timing = one.all
        rate = count_text(flops / timing.median, "FLOP/s") if flops and timing.median else "-"
        times = (duration(t) for t in (timing.median, timing.seconds[0], timing.p95))
        rows.append((one.name, *times, f"{len(timing.seconds):,}", rate))
    return aligned(rows, range(1, 6))


def _ratio(found: Sequence[Measured]) -> list[str]:
    if len(found) < 2:
        return []
    parts = ratios(found)
    middle = parts[len(parts) // 2]
    return [
        f"{found[0].name} / {found[1].name}: {middle:.2f} "
        f"({parts[0]:.2f} to {parts[-1]:.2f} over {plural(len(parts), 'stretch')} in turn)"
    ]


def _engine_data(one: Measured) -> dict[str, object]:
    timing = one.all
    return {
        "name": one.name,
        "runs": len(timing.seconds),
        "median_seconds": timing.median,
        "least_seconds": timing.seconds[0],
        "p95_seconds": timing.p95,
        "stretch_medians": [stretch.median for stretch in one.stretches],
    }
