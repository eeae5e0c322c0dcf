"""Peak temporary memory and number of kernels, beside XLA:CPU where jax is installed.

    python benchmarks/bench_memory.py [FILE|FOLDER...] [-O 2] [--seconds 600] [--limit 60]
                                      [--cache XLA.json] [--json OUT.json]

Without files: the examples and, where it lies beside the repository, the conformance corpus (its
JAX programs and its models). Nothing is run: hloc compiles up to the plan of buffers, XLA says what
its executable reserves for temporaries. XLA works in a process of its own, which may die or be
late; what it said is kept in the cache. ratio = hloc / XLA, below 1 is less than XLA. Modules come
in order of size until `--seconds` are spent; those left out are counted.
"""

import argparse
import gzip
import hashlib
import json
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import harness, xla

CORPUS = harness.ROOT.parent / "shared" / "conformance" / "corpus"
DEFAULT_FOLDERS = (
    harness.ROOT / "examples",
    harness.ROOT / "examples" / "modules",
    CORPUS / "jax" / "visible",
    CORPUS / "visible" / "models",
)


@dataclass(frozen=True)
class Row:
    """One module; the figures of XLA are None where it was not asked or has no answer.

    Attributes:
        bound_bytes: what is alive at hloc's worst moment; packing cannot do better.
        seconds: schedule and buffer assignment, without the passes.
        fault: why there is no figure of one of the two.
    """

    name: str
    instructions: int
    hloc_bytes: int | None
    bound_bytes: int | None
    hloc_kernels: int | None
    seconds: float
    xla_bytes: int | None
    xla_kernels: int | None
    fault: str = ""

    @property
    def ratio(self) -> float | None:
        """Own bytes / those of XLA; 1 if neither needs anything, infinite if only hloc does."""
        if self.hloc_bytes is None or self.xla_bytes is None:
            return None
        if not self.xla_bytes:
            return float("inf") if self.hloc_bytes else 1.0
        return self.hloc_bytes / self.xla_bytes


# ---------------------------------------------------------------- modules


def modules_in(paths: Iterable[Path]) -> list[Path]:
    """Return the HLO files among `paths` and in folders among them, the smaller first."""
    found: dict[Path, None] = {}
    for path in paths:
        inside = [*path.glob("*.hlo"), *path.glob("*.hlo.gz")] if path.is_dir() else [path]
        # What another compiler has optimised is no program of a user.
        found.update((p, None) for p in inside if ".cpu_opt." not in p.name)
    return sorted(found, key=lambda p: (len(text_of(p)), p.name))


def text_of(path: Path) -> str:
    """Return the text in a file, compressed or not."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


def own_figures(text: str, opt_level: int) -> tuple[int, int, int, int, float]:
    """Return hloc's instructions, arena bytes, lower bound, kernels, and seconds for the buffers.

    Raises:
        HloError: hloc does not take the module.
    """
    from hloc import driver
    from hloc.analysis.kernel_count import kernel_counts
    from hloc.codegen.cpu.backend import CpuBackend
    from hloc.options import CompileOptions

    module = driver.parse_text(text)
    instructions = module.instruction_count
    options = CompileOptions(opt_level=opt_level, fill_constants="zeros")
    driver.optimise(module, options)
    program = CpuBackend().plan(module, options)
    report = program.plan.assignment.report
    kernels = sum(kernel_counts(module).values()) - report.copies_elided
    return instructions, report.arena_bytes, report.peak_bytes, kernels, program.assignment_seconds


def row_of(path: Path, opt_level: int, theirs: "Xla | None") -> Row:
    """Measure one module."""
    import hloc

    text = text_of(path)
    try:
        count, arena, bound, kernels, seconds = own_figures(text, opt_level)
        own: tuple[int | None, int | None, int | None] = (arena, bound, kernels)
        fault = ""
    except hloc.HloError as error:
        count, own, seconds, fault = 0, (None, None, None), 0.0, f"hloc: {error.message[:60]}"
    answer = theirs.figures(text) if theirs is not None else {}
    fault = fault or answer.get("fault", "")
    return Row(_name(path), count, *own, seconds, answer.get("bytes"), answer.get("kernels"), fault)


def _name(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".hlo")


# ---------------------------------------------------------------- XLA


class Xla:
    """XLA in a process of its own, started again after each death; answers are cached."""

    def __init__(self, limit_seconds: float, cache: Path | None) -> None:
        self._limit = limit_seconds
        self._cache = cache
        self._known: dict[str, Any] = {}
        if cache is not None and cache.exists():
            self._known = json.loads(cache.read_text())
        self._child: subprocess.Popen[str] | None = None

    def figures(self, text: str) -> dict[str, Any]:
        """Return `bytes` and `kernels`, or `fault`."""
        key = hashlib.sha256(text.encode()).hexdigest()[:16]
        if key not in self._known:
            self._known[key] = self._ask(text)
            if self._cache is not None:
                self._cache.parent.mkdir(parents=True, exist_ok=True)
                self._cache.write_text(json.dumps(self._known, indent=0))
        found: dict[str, Any] = self._known[key]
        return found

    def _ask(self, text: str) -> dict[str, Any]:
        """Return the child's answer on a module's text, or a fault if it dies or is late."""
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, __file__, "--worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(json.dumps(text) + "\n")
            child.stdin.flush()
            ready, _, _ = select.select([child.stdout], [], [], self._limit)
            line = child.stdout.readline() if ready else ""
        except BrokenPipeError:
            ready, line = [child.stdout], ""
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        self.stop()
        return {"fault": "XLA died" if ready else f"XLA took more than {self._limit:.0f} s"}

    def stop(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None


def work() -> None:
    """Answer texts of modules on stdin with figures on stdout, one line of JSON each."""
    for line in sys.stdin:
        try:
            size, optimised = xla.memory_of(json.loads(line))
            answer: dict[str, Any] = {"bytes": size, "kernels": _kernels_in(optimised)}
        except Exception as fault:  # whatever jaxlib raises is an answer
            answer = {"fault": f"XLA: {str(fault).splitlines()[0][:60]}" if str(fault) else "XLA"}
        print(json.dumps(answer), flush=True)


def _kernels_in(optimised: str) -> int | None:
    """Count kernels in XLA's own optimised module, None if hloc cannot read it."""
    import hloc
    from hloc import driver
    from hloc.analysis.kernel_count import kernel_counts

    try:
        return sum(kernel_counts(driver.parse_text(optimised, verify=False)).values())
    except hloc.HloError:
        return None


