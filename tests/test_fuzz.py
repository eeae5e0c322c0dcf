"""The fuzzer: a few modules in the default run, and proof that planted faults are found and shrunk.

`make fuzz` runs many more (fuzz/__main__.py).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fuzz import campaign, damage, valgrind
from fuzz.agreement import TABLE, disagreement
from fuzz.campaign import faults_of, findings
from fuzz.cases import structured
from fuzz.isolation import Limits, Send, isolated
from fuzz.program import Program, random_program
from fuzz.shrink import golden_text, shrink
from fuzz.ways import GUARDED, LEVELS, Fault, Way
from hloc.errors import HloError
from hloc.ir.traversal import all_instructions
from hloc.ir.verifier import verify
from hloc.ops import OPCODES
from hloc.opt.pattern import P
from hloc.opt.registry import forget_registered, register_rules
from hloc.opt.rule import Rule
from tests.goldens import read_cases

LIMITS = Limits(seconds=20)


def nothing(value: Any) -> None:
    """Stand for the parent of a child process."""


def first_fault(way: Way, opcode: str) -> tuple[Program, Fault]:
    """Return the first short program with `opcode` in which `way` differs from the evaluator."""
    for seed in range(2000):
        program = random_program(seed, steps=1)
        if any(inst.is_a(opcode) for inst in program.module.entry.instructions):
            for fault in faults_of(program, (way,), nothing):
                return program, fault
    raise AssertionError("no program shows the fault")


@pytest.mark.parametrize("first", range(0, 24, 4))
def test_random_modules_agree_with_the_evaluator(first: int) -> None:
    for seed in range(first, first + 4):
        program = random_program(seed)
        verify(program.module)
        faults = [str(fault) for fault in faults_of(program, (LEVELS[0], LEVELS[2]), nothing)]
        assert faults == [], f"seed {seed}"


def test_sums_of_products_that_cancel_may_be_contracted_and_no_more() -> None:
    """`x * x - x * x` is the rounding of a product in one instruction, zero in two."""
    product, none = np.float32(1.1) ** 2, np.zeros(1, np.float32)
    half_unit = np.spacing(product) / 2
    rule = f"{TABLE} {product}"
    assert disagreement(none + half_unit, none, TABLE) is not None
    assert disagreement(none + half_unit, none, rule) is None
    assert disagreement(none + 20 * half_unit, none, rule) is not None


def test_random_modules_stay_inside_their_arrays() -> None:
    def work(send: Send) -> None:
        for seed in range(30, 36):
            for fault in faults_of(random_program(seed), GUARDED, send):
                send(fault)

    outcome = isolated(work, LIMITS)
    assert outcome.ending == "", outcome.sent[-1]
    assert [value for value in outcome.sent if isinstance(value, Fault)] == []


@pytest.mark.skipif(
    not (shutil.which("valgrind") and shutil.which("cc")), reason="needs valgrind and a C compiler"
)
@pytest.mark.parametrize(
    ("right", "wrong", "found"),
    [
        ("", "", ""),
        ("malloc({p}_out[i])", "malloc({p}_out[i] - 1)", "Invalid write"),
        ("if ({p}_run(", "if (0 && {p}_run(", "points to uninitialised"),
    ],
)
def test_valgrind_sees_accesses_outside_of_arrays_and_undefined_results(
    right: str, wrong: str, found: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert right in valgrind.DRIVER
    monkeypatch.setattr(valgrind, "DRIVER", valgrind.DRIVER.replace(right, wrong))
    cases = valgrind.cases_of(3)
    assert len(cases) == 2
    valgrind.build(tmp_path, cases)
    said = valgrind.faults_of(tmp_path, [0, 1])
    assert found in said if found else said == ""


def test_a_seed_gives_the_same_module() -> None:
    assert str(random_program(5).module) == str(random_program(5).module)
    assert str(random_program(5).module) != str(random_program(6).module)


def test_every_opcode_is_made_or_has_a_reason() -> None:
    made = {
        inst.opcode.name
        for seed in range(400)
        for inst in all_instructions(random_program(seed).module)
    }
    refused = {name for name, row in OPCODES.items() if row.refusal}
    assert set(OPCODES) - made == refused | set(structured.NOT_DRAWN) - {"parameter"}


# ---------------------------------------------------------------- planted faults


@pytest.fixture
def wrong_rule() -> Iterator[None]:
    x, y = P(bind="x"), P(bind="y")
    register_rules(
        Rule(
            "plus-for-minus",
            P("subtract", (x, y)),
            lambda c, inst, found: c.add(OPCODES["add"], inst.shape, [found["x"], found["y"]]),
        )
    )
    yield
    forget_registered()


@pytest.mark.usefixtures("cache_folder", "wrong_rule")
def test_a_wrong_rule_is_found_and_shrunk(tmp_path: Path) -> None:
    program, fault = first_fault(LEVELS[2], "subtract")
    shrunk = shrink(program, fault, LIMITS, 30)
    names = [inst.opcode.name for inst in all_instructions(shrunk.module)]
    assert "subtract" in names
    assert len(names) <= 4
    file = tmp_path / "finding.hlo"
    file.write_text(golden_text(shrunk, program.seed, fault))
    (case,) = read_cases(file)
    assert case.runs
    assert "subtract" in case.text


@pytest.mark.usefixtures("cache_folder")
def test_a_wrong_sign_in_an_emitter_is_found_and_shrunk() -> None:
    row = OPCODES["multiply"]
    right = row.elemental
    assert right is not None

    def wrong(b: Any, inst: Any, x: Any, y: Any) -> Any:
        value = right(b, inst, x, y)
        return b.fneg(value) if inst.array.dtype.is_float else value

    object.__setattr__(row, "elemental", wrong)
    try:
        program, fault = first_fault(LEVELS[0], "multiply")
        shrunk = shrink(program, fault, LIMITS, 30)
    finally:
        object.__setattr__(row, "elemental", right)
    assert fault.kind == "answer"
    names = [inst.opcode.name for inst in all_instructions(shrunk.module)]
    assert "multiply" in names
    assert len(names) <= 4


def test_an_exception_of_the_parser_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    parse: Any = vars(damage)["parse"]

    def wrong(source: Any, **options: Any) -> Any:
        if "1e999" in source.text:
            raise KeyError("exponent")
        return parse(source, **options)

    monkeypatch.setattr(damage, "parse", wrong)
    found: list[Any] = []
    for seed in range(600):
        campaign.KINDS["texts"].check(seed, found.append)
    faults = {f.fault.message for f in found if isinstance(f, campaign.Finding)}
    assert faults == {"KeyError: 'exponent'"}


def test_damaged_texts_and_protos_are_read_or_refused() -> None:
    found: list[Any] = []
    for seed in range(200):
        for kind in damage.CHECKS:
            campaign.KINDS[kind].check(seed, found.append)
    assert [str(f.fault) for f in found if isinstance(f, campaign.Finding)] == []


# ---------------------------------------------------------------- processes


def test_a_crash_and_a_hang_become_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(seed: int, send: Send) -> None:
        send((seed, "here"))
        if seed == 2:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGSEGV)
        while seed == 3:
            pass

    monkeypatch.setitem(campaign.KINDS, "bad", campaign.Kind(check, 10, Limits(seconds=0.2)))
    found = [f for f in findings("bad", range(5)) if isinstance(f, campaign.Finding)]
    assert [(f.seed, f.fault.kind) for f in found] == [(2, "signal SIGSEGV"), (3, "too slow")]


def test_too_much_memory_is_an_ending() -> None:
    outcome = isolated(lambda send: send(len(bytes(8 << 30))), Limits(5, 4 << 30))
    assert outcome.ending == "exit 12"


def test_an_error_is_told_by_its_place() -> None:
    fault = Fault.of("way", HloError("bad x.5"))
    assert fault.kind == "refusal"
    assert fault.signature == Fault.of("way", HloError("bad x.7")).signature
