"""Orders: operands first, copies late, readers before writers, new loop state last."""

import hloc
from hloc.codegen.lowering import lower
from hloc.memory.schedule import schedule_computation, schedule_module, store_schedule
from hloc.options import CompileOptions
from tests.unit.memory.random_programs import random_module


def order_of(text: str) -> list[str]:
    module = hloc.parse(text)
    return [inst.name for inst in schedule_computation(module.entry)]


def test_operands_come_first_in_random_programs() -> None:
    for seed in range(30):
        module = hloc.parse(random_module(seed))
        lower(module, CompileOptions())
        schedule = schedule_module(module)
        for computation in schedule:
            seen = set()
            for inst in schedule.order(computation):
                assert all(operand in seen for operand in inst.operands)
                seen.add(inst)
            assert seen == set(computation.instructions)


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
    schedule = schedule_module(module)
    store_schedule(module, schedule)
    again = hloc.parse(str(module))
    assert again.config.is_scheduled
    found = schedule_module(again)
    names = {c.name: [i.name for i in found.order(c)] for c in found}
    assert names == {c.name: [i.name for i in schedule.order(c)] for c in schedule}
