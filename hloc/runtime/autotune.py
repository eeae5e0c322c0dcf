"""Chooses between equivalent kernels of the processor by their time on this machine.

A model of the machine chooses the tiles of a gemm, what is packed when, and how many vectors a loop
computes at a time. Here the alternatives, all with the same bits, are timed on random arguments of
the kernel's own shapes, and the fastest is used. The times are cached for the kernel, the machine,
and the version of hloc.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Sequence
from dataclasses import replace

from hloc.codegen.cpu.backend import CpuBackend, CpuModule
from hloc.codegen.cpu.kernel import choices_of
from hloc.codegen.cpu.kernel_tuning import KernelTuning
from hloc.codegen.cpu.split_kernel import estimate_of
from hloc.codegen.llvm.target import host_target, llvm_version
from hloc.errors import HloError
from hloc.ir.instruction import Instruction
from hloc.runtime.program_cache import source_digest
from hloc.runtime.trial import Trial
from hloc.runtime.tuning_file import Measured, finite, keep_tuning, kept_tuning, tuning_name

LEAST_NANOSECONDS = 5_000
"""Kernels with a shorter estimated time are not measured: a call takes a part of that time."""

MOST_BYTES = 1 << 30
"""Kernels with larger arrays are not measured: the arguments would need as much again."""

ROUNDS = 9
"""Each round runs every choice once, so that a slow moment of the machine slows all of them."""

SAMPLE_SECONDS = 0.002
"""Least time of a sample; shorter kernels run several times."""

MOST_SECONDS = 2.0
"""Processor time for the rounds of a kernel; the first one goes on until half of it is spent."""

LENIENCE = 0.4
"""Choices that are slower than the fastest so far by more than this, divided by the number of
rounds so far, do not reach the next round."""

MARGIN = 1.02
"""The choice of the model is kept unless it is slower than the fastest by this factor."""

PAIRS = 15
"""Most pairs of samples, of the model's choice and of the fastest, whose median ratio decides; at
least three are taken. The fastest of many choices may have been lucky."""

PAIRS_SECONDS = 1.0
"""Processor time for these pairs."""


def tuned(compiled: CpuModule) -> CpuModule:
    """Return a module with the fastest kernels on this machine, and what was measured.

    Raises:
        HloError: the code is for another machine.
    """
    if not compiled.machine.is_host:
        raise HloError("autotune measures on this machine, and the code is for another one")
    found: list[KernelTuning] = []
    chosen: dict[int, Hashable] = {}
    for number, request in enumerate(compiled.plan.kernels):
        if not _is_measured(request.inst):
            continue
        choices = choices_of(request, compiled.machine)
        if len(choices) > 1:
            tuning = _tuning(compiled, number, choices)
            found.append(tuning)
            chosen[number] = choices[tuning.best]
    if not chosen:
        return compiled
    return replace(CpuBackend().with_choices(compiled, chosen), tuning=tuple(found))


def _is_measured(inst: Instruction) -> bool:
    """True if a kernel runs long enough, and its arrays are not too large."""
    size = inst.shape.size_bytes + sum(operand.shape.size_bytes for operand in inst.operands)
    return size <= MOST_BYTES and estimate_of(inst).nanoseconds >= LEAST_NANOSECONDS


def _tuning(compiled: CpuModule, number: int, choices: Sequence[Hashable]) -> KernelTuning:
    """Return the times of the choices of a kernel, from the cache if possible."""
    texts = tuple(map(str, choices))
    versions = (source_digest(), llvm_version())
    o, kernel = compiled.options, (compiled.plan.keys[number], compiled.kernels[number].text)
    options = (o.opt_level, o.fast_math, o.flush_subnormals)
    name = tuning_name(*kernel, options, texts, compiled.machine, host_target(), versions)
    kept = kept_tuning(name, len(choices))
    measured = kept or _measured(compiled, number, choices)
    if kept is None:
        keep_tuning(name, measured)
    inst = compiled.plan.kernels[number].inst
    m = measured
    return KernelTuning(inst.name, texts, m.seconds, m.best, m.gain, kept is not None)


def _measured(compiled: CpuModule, number: int, choices: Sequence[Hashable]) -> Measured:
    kernels, units = CpuBackend().alternatives(compiled, number, choices)
    trial = Trial(compiled.plan.kernels[number], kernels, units, compiled.machine)
    times = _times_in_rounds(trial, len(choices))
    best = min(range(len(choices)), key=times.__getitem__)
    gain = _gain(trial, best, times) if best else 1.0
    if gain <= MARGIN:
        return Measured(0, finite(times))
    return Measured(best, finite(times), gain)


def _times_in_rounds(trial: Trial, count: int) -> list[float]:
    """Return the least time of each choice in seconds; infinite if it was not measured.

    One whose results differ from those of the first, bit by bit, is not measured.
    """
    wanted: list[bytes] = []
    times, spent, left = [math.inf] * count, 0.0, list(range(count))
    for turn in range(ROUNDS):
        for number in left:
            if spent > (MOST_SECONDS if turn else MOST_SECONDS / 2):
                return times
            once = times[number]
            if turn == 0:
                found, once = trial.results(number)
                spent += once
                wanted = wanted or found
                if found != wanted:
                    continue
            calls = _calls(once)
            sample = trial.seconds(number, calls)
            times[number] = min(times[number], sample)
            spent += sample * calls
        limit = (1 + LENIENCE / (turn + 1)) * min(times)
        left = [number for number in left if number == 0 or times[number] <= limit]
        if len(left) == 1:
            break
    return times


def _gain(trial: Trial, best: int, times: list[float]) -> float:
    """Return the median of the time of the first choice over that of `best`; updates `times`."""
    pair = (0, best)
    seconds = sum(_calls(times[number]) * times[number] for number in pair)
    ratios = []
    for _ in range(min(max(int(PAIRS_SECONDS / seconds), 3), PAIRS)):
        first, other = (trial.seconds(number, _calls(times[number])) for number in pair)
        times[0], times[best] = min(times[0], first), min(times[best], other)
        ratios.append(first / other)
    return statistics.median(ratios)


def _calls(seconds: float) -> int:
    """Return how often a kernel of this time runs in a sample."""
    return max(math.ceil(SAMPLE_SECONDS / max(seconds, 1e-9)), 1)
