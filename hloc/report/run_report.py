"""Run an executable: warm up, repeat, and report results and times."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np

from hloc.analysis.diff.module_lines import element_text
from hloc.dtypes import Array
from hloc.errors import HloError
from hloc.ir.device_groups import devices_text
from hloc.lazy_dataclass import dataclass
from hloc.limits import current_limits, time_fault
from hloc.quantities import count_text, duration
from hloc.report.compare import Comparison
from hloc.report.exits import RunFailed, leave, leave_interrupted
from hloc.report.text import plural
from hloc.shapes import ArrayShape

R = TypeVar("R")

_MAX_RUNS = 200
_MAX_SECONDS = 0.3
_MIN_FLOPS = 10_000  # below, the call overhead dominates
PREVIEW_ELEMENTS = 6
_PREVIEW_OUTPUTS = 8


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per run, sorted; the warm-up run is excluded unless it is the only one."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        count = len(self.seconds)  # `statistics` takes longer to import than a small run
        return (self.seconds[(count - 1) // 2] + self.seconds[count // 2]) / 2

    @property
    def p95(self) -> float:
        """The 95th percentile of the times."""
        return self.seconds[math.ceil(0.95 * len(self.seconds)) - 1]


def run_executable(
    executable: Callable[..., R], inputs: Sequence[Array], repeat: int | None
) -> tuple[R, Timing]:
    """Run once and then repeatedly.

    Args:
        executable: takes the inputs and returns the outputs.
        inputs: one array per parameter leaf.
        repeat: number of timed runs; None repeats until 200 runs or 0.3 s are reached.

    Raises:
        RunFailed: the program failed, or exceeded the limit `run-seconds`.
    """
    from hloc.runtime.interrupt import interruptible

    try:
        with _in_time(), interruptible(stuck=leave_interrupted):
            return _run_repeatedly(executable, inputs, repeat)
    except HloError as fault:
        raise RunFailed(fault.message) from fault


@contextmanager
def _in_time() -> Iterator[None]:
    """Stop the loops of a program after `run-seconds`; if it continues, end the process."""
    seconds = current_limits().run_seconds
    if not seconds:
        yield
        return
    from hloc.runtime.arena import clear_stops, stop_all

    fault = time_fault("run-seconds", "the run", seconds)
    over = threading.Event()

    def stop() -> None:
        over.set()
        stop_all()

    timers = [threading.Timer(seconds, stop), threading.Timer(seconds + 2, leave, [fault])]
    for timer in timers:
        timer.daemon = True
        timer.start()
    try:
        yield
    except KeyboardInterrupt:
        if over.is_set():
            raise fault from None
        raise
    finally:
        for timer in timers:
            timer.cancel()
        clear_stops()
    if over.is_set():
        raise fault


def _run_repeatedly(
    executable: Callable[..., R], inputs: Sequence[Array], repeat: int | None
) -> tuple[R, Timing]:
    started = time.perf_counter()
    outputs = executable(*inputs)
    first = time.perf_counter() - started
    most, budget = (_MAX_RUNS, _MAX_SECONDS) if repeat is None else (repeat, math.inf)
    seconds: list[float] = []
    spent = first
    while len(seconds) < most and spent < budget:
        started = time.perf_counter()
        executable(*inputs)
        seconds.append(time.perf_counter() - started)
        spent += seconds[-1]
    return outputs, Timing(tuple(sorted(seconds or [first])))


def run_line(
    shapes: Sequence[ArrayShape], timing: Timing, flops: int, threads: int = 1, devices: int = 1
) -> str:
    """Return `run: output f32[64,512]  median 0.21 ms over 200 runs (p95 0.24 ms)  80 GFLOP/s`.

    More than one thread is shown after the runs: `over 200 runs on 4 threads`.
    """
    runs = plural(len(timing.seconds), "run")
    p95 = f" (p95 {duration(timing.p95)})" if len(timing.seconds) > 1 else ""
    rate = ""
    if flops >= _MIN_FLOPS and timing.median:
        rate = f"   {count_text(flops / timing.median, 'FLOP/s')}"
    shared = f" on {devices} devices" if devices > 1 else ""
    shared += f" on {threads} threads" if threads > 1 else ""
    median = duration(timing.median)
    return f"run: {_outputs(shapes)}  median {median} over {runs}{shared}{p95}{rate}"


def _outputs(shapes: Sequence[ArrayShape]) -> str:
    if not shapes:
        return "no output"
    texts = [shape.text_without_layout for shape in shapes]
    if len(texts) == 1:
        return f"output {texts[0]}"
    more = f", ... {len(texts)} in all" if len(texts) > 3 else ""
    return f"outputs {', '.join(texts[:3])}{more}"


def output_lines(
    outputs: Sequence[Array],
    shapes: Sequence[ArrayShape],
    elements: int | None,
    stacked: Collection[int] = (),
) -> list[str]:
    """Return one line per output with its first `elements`; None shows a short preview, 0 nothing.

    Outputs in `stacked` have the arrays of devices along their first dimension: one line for each
    distinct array.
    """
    if elements == 0:
        return []
    limit = PREVIEW_ELEMENTS if elements is None else elements
    shown = len(outputs) if elements is not None else _PREVIEW_OUTPUTS
    lines: list[str] = []
    for i, (output, shape) in enumerate(zip(outputs[:shown], shapes, strict=False)):
        if i in stacked:
            lines += _device_lines(f"out{i}", output, shape, limit)
        else:
            lines.append(
                f"out{i} = {shape.text_without_layout} {_values(np.asarray(output), limit)}"
            )
    if len(outputs) > shown:
        lines.append(f"... {len(outputs) - shown} more; --print-output shows all")
    return lines


def _device_lines(name: str, stacked: Array, shape: ArrayShape, limit: int) -> list[str]:
    """Return a line per distinct array: `out0 on devices 0, 4 = f32[2] {1, 2}`."""
    text = ArrayShape(shape.dtype, stacked.shape[1:]).text_without_layout
    return [
        f"{name} on {devices_text(devices)} = {text} {_values(array, limit)}"
        for devices, array in equal_devices(stacked)
    ]


def equal_devices(stacked: Array) -> list[tuple[list[int], Array]]:
    """Return the distinct arrays along the first dimension, with the devices that have them."""
    found: dict[bytes, tuple[list[int], Array]] = {}
    for device, array in enumerate(stacked):
        found.setdefault(array.tobytes(), ([], array))[0].append(device)
    return list(found.values())


def _values(array: Array, limit: int) -> str:
    if array.ndim == 0:
        return element_text(array[()])
    texts = [element_text(element) for element in array.reshape(-1)[:limit]]
    return "{" + ", ".join(texts + ["..."] * (array.size > limit)) + "}"


def comparison_text(found: Comparison) -> str:
    """Return the findings of a comparison, without its verdict."""
    parts = []
    if not found.ok:
        parts.append(f"{found.bad:,} of {found.elements:,} elements differ")
    if found.worst is not None:
        worst = found.worst
        parts.append(f"worst: {worst.place} is {worst.got}, expected {worst.want}")
    parts.append(f"max {found.max_ulp:,} ulp")
    parts.append(f"max error {found.max_error:.2g}")
    parts.append(plural(found.nan_mismatches, "NaN mismatch"))
    if found.nans:
        parts.append(f"{found.nans:,} NaN in both")
    if found.ok:
        parts.append(plural(found.elements, "element"))
    return ", ".join(parts)
