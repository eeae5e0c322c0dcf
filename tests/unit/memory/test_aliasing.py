"""Outputs in the memory of parameters: no array is lost, and what can be shared is."""

import random
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import hloc
from hloc.codegen.lower.lowering import lower
from hloc.ir.attributes import Alias
from hloc.ir.module import Module
from hloc.memory.assigned_buffers import BufferAssignment
from hloc.memory.buffer_assignment import assign_buffers
from hloc.memory.memory_plan import plan_memory
from hloc.memory.schedule import schedules
from hloc.options import CompileOptions
from tests.unit.memory.random_programs import random_module
from tests.unit.memory.simulator import Simulator


def aliased_randomly(seed: int) -> Module:
    """Return a random module of loops and branches whose parameters are aliases or donors."""
    module = hloc.parse(random_module(seed))
    rng = random.Random(seed + 1)
    outputs = list(range(len(module.entry.root.operands)))
    rng.shuffle(outputs)
    aliases, donors = [], []
    for number in range(len(module.entry.parameters)):
        if outputs and rng.random() < 0.6:
            aliases.append(Alias((outputs.pop(),), number, (), rng.random() < 0.5))
        elif rng.random() < 0.6:
            donors.append((number, ()))
    config = replace(module.config, aliases=tuple(aliases), buffer_donors=tuple(donors))
    module.set_config(config)
    return module


def assigned(text: str) -> BufferAssignment:
    module = hloc.parse(text)
    lower(module, CompileOptions())
    return plan_memory(module)[1]


def how(header: str, *lines: str) -> list[str]:
    """Return how the aliases of a module of two parameters f32[8] are honoured."""
    body = "\n".join(("p = f32[8] parameter(0)", "q = f32[8] parameter(1)", *lines))
    return [a.how for a in assigned(f"HloModule m, {header}\nENTRY e {{ {body} }}").aliases]


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), choices=st.integers(0, 5), donated=st.booleans())
def test_arrays_stay_whole_until_their_last_use(seed: int, choices: int, donated: bool) -> None:
    module = aliased_randomly(seed)
    lower(module, CompileOptions())
    schedule = schedules(module)[0]
    assignment = assign_buffers(module, schedule, lambda inst: 100 if inst.is_a("add") else 0)
    Simulator(schedule, assignment, choices, donated).run(module.entry)


def test_an_update_is_in_place() -> None:
    lines = (
        "i = s32[] constant(2)",
        "u = f32[2] slice(q), slice={[0:2]}",
        "ROOT d = f32[8] dynamic-update-slice(p, u, i)",
    )
    assert how("input_output_alias={ {}: (0, {}) }", *lines) == ["in place"]
    assert how("buffer_donor={ (0, {}) }", *lines) == ["in place"]


def test_an_elementwise_result_overwrites_only_what_is_given_away() -> None:
    """Copying the argument first would cost more than it saves."""
    lines = ("ROOT a = f32[8] add(p, q)",)
    assert how("input_output_alias={ {}: (1, {}) }", *lines) == ["overwritten"]


def test_a_parameter_that_is_an_output_is_in_place() -> None:
    assert how("input_output_alias={ {}: (0, {}) }", "ROOT c = f32[8] copy(p)") == ["in place"]


READ_LATER = (
    "r = f32[8] reverse(p), dimensions={0}",
    "s = f32[8] reverse(r), dimensions={0}",
    "ROOT t = (f32[8], f32[8]) tuple(r, s)",
)


@pytest.mark.parametrize(("kind", "expected"), [("must-alias", "copied"), ("may-alias", "apart")])
def test_a_parameter_that_is_needed_too_long(kind: str, expected: str) -> None:
    """`reverse` reads what it would have overwritten."""
    header = f"input_output_alias={{ {{0}}: (0, {{}}, {kind}) }}"
    assert how(header, *READ_LATER) == [expected]


def test_a_donor_takes_the_output_that_grows_from_it() -> None:
    """Both outputs have the shape of both donors; crosswise, each update would copy its array."""
    header = "buffer_donor={ (0, {}), (1, {}) }"
    found = assigned(
        f"""HloModule m, {header}
        ENTRY e {{
          p = f32[8] parameter(0)
          q = f32[8] parameter(1)
          u = f32[2] parameter(2)
          i = s32[] constant(2)
          a = f32[8] dynamic-update-slice(p, u, i)
          b = f32[8] dynamic-update-slice(q, u, i)
          ROOT t = (f32[8], f32[8]) tuple(b, a)
        }}"""
    )
    assert {(a.parameter, a.output, a.how) for a in found.aliases} == {
        (0, 1, "in place"),
        (1, 0, "in place"),
    }


def test_readers_of_the_old_array_run_before_it_is_overwritten() -> None:
    lines = (
        "i = s32[] constant(2)",
        "u = f32[2] slice(q), slice={[0:2]}",
        "d = f32[8] dynamic-update-slice(p, u, i)",
        "r = f32[8] reverse(p), dimensions={0}",
        "ROOT t = (f32[8], f32[8]) tuple(d, r)",
    )
    assert how("input_output_alias={ {0}: (0, {}) }", *lines) == ["in place"]


def test_an_aliased_output_counts_as_parameter() -> None:
    report = assigned(
        """HloModule m, input_output_alias={ {0}: (0, {}) }
        ENTRY e {
          p = f32[8] parameter(0)
          n = f32[8] negate(p)
          s = f32[4] slice(n), slice={[0:4]}
          ROOT t = (f32[8], f32[4]) tuple(n, s)
        }"""
    ).report
    assert (report.parameter_bytes, report.aliased_bytes, report.output_bytes) == (32, 32, 16)
