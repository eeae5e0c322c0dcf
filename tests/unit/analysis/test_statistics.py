"""Counts are checked by hand on small modules; every cost is counted in one place."""

from pathlib import Path

import pytest

import hloc
from hloc.analysis.cost import Cost
from hloc.analysis.statistics import NO_SCOPE, module_statistics

ROOT = Path(__file__).resolve().parents[3]
TEXT = """HloModule m
add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }
body { i = f32[8] parameter(0) ROOT j = f32[8] multiply(i, i),
  metadata={op_name="jit(f)/while/body/mul"} }
condition { i = f32[8] parameter(0) ROOT c = pred[] constant(true) }
ENTRY e {
  x = f32[8,4] parameter(0)
  e = f32[8,4] exponential(x), metadata={op_name="jit(f)/loss/exp/deep/er"}
  z = f32[] constant(0)
  r = f32[8] reduce(e, z), dimensions={1}, to_apply=add
  k = f32[3] constant({...})
  ROOT w = f32[8] while(r), condition=condition, body=body
}
"""


def test_counts_and_costs() -> None:
    found = module_statistics(hloc.parse(TEXT))
    assert (found.instructions, found.loops, found.constants, found.elided) == (13, 1, 3, 1)
    assert found.constant_bytes == 4 + 12 + 1
    assert (found.parameters, found.parameter_bytes, found.result_bytes) == (1, 128, 32)
    assert found.cost.flops == 32 + 8  # the reduction, and one iteration
    assert found.cost.transcendentals == 32
    assert found.opcodes["reduce"].cost == Cost(32, 0, 128 + 4, 32)
    assert (found.opcodes["while"].cost, found.opcodes["add"].cost) == (Cost(), Cost())
    assert found.dtypes["pred"].instructions == 1
    assert list(found.scopes) == [NO_SCOPE, "jit(f)/loss/exp", "jit(f)/while/body"]
    assert found.intensity == found.cost.flops / found.cost.bytes


def test_computations_say_who_calls_them_and_whether_in_a_loop() -> None:
    found = {c.name: c for c in module_statistics(hloc.parse(TEXT)).computations}
    assert found["e"].is_entry
    assert found["body"].in_loop
    assert not found["add"].in_loop
    assert (found["body"].callers, found["e"].callers) == (1, 0)


def test_the_largest_arrays_come_first() -> None:
    largest = module_statistics(hloc.parse(TEXT)).largest
    assert [(a.name, a.shape, a.size_bytes) for a in largest[:2]] == [
        ("x", "f32[8,4]", 128), ("e", "f32[8,4]", 128)
    ]  # fmt: skip
    assert [a.size_bytes for a in largest] == sorted((a.size_bytes for a in largest), reverse=True)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.hlo")), ids=lambda p: p.name)
def test_every_grouping_has_the_same_sum(path: Path) -> None:
    found = module_statistics(hloc.parse(path.read_text()))
    by_opcode = sum((g.cost for g in found.opcodes.values()), Cost())
    by_scope = sum((g.cost for g in found.scopes.values()), Cost())
    by_source = sum((g.cost for g in found.sources.values()), Cost())
    assert by_opcode == by_scope == by_source
    assert sum(g.instructions for g in found.opcodes.values()) == found.instructions
    assert sum(c.instructions for c in found.computations) == found.instructions
    assert by_opcode.flops >= found.cost.flops  # branches: all against the dearest


def test_instructions_are_counted_by_the_line_that_they_were_made_from() -> None:
    """From a stack frame, from the fields of the metadata, and from nothing."""
    text = """HloModule lines

FileNames
1 "train.py"

FunctionNames
1 "loss"

FileLocations
1 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=1 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] add(x, x), metadata={op_name="jit(loss)/add" stack_frame_id=1}
  b = f32[4] multiply(a, x), metadata={op_name="jit(loss)/mul" stack_frame_id=1}
  ROOT c = f32[4] negate(b), metadata={op_name="neg" source_file="model.py" source_line=3}
}
"""
    sources = module_statistics(hloc.parse(text)).sources
    counted = {name: (group.instructions, group.cost.flops) for name, group in sources.items()}
    assert counted == {"train.py:7 in loss": (2, 8), NO_SCOPE: (1, 0), "model.py:3": (1, 4)}
