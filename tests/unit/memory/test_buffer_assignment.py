"""No two live arrays share memory, and sharing that is possible happens."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloc
from hloc.codegen.lower.lowering import lower
from hloc.ir.instruction import Instruction
from hloc.memory.allocation import ARENA, CONSTANT, OUTPUT, PARAMETER, Slice
from hloc.memory.assigned_buffers import Buffer, BufferAssignment
from hloc.memory.buffer_assignment import assign_buffers
from hloc.memory.heap import aligned
from hloc.memory.memory_plan import plan_memory
from hloc.memory.schedule import Schedule, schedules
from hloc.options import CompileOptions
from tests.unit.memory.random_programs import random_module
from tests.unit.memory.simulator import Simulator

LOOP = """HloModule loop

condition {
  state = (s32[], f32[100], f32[100]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  n = s32[] constant(5)
  ROOT more = pred[] compare(i, n), direction=LT
}

body {
  state = (s32[], f32[100], f32[100]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  a = f32[100] get-tuple-element(state), index=1
  b = f32[100] get-tuple-element(state), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  BODY
  ROOT result = (s32[], f32[100], f32[100]) tuple(next, A, B)
}

ENTRY main {
  p = f32[100] parameter(0)
  q = f32[100] parameter(1)
  x = f32[100] negate(p)
  y = f32[100] negate(q)
  zero = s32[] constant(0)
  initial = (s32[], f32[100], f32[100]) tuple(zero, x, y)
  ROOT loop = (s32[], f32[100], f32[100]) while(initial), condition=condition, body=body
}
"""


def scratch_bytes(inst: Instruction) -> int:
    return 100 if inst.is_a("add") else 0


def assigned(text: str) -> tuple[Schedule, BufferAssignment]:
    module = hloc.parse(text)
    lower(module, CompileOptions())
    schedule = schedules(module)[0]
    return schedule, assign_buffers(module, schedule, scratch_bytes)


def loop(instructions: str, a: str, b: str) -> BufferAssignment:
    text = LOOP.replace("BODY", instructions).replace("(next, A, B)", f"(next, {a}, {b})")
    return assigned(text)[1]


@settings(max_examples=75, deadline=None)
@given(seed=st.integers(0, 10**6), choices=st.integers(0, 5))
def test_arrays_stay_whole_until_their_last_use(seed: int, choices: int) -> None:
    """Random loops, branches and calls that swap, duplicate, hand on and update their state."""
    module = hloc.parse(random_module(seed))
    lower(module, CompileOptions())
    schedule = schedules(module)[0]
    assignment = assign_buffers(module, schedule, scratch_bytes)
    Simulator(schedule, assignment, choices).run(module.entry)


def test_the_simulator_notices_an_overlap() -> None:
    schedule, assignment = assigned(
        """HloModule m
        ENTRY e {
          p = f32[100] parameter(0)
          a = f32[100] negate(p)
          b = f32[100] reverse(a), dimensions={0}
          c = f32[100] reverse(b), dimensions={0}
          d = f32[100] multiply(a, b)
          f = f32[100] multiply(d, c)
          ROOT g = f32[100] reverse(f), dimensions={0}
        }"""
    )
    entry = next(c for c in schedule if c.name == "e")
    Simulator(schedule, assignment, 0).run(entry)
    broken = replace(assignment, _slices=tuple(replace(s, offset=0) for s in assignment._slices))
    with pytest.raises(AssertionError, match="was overwritten"):
        Simulator(schedule, broken, 0).run(entry)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_buffers_in_use_at_one_time_do_not_overlap(seed: int) -> None:
    """Nor is the arena smaller than its bound, or larger than the sum.

    Looks at times and places only, those of temporaries in outputs among them.
    """
    module = hloc.parse(random_module(seed))
    lower(module, CompileOptions())
    _, assignment = plan_memory(module, scratch_bytes)
    total = sum(aligned(b.place.size_bytes) for b in assignment.buffers if b.place.kind == ARENA)
    assert assignment.report.peak_bytes <= assignment.arena_bytes <= total
    buffers = [b for b in assignment.buffers if b.place.kind not in (CONSTANT, PARAMETER)]
    for i, a in enumerate(buffers):
        size = assignment.arena_bytes
        if a.place.kind == OUTPUT:
            size = assignment.outputs[a.place.number].size_bytes
        assert 0 <= a.place.offset <= a.place.offset + a.place.size_bytes <= size
        assert all(value.size_bytes == a.place.size_bytes for value in a.values)
        for b in buffers[:i]:
            assert not (_share_bytes(a.place, b.place) and _meet(a, b)), f"{a.inst} and {b.inst}"


def _share_bytes(a: Slice, b: Slice) -> bool:
    return (
        (a.kind, a.number) == (b.kind, b.number)
        and a.offset < b.offset + b.size_bytes
        and b.offset < a.offset + a.size_bytes
    )


def _meet(a: Buffer, b: Buffer) -> bool:
    return any(p <= last and first <= q for p, q in a.busy for first, last in b.busy)


def test_a_temporary_lies_in_an_output_that_is_not_written_yet() -> None:
    module = hloc.parse(
        """HloModule m
        ENTRY e {
          p = f32[100] parameter(0)
          a = f32[100] reverse(p), dimensions={0}
          b = f32[100] reverse(a), dimensions={0}
          ROOT c = f32[100] reverse(b), dimensions={0}
        }"""
    )
    schedule, assignment = plan_memory(module)
    assert assignment.arena_bytes == 400
    Simulator(schedule, assignment, 0).run(module.entry)
    assert plan_memory(module, share_outputs=False)[1].arena_bytes == 448 + 400


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_compiled_loops_equal_the_evaluator(seed: int) -> None:
    text = random_module(seed)
    module = hloc.parse(text)
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(-3, 4, (6, 2, 2)).astype(np.float32) for _ in module.entry.parameters]
    before = [array.copy() for array in arrays]
    expected = hloc.evaluate(module, *arrays)
    found = hloc.compile(module, opt_level=0)(*arrays)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)
    for x, y in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(x, y, err_msg="an argument was overwritten")


@pytest.mark.parametrize("opt_level", [0, 2])
def test_arrays_of_two_layouts_change_places_in_a_loop(opt_level: int) -> None:
    """The copies change layouts, so that kernels read and write bitcasts of the state."""
    text = LOOP.replace("tuple(next, A, B)", "tuple(next, b, a)").replace("BODY", "")
    rows, columns = "f32[8,2,2,17]{3,2,1,0}", "f32[8,2,2,17]{1,3,2,0}"
    text = text.replace("(s32[], f32[100], f32[100])", f"(s32[], {rows}, {columns})")
    for name, shape in (("a", rows), ("q", columns), ("b", columns), ("y", columns)):
        text = text.replace(f"{name} = f32[100]", f"{name} = {shape}")
    module = hloc.parse(text.replace("f32[100]", rows))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((8, 2, 2, 17), np.float32) for _ in range(2)]
    expected = hloc.evaluate(module, *arrays)
    found = hloc.compile(module, opt_level=opt_level)(*arrays)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)


def test_state_that_the_body_hands_on_costs_nothing() -> None:
    """Only the counter has copies: its zero is a constant, its update is in place."""
    report = loop("", "a", "b").report
    assert (report.copies, report.copies_elided) == (2, 1)


def test_an_update_of_state_is_in_place() -> None:
    report = loop(
        "s = f32[3] slice(b), slice={[0:3]}\n u = f32[100] dynamic-update-slice(a, s, i)", "u", "b"
    ).report
    assert report.copies - report.copies_elided == 1  # the counter's zero


def test_elementwise_state_is_in_place() -> None:
    report = loop("u = f32[100] negate(a)\n v = f32[100] negate(b)", "u", "v").report
    assert report.copies - report.copies_elided == 1  # the counter's zero


def test_a_swap_needs_three_copies() -> None:
    report = loop("", "b", "a").report
    assert report.copies - report.copies_elided == 1 + 3


def test_a_loop_writes_its_state_into_the_outputs() -> None:
    assignment = loop("u = f32[100] negate(a)\n v = f32[100] negate(b)", "u", "v")
    kinds = {s.kind for s in assignment._slices if s.size_bytes == 400}
    assert kinds == {"parameter", "output"}


def test_a_parameter_is_never_overwritten() -> None:
    _, assignment = assigned(
        """HloModule m
        ENTRY e {
          p = f32[8] parameter(0)
          u = f32[2] constant({1, 2})
          i = s32[] constant(3)
          ROOT d = f32[8] dynamic-update-slice(p, u, i)
        }"""
    )
    assert assignment.report.in_place == 0


def test_an_operand_that_is_read_twice_is_not_overwritten() -> None:
    """A kernel is told of one operand that it overwrites."""
    _, assignment = assigned(
        """HloModule m
        ENTRY e {
          p = f32[8] parameter(0)
          a = f32[8] negate(p)
          ROOT d = f32[8] multiply(a, a)
        }"""
    )
    assert assignment.report.in_place == 0


def test_equal_constants_are_stored_once() -> None:
    _, assignment = assigned(
        """HloModule m
        ENTRY e {
          a = f32[2] constant({1, 2})
          b = f32[2] constant({1, 2})
          c = f32[2] constant({1, -0})
          d = f32[2] add(a, b)
          ROOT r = f32[2] add(d, c)
        }"""
    )
    assert len(assignment.constants) == 2


def test_arrays_without_elements_and_tokens_take_no_memory() -> None:
    _, assignment = assigned(
        """HloModule m
        ENTRY e {
          p = (f32[0,4], token[], f32[2]) parameter(0)
          a = f32[0,4] get-tuple-element(p), index=0
          b = f32[0,4] negate(a)
          ROOT t = (f32[0,4]) tuple(b)
        }"""
    )
    assert assignment.report.arena_bytes == 0
    assert len(assignment.parameters) == 2
    assert len(assignment.outputs) == 1


def test_a_long_chain_needs_no_arena() -> None:
    lines = "\n".join(f"  x{i + 1} = f32[64] negate(x{i})" for i in range(2000))
    _, assignment = assigned(
        f"HloModule m\nENTRY e {{\n  x0 = f32[64] parameter(0)\n{lines}\n"
        "  ROOT r = f32[64] abs(x2000)\n}"
    )
    assert assignment.report.arena_bytes == 0