# ---------------------------------------------------------------- the table

_HEAD = (
    f"{'module':36s} {'insts':>6s} {'hloc bytes':>15s} {'XLA bytes':>15s} {'ratio':>6s} "
    f"{'kernels':>7s} {'XLA':>6s} {'ratio':>6s} {'assign ms':>9s}"
)


def line_of(row: Row) -> str:
    """Return the row as a line of the table."""
    kernels = None
    if row.hloc_kernels is not None and row.xla_kernels:
        kernels = row.hloc_kernels / row.xla_kernels
    return (
        f"{row.name[:36]:36s} {row.instructions:6d} {_count(row.hloc_bytes):>15s} "
        f"{_count(row.xla_bytes):>15s} {_ratio(row.ratio):>6s} {_count(row.hloc_kernels):>7s} "
        f"{_count(row.xla_kernels):>6s} {_ratio(kernels):>6s} {row.seconds * 1e3:9.1f} {row.fault}"
    ).rstrip()


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def summary(rows: list[Row], left_out: int) -> Iterator[str]:
    """Yield lines: the share at or below XLA, the worst, and what is not in the table."""
    rated = sorted(
        ((row.ratio, row.name) for row in rows if row.ratio is not None),
        key=lambda pair: (-pair[0], pair[1]),
    )
    if rated:
        good = sum(ratio <= 1.0 for ratio, _ in rated)
        high = sum(ratio > 1.5 for ratio, _ in rated)
        yield (
            f"{good} of {len(rated)} modules ({100 * good / len(rated):.1f} %) at or below XLA, "
            f"{high} above 1.5 times"
        )
        yield "worst: " + ", ".join(f"{name} {ratio:.2f}" for ratio, name in rated[:5])
    missing = [row for row in rows if row.ratio is None]
    if missing:
        yield f"{len(missing)} modules without a figure of one of the two"
    if left_out:
        yield f"{left_out} modules left out: the time was spent"


def main() -> None:
    """Print a row per module and the summary."""
    parser = argparse.ArgumentParser(description="peak temporary memory of compiled modules")
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("-O", dest="opt_level", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=600.0, help="time for all modules")
    parser.add_argument("--limit", type=float, default=60.0, help="time for one in XLA")
    parser.add_argument("--cache", type=Path, help="keeps what XLA said")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work()
        return
    files = modules_in(options.paths or [f for f in DEFAULT_FOLDERS if f.is_dir()])
    theirs = Xla(options.limit, options.cache) if xla.available() else None
    end = time.monotonic() + options.seconds
    rows: list[Row] = []
    print(_HEAD, flush=True)
    for path in files:
        if time.monotonic() > end:
            break
        rows.append(row_of(path, options.opt_level, theirs))
        print(line_of(rows[-1]), flush=True)
    if theirs is None:
        print("jax is not installed, so there is nothing to compare with: pip install -e '.[jax]'")
    else:
        theirs.stop()
    print("\n".join(summary(rows, len(files) - len(rows))))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        content = {"machine": harness.machine(), "modules": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
