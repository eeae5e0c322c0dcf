"""Every registered pass alone, on many modules: does the answer stay, and what does it change?

    python tests/pass_matrix.py [--seconds 150] [--corpus DIR] [PASS...]

A pass runs over each of our examples, the modules of tests/guarded, and a sample of the corpus if
it is there. What it changed is verified, evaluated, compiled as it stands and run; all answers are
compared with those of the evaluator on the module before. Its `changed` must be honest. Prints a
table of passes; exits with 1 if anything failed. Near the end of its time it no longer compiles,
then stops and says what was left.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from hloc import driver  # noqa: E402
from hloc.dtypes import Array  # noqa: E402
from hloc.errors import HloError, InternalError, UnsupportedError  # noqa: E402
from hloc.ir.clone import clone_module  # noqa: E402
from hloc.ir.module import Module  # noqa: E402
from hloc.ir.verifier import verify  # noqa: E402
from hloc.opt.pipeline import Pipeline  # noqa: E402
from hloc.opt.registry import PASSES  # noqa: E402
from hloc.report import answers  # noqa: E402

CORPUS = ROOT.parent / "shared" / "conformance" / "corpus" / "visible" / "modules"
MAX_BYTES = 12_000
SAMPLE = 40
SLOW_SECONDS = 1.0  # inputs on which the evaluator takes longer are left out


@dataclass(frozen=True)
class Subject:
    """A module with inputs and what it answers."""

    name: str
    module: Module
    inputs: tuple[answers.InputSet, ...]
    wanted: tuple[answers.Answer, ...]


@dataclass
class Row:
    """What a pass did: modules on which all was well, those it changed, and what went wrong."""

    ok: int = 0
    changed: int = 0
    compiled: int = 0
    failed: list[str] = field(default_factory=list)


def files(corpus: Path) -> list[Path]:
    """Return the examples, the guarded modules, and a sample of the corpus."""
    own = [*(ROOT / "examples").rglob("*.hlo"), *(ROOT / "tests" / "guarded").glob("*.hlo")]
    foreign = [path for path in sorted(corpus.rglob("*.hlo")) if path.stat().st_size < MAX_BYTES]
    return [*sorted(own), *foreign[:: max(1, len(foreign) // SAMPLE)][:SAMPLE]]


def subject(path: Path) -> Subject | None:
    """Return a module that runs in the evaluator in a short time, else None."""
    try:
        module = driver.load_module(str(path))
        if answers.is_random(module) or answers.is_too_large(module):
            return None
        inputs = tuple(answers.input_sets(module)[:2])
        wanted = tuple(answers.answer_of(module, each, evaluated) for each in inputs)
    except HloError:
        return None
    if wanted[0] is None:
        return None
    return Subject(path.name, module, inputs, wanted)


def evaluated(module: Module, arrays: Sequence[Array]) -> list[Array]:
    """Run `module` in the evaluator for a short time."""
    return answers.evaluated(module, arrays, SLOW_SECONDS)


def evaluated_longer(module: Module, arrays: Sequence[Array]) -> list[Array]:
    """Run what a pass made; it may be slower, but not without an end."""
    return answers.evaluated(module, arrays, 20 * SLOW_SECONDS)


def try_pass(name: str, on: Subject, row: Row, may_compile: bool) -> None:
    """Run pass `name` over `on` and add what came of it to `row`."""
    module = clone_module(on.module)
    try:
        changed = Pipeline.parse(name, check_changed=True).run(module)
        if changed:
            row.changed += 1
            verify(module)
    except (HloError, InternalError) as fault:
        row.failed.append(f"{on.name}: {str(fault).splitlines()[0]}")
        return
    found = ""
    if changed:
        found = answers.difference(module, on.inputs, on.wanted, evaluated_longer)
        if found.startswith(answers.ENDLESS):  # the evaluator is slow where comparators are long
            limited = answers.within(answers.compiled, 20 * SLOW_SECONDS)
            found = answers.difference(module, on.inputs, on.wanted, limited)
    if changed and may_compile and not found:
        found = compiled_difference(module, on)
        row.compiled += 1
    if found:
        row.failed.append(f"{on.name}: {found}")
    else:
        row.ok += 1


def compiled_difference(module: Module, on: Subject) -> str:
    """Compile `module` as it stands, run it, and return where its answers differ."""
    try:
        executable = driver.compile_as_it_stands(module)
    except UnsupportedError:
        return ""
    except HloError as fault:
        return f"it cannot be compiled any more: {fault.message}"
    run = answers.difference(module, on.inputs, on.wanted, lambda _, arrays: executable(*arrays))
    if not run or answers.difference(on.module, on.inputs, on.wanted, answers.compiled):
        return ""  # no fault of the pass if the module compiled without it is no better
    return f"compiled: {run}"


def table(rows: dict[str, Row]) -> str:
    """Return the table of passes."""
    width = max(map(len, rows)) + 2
    lines = [f"{'pass':{width}s}{'ok':>6s}{'changed':>9s}{'compiled':>10s}{'failed':>8s}"]
    for name, row in rows.items():
        counts = f"{row.ok:6d}{row.changed:9d}{row.compiled:10d}{len(row.failed):8d}"
        lines.append(f"{name:{width}s}{counts}")
        lines += [f"    {fault[:180]}" for fault in row.failed[:5]]
    return "\n".join(lines)


def matrix(passes: Sequence[str], paths: Sequence[Path], seconds: float) -> tuple[str, bool]:
    """Return the table of `passes` over `paths`, and whether all was well."""
    end = time.monotonic() + seconds
    subjects = [found for path in paths if (found := subject(path)) is not None]
    rows: dict[str, Row] = {name: Row() for name in passes}
    left = len(passes) * len(subjects)
    for on in subjects:
        for name in passes:
            rest = end - time.monotonic()
            if rest > 0:
                try_pass(name, on, rows[name], may_compile=rest > seconds / 4)
                left -= 1
    text = f"{len(subjects)} of {len(paths)} modules run in the evaluator\n{table(rows)}"
    if left:
        text += f"\nthe time was over with {left} of {len(passes) * len(subjects)} pairs left"
    return text, not any(row.failed for row in rows.values())


def main(words: Sequence[str]) -> int:
    """Print the table; 1 if a pass failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    parser.add_argument("passes", nargs="*")
    found = parser.parse_args(words)
    text, well = matrix(found.passes or sorted(PASSES), files(found.corpus), found.seconds)
    print(text)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
