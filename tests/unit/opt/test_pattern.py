"""Patterns: repeated names, both orders of commutative operands, conditions."""

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ops.builder import Builder
from hloc.opt.pattern import P, match
from hloc.shapes import array_shape

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
