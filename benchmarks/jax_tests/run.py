"""JAX's own tests under plain JAX and under hloc, compared test by test.

    python benchmarks/jax_tests/run.py CHECKOUT [FILE...] [--cases 1] [--results build/jax_tests]

CHECKOUT is a copy of github.com/jax-ml/jax at the tag of the installed version. FILE is a name in
its folder `tests/`, without `_test.py`; without any, those in `files.txt`. Needs jax, pytest and
absl-py.

Each file runs in child processes, one at a time, with the fewest generated cases: first with
`JAX_PLATFORMS=cpu`, which is kept and not repeated, then with `JAX_PLATFORMS=hloc,cpu`. A child
ends itself when a test takes longer than `--limit` seconds, and stops after `--slice` seconds; the
next one goes on with the tests that remain. Ends with 1 if a test fails that plain JAX passes and
that `known_failures.txt` does not list, or if it lists one that passes.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.jax_tests import results

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FILES = (HERE / "files.txt").read_text().split()
MAX_CHILDREN = 200  # per file; a child that dies costs one test


def environment(
    platforms: str, cases: int, record: Path, limit: float, seconds: float
) -> dict[str, str]:
    """Return the environment of a child."""
    path = [str(HERE), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {
        "JAX_PLATFORMS": platforms,
        "JAX_NUM_GENERATED_CASES": str(cases),
        "JAX_SKIP_SLOW_TESTS": "1",
        "PYTHONPATH": os.pathsep.join(path),
        "HLOC_JAX_TESTS_RECORD": str(record),
        "HLOC_JAX_TESTS_LIMIT": str(limit),
        "HLOC_JAX_TESTS_SLICE": str(seconds),
    }


def run_file(
    checkout: Path, file: str, record: Path, variables: dict[str, str], limit: float
) -> None:
    """Run the tests of `file` that `record` does not hold yet, child after child, to the end."""
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short"]
    command += ["-p", "jax_test_recorder", "-p", "no:faulthandler", "-p", "no:cacheprovider"]
    command += ["-p", "no:xdist", f"tests/{file}_test.py"]
    log = record.with_suffix(".log").open("ab")
    seconds = float(variables["HLOC_JAX_TESTS_SLICE"]) + 3 * limit + 120
    for _ in range(MAX_CHILDREN):
        before = record.stat().st_size if record.exists() else 0
        try:
            subprocess.run(
                command, cwd=checkout, env=variables, stdout=log, stderr=log, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            print(f"{file}: a child did not end by itself", flush=True)
        text = record.read_text() if record.exists() else ""
        if results.read_record(text)[1] or record.stat().st_size == before:
            return


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
    args = parser.parse_intermixed_args()

    known = results.read_known(args.known)
    comparisons, ran = [], []
    for file in args.files or FILES:
        outcomes = {}
        for backend, platforms in (("cpu", "cpu"), ("hloc", "hloc,cpu")):
            record = (args.results / backend / f"{file}.jsonl").resolve()
            record.parent.mkdir(parents=True, exist_ok=True)
            if backend == "hloc" and not args.resume:
                record.unlink(missing_ok=True)
            if not (record.exists() and results.read_record(record.read_text())[1]):
                variables = environment(platforms, args.cases, record, args.limit, args.slice)
                run_file(args.checkout.resolve(), file, record, variables, args.limit)
            outcomes[backend] = results.read_record(record.read_text() if record.exists() else "")[
                0
            ]
        row = results.compare(file, outcomes["cpu"], outcomes["hloc"])
        comparisons.append(row)
        ran += [test for test in outcomes["hloc"] if test in outcomes["cpu"]]
        print(f"{file:30} {row.passed_on_cpu:5} {len(row.failures):4} fail", flush=True)
        (args.results / "table.md").write_text(results.table(comparisons, known))

    new = results.unlisted(comparisons, known)
    gone = results.outdated(comparisons, known, ran)
    print(results.table(comparisons, known))
    for line in gone:
        print(f"listed as failing, but passes: {line.pattern}")
    return 1 if new or gone else 0


if __name__ == "__main__":
    sys.exit(main())
