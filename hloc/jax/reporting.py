"""`hloc.jax.report()`: hloc's compilations for JAX in this process, with compile and run times."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress

from hloc import driver
from hloc.errors import HloError
from hloc.formats.from_proto import module_from_bytes
from hloc.jax.xla_program import run_proto_by_xla
from hloc.lazy_dataclass import dataclass
from hloc.pjrt.records import COMPILATIONS, Compilation
from hloc.report.inputs import random_inputs
from hloc.report.text import plural

_REPEAT = 20
_SEED = 0
_HEAD = ("program", "instructions", "compiled in", "", "run", "XLA's run", "of XLA's")


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One program.

    Attributes:
        name: name of the module or function.
        instructions: number of instructions, as lowered by JAX.
        compile_ms: time from JAX's program to loaded code.
        was_kept: True if it came from hloc's cache.
        run_us: the fastest of some runs on random inputs; None if not requested or impossible.
        xla_us: the same for the program compiled by XLA.
    """

    name: str
    instructions: int
    compile_ms: float
    was_kept: bool
    run_us: float | None = None
    xla_us: float | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as text."""
        ratio = ""
        if self.run_us is not None and self.xla_us:
            ratio = f"{self.run_us / self.xla_us:.2f}"
        return (
            self.name,
            f"{self.instructions:,}",
            f"{self.compile_ms:.1f} ms",
            "kept" if self.was_kept else "",
            _microseconds(self.run_us),
            _microseconds(self.xla_us),
            ratio,
        )


@dataclass(frozen=True, slots=True)
class Report:
    """The compilations by hloc; prints as a table."""

    rows: tuple[ReportRow, ...]

    def __str__(self) -> str:
        if not self.rows:
            return "hloc has compiled nothing for JAX in this process"
        total = sum(row.compile_ms for row in self.rows)
        last = f"{plural(len(self.rows), 'program')}, {total:.1f} ms of compiling"
        return "\n".join([*_table([_HEAD, *(row.cells for row in self.rows)]), last])


def report(*, beside_xla: bool = False) -> Report:
    """Return hloc's compilations for JAX in this process, as a backend or by `hloc.jit`.

    Args:
        beside_xla: also run each program on random inputs, compiled by hloc and by XLA:CPU. XLA has
            to compile it, so this takes a while.
    """
    return Report(tuple(_row(found, beside_xla) for found in COMPILATIONS))


def _row(found: Compilation, beside_xla: bool) -> ReportRow:
    run = xla = None
    if beside_xla:
        with suppress(HloError):  # it calls Python, or XLA's custom calls need other inputs
            run, xla = _times_us(found)
    return ReportRow(found.name, found.instructions, found.seconds * 1e3, found.was_kept, run, xla)


def _times_us(found: Compilation) -> tuple[float, float]:
    """Return the fastest run by hloc and by XLA, on the same inputs."""
    inputs = random_inputs(module_from_bytes(found.proto, found.name), _SEED)
    executable = driver.compile_proto(found.proto, found.name)
    executable(*inputs)
    seconds = []
    for _ in range(_REPEAT):
        started = time.perf_counter()
        executable(*inputs)
        seconds.append(time.perf_counter() - started)
    _, by_xla = run_proto_by_xla(found.proto, inputs, _REPEAT)
    return min(seconds) * 1e6, min(by_xla) * 1e6


def _microseconds(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f} us"


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Yield lines of columns, the first left-aligned, without empty columns."""
    used = [at for at in range(len(_HEAD)) if any(row[at] for row in rows[1:])]
    widths = {at: max(len(row[at]) for row in rows) for at in used}
    for row in rows:
        cells = [row[at].rjust(widths[at]) if at else row[at].ljust(widths[at]) for at in used]
        yield "  ".join(cells).rstrip()
