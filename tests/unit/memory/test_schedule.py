"""Orders: operands first, copies late, readers before writers, new loop state last."""

import random

import pytest

import hloc
from hloc.analysis.dataflow import analyse_dataflow
from hloc.analysis.memory_peak import memory_facts, peak_of
from hloc.codegen.lower.lowering import lower
from hloc.ir.opcode import opcode_row
from hloc.ir.traversal import post_order
from hloc.memory.schedule import (
    HEURISTICS,
    Heuristic,
    schedules,
    store_schedule,
)
from hloc.options import CompileOptions
from tests.unit.memory.random_programs import random_module


def order_of(text: str) -> list[str]:
    module = hloc.parse(text)
    schedule = schedules(module, heuristics=("post-order",))[0]
    return [inst.name for inst in schedule.order(module.entry)]


def test_operands_come_first_in_random_programs() -> None:
    for seed in range(30):
        module = hloc.parse(random_module(seed))
        lower(module, CompileOptions())
        schedule = schedules(module)[0]
        for computation in schedule:
            seen = set()
            for inst in schedule.order(computation):
                assert all(operand in seen for operand in inst.operands)
                seen.add(inst)
            assert seen == set(computation.instructions)


@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_every_heuristic_keeps_all_dependencies(heuristic: Heuristic) -> None:
    """Control dependencies too, which are added at random here."""
    for seed in range(20):
        module = hloc.parse(random_module(seed))
        lower(module, CompileOptions())
        rng = random.Random(seed)
        for computation in module.computations:
            order = post_order(computation)
            for _ in range(len(order) // 3):
                before, after = sorted(rng.sample(range(len(order)), 2))
                if order[before] not in order[after].control_predecessors:
                    computation.set_control_predecessors(
                        order[after], [*order[after].control_predecessors, order[before]]
                    )
        schedule = schedules(module, heuristics=(heuristic,))[0]
        for computation in schedule:
            seen = set()
            for inst in schedule.order(computation):
                assert all(i in seen for i in (*inst.operands, *inst.control_predecessors))
                seen.add(inst)
            assert seen == set(computation.instructions)


def test_the_order_with_the_lowest_peak_is_taken() -> None:
    """Both wide arrays at once take 800 bytes, one after the other 400."""
    module = hloc.parse(
        """HloModule m
        add { v = f32[] parameter(0)  w = f32[] parameter(1)  ROOT s = f32[] add(v, w) }
        ENTRY e {
          p = f32[10,10] parameter(0)
          z = f32[] constant(0)
          a = f32[10,10] reverse(p), dimensions={0}
          b = f32[10,10] reverse(p), dimensions={1}
          x = f32[10] reduce(a, z), dimensions={0}, to_apply=add
          y = f32[10] reduce(b, z), dimensions={0}, to_apply=add
          ROOT r = f32[10] add(x, y)
        }"""
    )
    dataflow = analyse_dataflow(module)
    facts = memory_facts(module.entry, dataflow, {})
    order = schedules(module)[0].order(module.entry)
    assert peak_of(order, facts).size_bytes == 400 + 40 + 40
    worst = sorted(order, key=lambda inst: (inst.opcode.name != "reverse", order.index(inst)))
    worst.sort(key=lambda inst: not inst.is_a("parameter", "constant"))
    assert peak_of(worst, facts).size_bytes == 800 + 40


def test_an_instruction_added_to_a_stored_schedule_runs_right_before_its_user() -> None:
    module = hloc.parse(random_module(7))
    lower(module, CompileOptions())
    store_schedule(module, schedules(module)[0])
    entry = module.entry
    user = next(i for i in reversed(entry.instructions) if i.operands and not i.is_a("tuple"))
    copy = entry.add(opcode_row("negate"), user.operands[0].shape, [user.operands[0]])
    entry.set_operands(user, [copy, *user.operands[1:]])
    order = schedules(module)[0].order(entry)
    assert order.index(copy) < order.index(user)
    assert set(order) == set(entry.instructions)


def test_a_reader_runs_before_the_update_in_place() -> None:
    order = order_of(
        """HloModule m
        ENTRY e {
          p = f32[8] parameter(0)
          i = s32[] parameter(1)
          a = f32[8] negate(p)
          u = f32[2] slice(p), slice={[0:2]}
          d = f32[8] dynamic-update-slice(a, u, i)
          r = f32[8] reverse(a), dimensions={0}
          ROOT t = (f32[8], f32[8]) tuple(d, r)
        }"""
    )
    assert order.index("r") < order.index("d")


def test_a_loop_that_reads_an_array_runs_before_the_update_in_place() -> None:
    order = order_of(
        """HloModule m
        condition {
          s = (s32[], f32[8]) parameter(0)
          n = s32[] get-tuple-element(s), index=0
          ten = s32[] constant(10)
          ROOT c = pred[] compare(n, ten), direction=LT
        }
        body {
          s = (s32[], f32[8]) parameter(0)
          n = s32[] get-tuple-element(s), index=0
          x = f32[8] get-tuple-element(s), index=1
          y = f32[1] dynamic-slice(x, n), dynamic_slice_sizes={1}
          i = s32[1] convert(y)
          k = s32[] reshape(i)
          ROOT t = (s32[], f32[8]) tuple(k, x)
        }
        ENTRY e {
          p = f32[8] parameter(0)
          i = s32[] parameter(1)
          a = f32[8] negate(p)
          u = f32[2] slice(p), slice={[0:2]}
          d = f32[8] dynamic-update-slice(a, u, i)
          start = (s32[], f32[8]) tuple(i, a)
          w = (s32[], f32[8]) while(start), condition=condition, body=body
          n = s32[] get-tuple-element(w), index=0
          ROOT t = (f32[8], s32[]) tuple(d, n)
        }"""
    )
    assert order.index("w") < order.index("d")


def test_a_reader_that_needs_the_update_stays_behind_it() -> None:
    order = order_of(
        """HloModule m
        ENTRY e {
          p = f32[8] parameter(0)
          i = s32[] parameter(1)
          a = f32[8] negate(p)
          u = f32[2] slice(p), slice={[0:2]}
          d = f32[8] dynamic-update-slice(a, u, i)
          ROOT r = f32[8] add(a, d)
        }"""
    )
    assert order.index("d") < order.index("r")


def test_control_predecessors_come_first() -> None:
    order = order_of(
        """HloModule m
        ENTRY e {
          p = f32[8] parameter(0)
          b = f32[8] abs(p)
          a = f32[8] negate(p), control-predecessors={b}
          ROOT t = (f32[8], f32[8]) tuple(a, b)
        }"""
    )
    assert order.index("b") < order.index("a")


def test_a_copy_waits_for_its_user() -> None:
    order = order_of(
        """HloModule m
        ENTRY e {
          p = f32[8] parameter(0)
          c = f32[8] copy(p)
          a = f32[8] negate(p)
          b = f32[8] abs(a)
          ROOT r = f32[8] add(c, b)
        }"""
    )
    assert order.index("c") > order.index("b")


def test_a_stored_schedule_is_kept() -> None:
    module = hloc.parse(random_module(7))
    lower(module, CompileOptions())
    schedule = schedules(module)[0]
    store_schedule(module, schedule)
    again = hloc.parse(str(module))
    assert again.config.is_scheduled
    found = schedules(again)[0]
    names = {c.name: [i.name for i in found.order(c)] for c in found}
    assert names == {c.name: [i.name for i in schedule.order(c)] for c in schedule}
