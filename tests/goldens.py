"""Golden files: HLO text before and after passes, many small cases in one file.

    // CASE: negate of negate is the operand
    // PASSES: algebraic-simplifier
    // FIRES: negate-negate
    (module)
    // EXPECT
    (module)
    // -----

`UNCHANGED` in place of `EXPECT` says that the passes do nothing. `FAST-MATH` allows rules that are
not exact. `RUNS` in place of `PASSES` and `EXPECT` says that the module compiles at -O0 and -O2 and
that both agree with the evaluator. `pytest --update-golden` writes the expected texts anew.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hloc
from fuzz.agreement import check
from hloc.evaluator.devices import evaluate_devices
from hloc.ir.device_groups import module_devices
from hloc.ir.module import Module
from hloc.ir.sharded_signature import is_per_device, sharded_signature
from hloc.ir.traversal import all_instructions
from hloc.ir.verifier import verify
from hloc.ops.participants import devices_reason
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline
from hloc.runtime.shards import cut_all, join_all
from tests.inputs import inputs_for
from tests.tolerance import assert_close

GOLDEN = Path(__file__).parent / "golden"
SEPARATOR = "// -----\n"

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Case:
    """One golden case; `expected` is "" where nothing may change."""

    file: Path
    name: str
    passes: str
    fires: tuple[str, ...]
    fast_math: bool
    unchanged: bool
    runs: bool
    text: str
    expected: str

    def __str__(self) -> str:
        return f"{self.file.stem}: {self.name}"

    def written(self) -> str:
        """Return the text of the case in its file."""
        if self.runs:
            return f"// CASE: {self.name}\n// RUNS\n{self.text.strip()}\n"
        head = [f"// CASE: {self.name}", f"// PASSES: {self.passes}"]
        if self.fires:
            head.append(f"// FIRES: {', '.join(self.fires)}")
        if self.fast_math:
            head.append("// FAST-MATH")
        if self.unchanged:
            return "\n".join([*head, "// UNCHANGED", self.text.strip()]) + "\n"
        return "\n".join([*head, self.text.strip(), "// EXPECT", self.expected.strip()]) + "\n"


def read_cases(file: Path) -> list[Case]:
    """Read all cases of a golden file."""
    return [_case(file, part) for part in file.read_text().split(SEPARATOR) if part.strip()]


def _case(file: Path, part: str) -> Case:
    head: dict[str, str] = {}
    body: list[str] = []
    expected: list[str] | None = None
    for line in part.strip().splitlines():
        if expected is not None:
            expected.append(line)
        elif line.strip() == "// EXPECT":
            expected = []
        elif line.startswith("// ") and not body:
            key, _, value = line[3:].partition(":")
            head[key.strip()] = value.strip()
        else:
            body.append(line)
    unknown = set(head) - {"CASE", "PASSES", "FIRES", "FAST-MATH", "UNCHANGED", "RUNS"}
    assert not unknown, f"{file}: unknown header lines {sorted(unknown)}"
    ways = sum(("UNCHANGED" in head, "RUNS" in head, expected is not None))
    assert ways == 1, f"{file}: {head['CASE']}: one of EXPECT, UNCHANGED, RUNS"
    assert ("PASSES" in head) != ("RUNS" in head), f"{file}: {head['CASE']}: PASSES or RUNS"
    return Case(
        file,
        head["CASE"],
        head.get("PASSES", ""),
        tuple(f.strip() for f in head.get("FIRES", "").split(",") if f.strip()),
        "FAST-MATH" in head,
        "UNCHANGED" in head,
        "RUNS" in head,
        "\n".join(body),
        "\n".join(expected or ()),
    )


def all_cases(folder: str) -> Iterator[Case]:
    """Yield the cases of every file in `tests/golden/folder`."""
    for file in sorted((GOLDEN / folder).glob("*.hlo")):
        yield from read_cases(file)


def run_case(case: Case, *, update: bool) -> str:
    """Run the passes, check what the case says, and return the text of the result.

    A module that changes is evaluated before and after on the same inputs, and results compared.
    With `update` the text itself is not compared.
    """
    module = hloc.parse(case.text)
    if case.runs:
        check(module, inputs_for(module), "table")
        return case.text
    before_text = module.to_text("short")
    context = PassContext(fast_math=case.fast_math)
    changed = Pipeline.parse(case.passes, check_changed=True).run(module, context)
    verify(module)
    after_text = module.to_text("short")
    fired = {by.rpartition("/")[2] for by in context.fired}
    assert set(case.fires) <= fired, f"fired: {sorted(fired)}"
    if case.unchanged:
        assert not changed
        assert after_text == before_text
    else:
        assert changed
        before = hloc.parse(case.text)
        if is_per_device(module) and not is_per_device(before):
            found, wanted = _partitioned(module, before)
        else:
            found, wanted = _results(module), _results(before)
        results = zip(found, wanted, strict=True)
        for i, (got, want) in enumerate(results):
            assert_close(got, want, f"result {i} after the passes")
    if not update and not case.unchanged:
        assert after_text.strip() == case.expected.strip()
    check_runs_twice(module, case)
    return after_text


def _results(module: Module) -> list[Array]:
    """Return the results on seeded inputs, those of all devices if the module runs on several."""
    count = module_devices(module).total
    if count == 1:
        assert not any(map(devices_reason, all_instructions(module))), "nothing may change"
        return hloc.evaluate(module, *inputs_for(module))
    each = [inputs_for(module, seed) for seed in range(count)]
    found = evaluate_devices(module, list(zip(*each, strict=True)))
    return [array for arrays in found for array in arrays]


def _partitioned(module: Module, before: Module) -> tuple[list[Array], list[Array]]:
    """Return the results of the program of one device on all, joined, and those of the whole."""
    inputs, signature = inputs_for(before), sharded_signature(module)
    found = join_all(evaluate_devices(module, cut_all(inputs, signature)), signature)
    assert all(whole is not None for whole in found)
    return [w for w in found if w is not None], hloc.evaluate(before, *inputs)


def check_runs_twice(module: Module, case: Case) -> None:
    """Running a pass again is safe: the result still verifies."""
    Pipeline.parse(case.passes, check_changed=True).run(
        module, PassContext(fast_math=case.fast_math)
    )
    verify(module)


def update_file(file: Path) -> None:
    """Write the expected texts of `file` anew."""
    cases = [
        case if case.unchanged or case.runs else replace(case, expected=run_case(case, update=True))
        for case in read_cases(file)
    ]
    file.write_text(SEPARATOR.join(case.written() for case in cases))


def golden_parameters(folder: str) -> list[object]:
    """Return the cases as pytest parameters."""
    return [pytest.param(case, id=str(case).replace(" ", "-")) for case in all_cases(folder)]
