"""The checker of plans: sound plans pass, and each planted fault is named with its step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hloc
from hloc.codegen.cpu.backend import CpuBackend
from hloc.codegen.plan.check import check_plan
from hloc.codegen.plan.plan import (
    BranchStep,
    CallStep,
    CopyStep,
    HostStep,
    KernelStep,
    LoopStep,
    Plan,
    Step,
)
from hloc.codegen.plan.pointer_table import ARENA_SLOT, FIRST_SLOT, Place
from hloc.errors import InternalError
from hloc.options import CompileOptions

EXAMPLES = sorted(Path(__file__).parents[3].glob("examples/**/*.hlo"))

TEXT = """
HloModule steps, input_output_alias={ {0}: (0, {}, may-alias) }

less {
  s = (s32[], f32[64]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  end = s32[] constant(5)
  ROOT r = pred[] compare(n, end), direction=LT
}

step {
  s = (s32[], f32[64]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  m = s32[] add(n, one)
  x = f32[64] get-tuple-element(s), index=1
  y = f32[64] sine(x)
  ROOT r = (s32[], f32[64]) tuple(m, y)
}

double {
  x = f32[64] parameter(0)
  ROOT r = f32[64] add(x, x)
}

root {
  x = f32[64] parameter(0)
  ROOT r = f32[64] sqrt(x)
}

before {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = pred[] compare(p, q), direction=LT
}

ENTRY e {
  x = f32[64] parameter(0)
  i = s32[] parameter(1)
  a = f32[50000] parameter(2)
  table = f32[64] constant({...})
  start = (s32[], f32[64]) tuple(i, table)
  loop = (s32[], f32[64]) while(start), condition=less, body=step
  y = f32[64] get-tuple-element(loop), index=1
  z = f32[64] conditional(i, y, y), branch_computations={double, root}
  w = f32[64] exponential(x)
  sorted = f32[50000] sort(a), dimensions={0}, to_apply=before
  ROOT r = (f32[64], f32[64], f32[50000]) tuple(w, z, sorted)
}
"""
HOST = """
HloModule host
ENTRY e {
  x = f32[4,4] parameter(0)
  ROOT y = f32[4,4] custom-call(x), custom_call_target="hloc_test_plan_host"
}
"""


def plan_of(text: str) -> Plan:
    options = CompileOptions(opt_level=0, fill_constants="zeros")
    return CpuBackend().plan(hloc.parse(text), options).plan


@pytest.fixture(scope="module")
def sound() -> Plan:
    return plan_of(TEXT)


def changed(plan: Plan, kind: type[Any], change: Callable[[Any], Step]) -> Plan:
    """Return the plan with its first step of a kind changed."""
    found = False
    computations: list[tuple[Step, ...]] = []
    for steps in plan.computations:
        new: list[Step] = []
        for step in steps:
            if not found and isinstance(step, kind):
                found, step = True, change(step)
            new.append(step)
        computations.append(tuple(new))
    assert found
    return replace(plan, computations=tuple(computations))


def moved(step: KernelStep, number: int, place: Place) -> KernelStep:
    """Return the step with argument `number` at another place."""
    places = list(step.arguments)
    places[number] = place
    return replace(step, arguments=tuple(places))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_plans_of_the_examples_are_sound(path: Path) -> None:
    """At -O0; at other levels `plan_program` checks whatever a test compiles."""
    check_plan(plan_of(path.read_text()), CpuBackend().stack_bytes)


def test_all_kinds_of_steps_are_checked(sound: Plan) -> None:
    check_plan(sound, CpuBackend().stack_bytes)
    kinds = {type(step) for steps in sound.computations for step in steps}
    assert kinds >= {KernelStep, CopyStep, LoopStep, BranchStep}


FAULTS: dict[str, tuple[type[Any], Callable[[Any], Step], str]] = {
    "kernel number": (KernelStep, lambda s: replace(s, kernel=99), "kernels"),
    "too few arguments": (KernelStep, lambda s: replace(s, arguments=s.arguments[1:]), "arguments"),
    "no such slot": (KernelStep, lambda s: moved(s, 0, Place(77)), "holds no array"),
    "beyond the arena": (
        KernelStep,
        lambda s: moved(s, -1, Place(ARENA_SLOT, 1 << 20)),
        "bytes at 1048576 of slot 0",
    ),
    "before the arena": (KernelStep, lambda s: moved(s, -1, Place(ARENA_SLOT, -4)), "at -4"),
    "not aligned": (
        KernelStep,
        lambda s: moved(s, -1, Place(ARENA_SLOT, 2)),
        "not a multiple of 4",
    ),
    "writes a constant": (CopyStep, lambda s: replace(s, target=Place(FIRST_SLOT)), "constant"),
    "copies onto itself": (CopyStep, lambda s: replace(s, target=s.source), "overlap"),
    "copies too much": (CopyStep, lambda s: replace(s, elements=1 << 20), "bytes"),
    "copies nothing": (CopyStep, lambda s: replace(s, elements=0), "no bytes"),
    "loop body": (LoopStep, lambda s: replace(s, body=42), "computation"),
    "loop runs the entry": (LoopStep, lambda s: replace(s, body=0), "computation"),
    "loop predicate": (LoopStep, lambda s: replace(s, predicate=Place(0, 1 << 20)), "1 bytes"),
    "branch": (BranchStep, lambda s: replace(s, branches=(1, 42)), "computation"),
    "no branches": (BranchStep, lambda s: replace(s, branches=()), "0 branches"),
    "branch selector": (
        BranchStep,
        lambda s: replace(s, selector=replace(s.selector, offset=4)),
        "4 bytes at 4",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(sound: Plan, name: str) -> None:
    kind, change, message = FAULTS[name]
    with pytest.raises(InternalError, match=r"plan: step \d+ of computation \d+: ") as caught:
        check_plan(changed(sound, kind, change), CpuBackend().stack_bytes)
    assert message in str(caught.value)


def kernel(plan: Plan, opcode: str) -> KernelStep:
    """Return the call of the kernel of an opcode."""
    steps = (step for steps in plan.computations for step in steps)
    return next(
        step
        for step in steps
        if isinstance(step, KernelStep) and plan.kernels[step.kernel].inst.opcode.name == opcode
    )


def with_step(plan: Plan, old: Step, new: Step) -> Plan:
    """Return the plan with one step in the place of another."""
    computations = tuple(
        tuple(new if step is old else step for step in steps) for steps in plan.computations
    )
    return replace(plan, computations=computations)


def faulty(plan: Plan, old: Step, new: Step) -> str:
    """Return what is said of the plan with one step in the place of another."""
    with pytest.raises(InternalError) as caught:
        check_plan(with_step(plan, old, new), CpuBackend().stack_bytes)
    return str(caught.value)


def test_a_result_over_an_operand_must_be_planned(sound: Plan) -> None:
    step = kernel(sound, "exponential")
    assert step.in_place is not None
    assert "overlaps an operand" in faulty(sound, step, moved(step, 1, step.arguments[0]))


def test_the_pair_of_an_in_place_kernel(sound: Plan) -> None:
    step = kernel(sound, "exponential")
    assert step.in_place is not None
    wrong = replace(step.in_place, output=step.in_place.parameter)
    assert "writes no result over" in faulty(sound, step, replace(step, in_place=wrong))
    other = replace(step.in_place, kernel=kernel(sound, "sort").kernel)
    assert "has other arguments" in faulty(sound, step, replace(step, in_place=other))


def test_a_result_that_is_not_where_its_operand_is(sound: Plan) -> None:
    """The kernel was written for one address, so it gets one."""
    step = kernel(sound, "exponential")
    assert step.in_place is not None
    assert "does not share the place of operand 0" in faulty(
        sound, step, replace(step, kernel=step.in_place.kernel)
    )


def test_scratch_memory_is_apart(sound: Plan) -> None:
    step = kernel(sound, "sort")
    assert len(step.arguments) == 3
    over_result = moved(step, 1, step.arguments[2])
    assert "scratch memory, overlap" in faulty(sound, step, over_result)
    assert "arguments" in faulty(sound, step, replace(step, arguments=step.arguments[:2]))


def test_computations_do_not_call_themselves(sound: Plan) -> None:
    loop = next(s for steps in sound.computations for s in steps if isinstance(s, LoopStep))
    computations = list(sound.computations)
    computations[loop.body] = (*computations[loop.body], CallStep(loop.body))
    with pytest.raises(InternalError, match="call each other"):
        check_plan(replace(sound, computations=tuple(computations)), CpuBackend().stack_bytes)


def test_counts_of_the_table_and_keys(sound: Plan) -> None:
    with pytest.raises(InternalError, match="pointer table"):
        check_plan(replace(sound, table=replace(sound.table, outputs=9)))
    with pytest.raises(InternalError, match="keys"):
        check_plan(replace(sound, keys=sound.keys[:-1]))


def test_host_functions_and_their_slots() -> None:
    hloc.register_custom_call("hloc_test_plan_host", lambda x: x)
    plan = plan_of(HOST)
    check_plan(plan)
    (step,) = (step for step in plan.computations[0] if isinstance(step, HostStep))
    assert "host function" in faulty(plan, step, replace(step, function=3))
    assert "is not that of host function 0" in faulty(plan, step, replace(step, slot=0))
    assert "arguments" in faulty(plan, step, replace(step, arguments=step.arguments[:1]))
