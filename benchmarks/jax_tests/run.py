"""JAX's own tests under plain JAX and under hloc, compared test by test.

    python benchmarks/jax_tests/run.py CHECKOUT [FILE...] [--cases 1] [--quick]

CHECKOUT is a copy of github.com/jax-ml/jax at the tag of the installed version. FILE is a name in
its folder `tests/`, without `_test.py`; without any, those in `files.txt`. Needs jax, pytest and
absl-py.

Each file runs in child processes, one at a time, with the fewest generated cases: with
`JAX_PLATFORMS=hloc,cpu`, and with `JAX_PLATFORMS=cpu`, which is kept and not repeated. A child
ends itself when a test takes longer than `--limit` seconds, and stops after `--slice` seconds; the
next one goes on with the tests that remain. Ends with 1 if a test fails that plain JAX passes and
that `known_failures.txt` does not list, or if it lists one that passes.
"""

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.jax_tests.results import (
    FAILURES,
    Comparison,
    Outcome,
    compare,
    outdated,
    read_known,
    read_record,
    table,
    unlisted,
)

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FILES = (HERE / "files.txt").read_text().split()
MAX_CHILDREN = 200  # per file; a child that dies costs one test


@dataclass(frozen=True)
class Runner:
    """Runs files of tests in child processes.

    Attributes:
        results: the folder of the records.
        limit: seconds of one test.
        slice: seconds of one child, which stops between two tests.
    """

    checkout: Path
    results: Path
    cases: int
    limit: float
    slice: float

    def record(self, name: str, file: str) -> Path:
        """Return where the outcomes of a file are written."""
        path = self.results.resolve() / name / f"{file}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def run(self, platforms: str, record: Path, tests: Iterable[str]) -> dict[str, Outcome]:
        """Run the tests that `record` does not hold yet, child after child; return all outcomes.

        Args:
            platforms: for `JAX_PLATFORMS`.
            record: a file of JSON lines, which may not exist.
            tests: a file, or ids of tests.
        """
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short"]
        command += ["-p", "jax_test_recorder", "-p", "no:faulthandler", "-p", "no:cacheprovider"]
        command += ["-p", "no:xdist", *tests]
        seconds = self.slice + 3 * self.limit + 120
        with record.with_suffix(".log").open("ab") as log:
            for _ in range(MAX_CHILDREN):
                before = _text(record)
                outcomes, has_ended = read_record(before)
                if has_ended:
                    return outcomes
                with contextlib.suppress(subprocess.TimeoutExpired):
                    subprocess.run(
                        command,
                        cwd=self.checkout,
                        env=self._environment(platforms, record),
                        stdout=log,
                        stderr=log,
                        timeout=seconds,
                    )
                if _text(record) == before:  # it cannot even begin; the log says why
                    break
        return read_record(_text(record))[0]

    def _environment(self, platforms: str, record: Path) -> dict[str, str]:
        path = [str(HERE), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        return os.environ | {
            "JAX_PLATFORMS": platforms,
            "JAX_NUM_GENERATED_CASES": str(self.cases),
            "JAX_SKIP_SLOW_TESTS": "1",
            "PYTHONPATH": os.pathsep.join(path),
            "HLOC_JAX_TESTS_RECORD": str(record),
            "HLOC_JAX_TESTS_LIMIT": str(self.limit),
            "HLOC_JAX_TESTS_SLICE": str(self.slice),
        }

    def compare(self, file: str, *, resume: bool, quick: bool) -> Comparison:
        """Run one file on both backends, or what fails on hloc only on plain JAX."""
        tests = [f"tests/{file}_test.py"]
        record = self.record("hloc", file)
        if not resume:
            record.unlink(missing_ok=True)
        hloc = self.run("hloc,cpu", record, tests)
        if not quick:
            cpu = self.run("cpu", self.record("cpu", file), tests)
            return compare(file, cpu, hloc)
        failed = [test for test, outcome in hloc.items() if outcome.state in FAILURES]
        cpu = {test: outcome for test, outcome in hloc.items() if outcome.state == "passed"}
        if failed:
            record = self.record("cpu_of_failures", file)
            record.unlink(missing_ok=True)
            cpu |= self.run("cpu", record, failed)
        return compare(file, cpu, hloc)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def main() -> int:
    """Run, compare, write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("files", nargs="*", default=FILES)
    parser.add_argument("--cases", type=int, default=1, help="generated cases per test")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of one test")
    parser.add_argument("--slice", type=float, default=300.0, help="seconds of one child")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "jax_tests")
    parser.add_argument("--known", type=Path, default=HERE / "known_failures.txt")
    parser.add_argument("--resume", action="store_true", help="keep what hloc ran before")
    parser.add_argument(
        "--quick", action="store_true", help="plain JAX runs only the tests that fail on hloc"
    )
    args = parser.parse_intermixed_args()

    known = read_known(args.known)
    runner = Runner(args.checkout.resolve(), args.results, args.cases, args.limit, args.slice)
    comparisons = []
    for file in args.files or FILES:
        row = runner.compare(file, resume=args.resume, quick=args.quick)
        comparisons.append(row)
        print(f"{file:30} {row.count:5} {len(row.failures):4} fail", flush=True)
        (args.results / "table.md").write_text(table(comparisons, known))
    print(table(comparisons, known))
    gone = outdated(comparisons, known)
    for line in gone:
        print(f"listed as failing, but passes: {line.pattern}")
    return 1 if gone or unlisted(comparisons, known) else 0


if __name__ == "__main__":
    sys.exit(main())
