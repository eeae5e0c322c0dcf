"""Patterns: repeated names, both orders of commutative operands, conditions."""

import pytest

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import all_instructions
from hloc.ops.builder import Builder
from hloc.opt.pattern import P, match, may_match
from hloc.opt.rules import ALL_RULES
from hloc.shapes import array_shape
from tests.unit.opt.random_modules import RandomModule

x, y = P(bind="x"), P(bind="y")


def parameters() -> tuple[Builder, Instruction, Instruction]:
    module = Module("m")
    b = Builder(module.add_computation("entry"))
    shape = array_shape("f32", 4)
    return b, b.parameter(0, shape), b.parameter(1, shape)


def test_names_are_bound() -> None:
    b, p, q = parameters()
    assert match(P("subtract", (x, y)), b.subtract(p, q)) == {"x": p, "y": q}


def test_a_repeated_name_is_one_instruction() -> None:
    b, p, q = parameters()
    both = P("subtract", (x, x))
    assert match(both, b.subtract(p, p)) == {"x": p}
    assert match(both, b.subtract(p, q)) is None


def test_commutative_operands_match_in_both_orders() -> None:
    b, p, q = parameters()
    n = b.negate(q)
    pattern = P("add", (x, P("negate", (y,))))
    assert match(pattern, b.add(p, n)) == {"x": p, "y": q}
    assert match(pattern, b.add(n, p)) == {"x": p, "y": q}


def test_other_operands_match_in_their_order_only() -> None:
    b, p, q = parameters()
    pattern = P("subtract", (x, P("negate", (y,))))
    assert match(pattern, b.subtract(b.negate(q), p)) is None


def test_a_failed_order_leaves_no_names_behind() -> None:
    b, p, q = parameters()
    pattern = P("add", (P("negate", (x,)), P("abs", (x,))))
    assert match(pattern, b.add(b.abs(p), b.negate(p))) == {"x": p}
    assert match(pattern, b.add(b.abs(p), b.negate(q))) is None


def test_a_condition_looks_at_the_instruction() -> None:
    b, p, q = parameters()
    pattern = P("add", (P(when=lambda inst: inst is q), x))
    assert match(pattern, b.add(p, q)) == {"x": p}
    assert match(pattern, b.add(p, p)) is None


def test_an_operand_that_is_read_may_have_any_place() -> None:
    b, p, q = parameters()
    pattern = P(bind="x", reads="negate")
    n = b.negate(q)
    for inst in (b.subtract(p, n), b.subtract(n, p)):
        assert match(pattern, inst) == {"x": inst}
        assert match(P("abs", (pattern,)), b.abs(inst)) == {"x": inst}
    assert match(pattern, b.subtract(p, q)) is None
    assert match(P("abs", (pattern,)), b.abs(b.subtract(p, q))) is None


@pytest.mark.parametrize("seed", range(20))
def test_what_may_not_match_by_opcodes_does_not_match(seed: int) -> None:
    for inst in all_instructions(RandomModule(seed).grown(200)):
        operands = tuple(operand.opcode.name for operand in inst.operands)
        for rule in ALL_RULES:
            if match(rule.pattern, inst) is not None:
                assert may_match(rule.pattern, inst.opcode, operands), f"{rule.name}: {inst!r}"
