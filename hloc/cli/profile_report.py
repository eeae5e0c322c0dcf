"""`--profile`: the cost of each kernel, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hloc import driver
from hloc.ir.module import Module
from hloc.options import CompileOptions
from hloc.quantities import count_text, duration, size_text
from hloc.report.inputs import random_inputs
from hloc.report.kernel_times import KernelTime, kernel_times, repeated
from hloc.report.text import aligned, plural

if TYPE_CHECKING:
    from hloc.runtime.gpu.profile import KernelProfile, ModuleProfile

_MOST_ROWS = 30


def cpu_profile(module: Module, options: CompileOptions) -> tuple[list[KernelTime], int]:
    """Time the kernels of an optimised module, which is not changed, on this machine.

    Returns:
        The kernels, slowest first, and the number of kernels that were not timed.
    """

    def times(kernel: Module) -> list[float]:
        inputs = random_inputs(kernel, 0)
        program = driver.load_compiled(driver.generate(kernel, options))
        return repeated(lambda: program(*inputs))

    return kernel_times(module, times)


def profile_lines(executable: Any, inputs: Sequence[Any]) -> list[str]:
    """Run a program and return a line per kernel.

    Raises:
        HloError: it is not for a GPU, or fails.
    """
    from hloc.runtime.gpu.profile import profile

    found = profile(executable, inputs)
    timed = any(kernel.seconds is not None for kernel in found.kernels)
    rows = _timed(found) if timed else _counted(found)
    head = f"profile on {found.device}: {plural(len(found.kernels), 'kernel')}"
    shown = rows[: 1 + _MOST_ROWS]
    lines = [f"  {line}" for line in aligned(shown, range(1, len(shown[0])))]
    more = [f"  ... {len(rows) - len(shown)} more"] if len(rows) > len(shown) else []
    return [head, *lines, *more]


def _timed(found: ModuleProfile) -> list[tuple[str, ...]]:
    """Return the rows of the table, head first; rates that are not known are empty."""
    total = sum(kernel.seconds or 0.0 for kernel in found.kernels)
    head = ("kernel", "runs", "time", "of all", "bytes/s", "FLOP/s", "of peak")
    rows: list[tuple[str, ...]] = [head]
    for kernel in found.kernels:
        seconds = kernel.seconds or 0.0
        share = kernel.share_of(found.spec) if found.spec else None
        rows.append(
            (
                _name(kernel),
                str(kernel.runs),
                duration(seconds),
                f"{seconds / total:.0%}" if total else "",
                count_text(kernel.cost.bytes / seconds, "B/s") if seconds else "",
                count_text(kernel.cost.flops / seconds, "FLOP/s") if seconds else "",
                "" if share is None else f"{share:.0%}",
            )
        )
    return rows


def _counted(found: ModuleProfile) -> list[tuple[str, ...]]:
    head = ("kernel", "runs", "instructions", "asked for", "in sectors", "bank conflicts")
    rows: list[tuple[str, ...]] = [head]
    for kernel in found.kernels:
        counted = kernel.counts
        rows.append(
            (
                _name(kernel),
                str(kernel.runs),
                f"{counted.thread_instructions:,}",
                size_text(counted.global_bytes),
                size_text(counted.sector_bytes),
                f"x{counted.bank_conflict_ratio:.2f}" if counted.shared_accesses else "",
            )
        )
    return rows


def _name(kernel: KernelProfile) -> str:
    return f"{kernel.source} ({kernel.opcode})" if kernel.opcode else kernel.source
