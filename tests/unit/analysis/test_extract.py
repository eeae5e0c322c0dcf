"""An extracted module computes what its instruction computes in the whole."""

from pathlib import Path

import numpy as np
import pytest

import hloc
from hloc.analysis.extract import extract, find_instruction
from hloc.ir.module import Module
from hloc.ir.traversal import all_instructions
from hloc.ir.verifier import verify

ROOT = Path(__file__).resolve().parents[3]
TEXT = """HloModule m, input_output_alias={{}: (0, {}, may-alias)}
add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }
unused { ROOT p = f32[] parameter(0) }
ENTRY e {
  x = f32[2,4] parameter(0)
  y = f32[2,4] parameter(1)
  a = f32[2,4] add(x, y)
  b = f32[2,4] negate(a)
  z = f32[] constant(0)
  r = f32[2] reduce(b, z), dimensions={1}, to_apply=add
  rb = f32[2,4] broadcast(r), dimensions={0}
  ROOT out = f32[2,4] subtract(y, rb)
}
"""


def names(module: Module) -> list[str]:
    return [inst.name for inst in module.entry.instructions]


def test_all_that_is_needed_comes_along_and_nothing_else() -> None:
    module = extract(find_instruction(hloc.parse(TEXT), "%r"))
    verify(module)
    assert names(module) == ["x", "y", "a", "b", "z", "r"]
    assert [c.name for c in module.computations] == ["add", "e"]
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    (found,) = hloc.evaluate(module, x, x)
    np.testing.assert_array_equal(found, -2 * x.sum(axis=1))
    (compiled,) = hloc.compile(module)(x, x)
    np.testing.assert_array_equal(compiled, found)


def test_what_lies_beyond_the_height_becomes_a_parameter() -> None:
    module = extract(find_instruction(hloc.parse(TEXT), "r"), height=0)
    assert names(module) == ["b", "z", "r"]  # a constant is no parameter
    assert [p.name for p in module.entry.parameters] == ["b"]
    higher = extract(find_instruction(hloc.parse(TEXT), "out"), height=2)
    assert [p.name for p in higher.entry.parameters] == ["y", "b"]
    assert names(extract(find_instruction(hloc.parse(TEXT), "x"))) == ["x"]


def test_the_original_stays_as_it_was() -> None:
    module = hloc.parse(TEXT)
    before = str(module)
    callers = {c.name: len(c.callers) for c in module.computations}
    extract(module.entry.root)
    assert str(module) == before
    assert {c.name: len(c.callers) for c in module.computations} == callers


def test_an_end_brings_its_start() -> None:
    text = """HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  n = f32[2] negate(x)
  s = (f32[2], f32[2], u32[]) copy-start(n)
  ROOT d = f32[2] copy-done(s)
}"""
    module = extract(find_instruction(hloc.parse(text), "d"), height=0)
    verify(module)
    assert names(module) == ["n", "s", "d"]


def test_names_are_found_with_and_without_their_computation() -> None:
    module = hloc.parse(TEXT)
    assert find_instruction(module, "add/s").computation.name == "add"
    assert find_instruction(module, "%e/a").name == "a"
    with pytest.raises(hloc.HloError, match="no instruction named 'outt'") as caught:
        find_instruction(module, "outt")
    assert "did you mean out" in caught.value.diagnostics[0].notes[0]


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.hlo")), ids=lambda p: p.name)
@pytest.mark.parametrize("height", [None, 0, 2])
def test_every_tenth_instruction_gives_a_module(path: Path, height: int | None) -> None:
    module = hloc.parse(path.read_text())
    for inst in list(all_instructions(module))[::10]:
        part = extract(inst, height)
        verify(part)
        assert (
            hloc.parse(part.to_text(large_constants=True)).instruction_count
            == part.instruction_count
        )
