"""What Python users ask of a module: stats, apply, diff, memory, find."""

import re
from pathlib import Path

import pytest

import hloc
from hloc.ir.module import Module

TEXT = """HloModule tools

ENTRY e {
  x = f32[64,64] parameter(0)
  y = f32[64,64] parameter(1)
  d = f32[64,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  n = f32[64,64] negate(d)
  nn = f32[64,64] negate(n)
  e = f32[64,64] exponential(nn)
  ROOT r = f32[64,64] add(e, e)
}
"""
PAGE = Path(__file__).resolve().parents[3] / "docs" / "python.md"


@pytest.fixture
def module() -> Module:
    return hloc.parse(TEXT)


def test_statistics_print_as_the_command_prints_them(module: Module) -> None:
    stats = module.stats()
    assert stats.figures.instructions == 7
    assert stats.figures.cost.flops == 2 * 64**3 + 3 * 64**2
    assert str(stats).startswith("tools: module tools\n  size        7 instructions")
    assert "largest arrays" in str(stats)


def test_passes_make_a_new_module(module: Module) -> None:
    before = str(module)
    after = module.apply("algsimp,dce")
    assert str(module) == before
    assert after.instruction_count == 5
    assert module.apply("-O2").find("fusion")
    assert str(module.apply("fixpoint(algsimp,dce)")) == str(after)
    with pytest.raises(hloc.HloError, match="no-such"):
        module.apply("no-such")


def test_a_diff_names_the_rules_of_every_pass_in_between(module: Module) -> None:
    simple = module.apply("algsimp,dce")
    fused = simple.apply("fusion")
    change = module.diff(fused)
    assert change.after is fused
    assert "negate-negate" in str(change)
    assert "»" in str(change), "what went into the fusion is a move"
    assert "negate-negate" not in str(simple.diff(fused)), "only what was done since"
    assert "»" in str(simple.diff(fused))
    assert module.diff(module).is_empty
    assert str(module.diff(module)) == "no difference"
    assert "<table>" in change._repr_html_()


def test_a_diff_backwards_or_between_branches_knows_instructions_by_identity(
    module: Module,
) -> None:
    simple, fused = module.apply("algsimp,dce"), module.apply("fusion")
    assert "+ nn = " in str(simple.diff(module))
    assert "negate-negate" not in str(simple.diff(module)), "nobody did this"
    assert not simple.diff(fused).is_empty


def test_a_diff_of_unrelated_modules_matches_them(module: Module) -> None:
    renamed = hloc.parse(TEXT.replace("nn", "other"))
    assert module.diff(renamed).is_empty, "names are no difference, as for hloc diff"
    changed = hloc.parse(TEXT.replace("exponential(", "tanh("))
    assert module.diff(changed).rows.counts()


def test_memory_is_that_of_the_compiled_module(module: Module) -> None:
    assert "parameters" in module.memory()
    assert module.memory(0) != module.memory(2)


def test_patterns_find_instructions(module: Module) -> None:
    assert [inst.name for inst in module.find("negate(negate(_))")] == ["nn"]
    assert [inst.name for inst in module.find("add(x:_, x:_)")] == ["r"]
    assert [inst.name for inst in module.find("negate")] == ["n", "nn"]
    assert module.find("tanh") == ()
    with pytest.raises(hloc.HloError, match="no opcode 'negat'"):
        module.find("negat(_)")


def test_the_page_is_true(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```\n(?:\n```\n(.*?)```)?", PAGE.read_text(), re.DOTALL)
    names: dict[str, object] = {}
    assert len(blocks) > 3
    for code, printed in blocks:
        exec(code, names)
        out = capsys.readouterr().out
        if printed:
            assert out == printed
