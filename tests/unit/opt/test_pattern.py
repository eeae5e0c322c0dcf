"""Patterns: repeated names, both orders of commutative operands, conditions."""

import numpy as np
import pytest

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.ir.traversal import all_instructions
from hloc.ops.builder import Builder
from hloc.opt.pattern import SPLAT, P, kinds_of, match, matcher
from hloc.opt.rules import ALL_RULES
from hloc.opt.values import is_zero
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
def test_a_matcher_finds_what_the_pattern_matches(seed: int) -> None:
    for inst in all_instructions(RandomModule(seed).grown(200)):
        kinds = kinds_of(inst.operands)
        for rule in ALL_RULES:
            matches = matcher(rule.pattern, inst.opcode, kinds)
            found = None if matches is None else matches(inst)
            assert found == match(rule.pattern, inst), f"{rule.name}: {inst!r}"


@pytest.mark.parametrize(
    "pattern",
    [
        P("add", (P("negate", (P("abs", (x,)),)), x)),  # in one way but for the root
        P("add", (P("multiply", (P("negate", (x,)), y)), x)),  # operands of the operand may swap
        P("add", (P("subtract", (P("negate", (x,)), x)), y), bind="r"),
        P("add", (P("slice", bind="s", reads="negate"), y)),
        P("add", (P("multiply", (x,), more=True), x)),
    ],
)
def test_a_matcher_of_nested_patterns_tries_what_the_pattern_tries(pattern: P) -> None:
    b, p, q = parameters()
    parts = [p, q, b.negate(p), b.negate(b.abs(p)), b.negate(b.abs(q))]
    parts += [b.multiply(i, j) for i in parts[:3] for j in parts[:3]]
    parts += [b.subtract(b.negate(i), j) for i in (p, q) for j in (p, q)]
    parts.append(b.slice(b.negate(p), [0], [4]))
    matched = 0
    for inst in [b.add(i, j) for i in parts for j in parts]:
        matches = matcher(pattern, inst.opcode, kinds_of(inst.operands))
        found = None if matches is None else matches(inst)
        assert found == match(pattern, inst), inst
        matched += found is not None
    assert matched


def test_a_splat_is_a_kind_of_its_own() -> None:
    b, p, _ = parameters()
    shape = array_shape("f32", 4)
    zero = b.constant(np.float32(0))
    splat, other = b.splat(0, shape), b.broadcast(b.negate(zero), (4,))
    add_zero = P("add", (x, P(when=is_zero)))
    assert kinds_of((p, splat, other)) == ("parameter", SPLAT, "broadcast")
    assert matcher(add_zero, opcode_row("add"), ("parameter", "broadcast")) is None
    assert match(add_zero, b.add(p, splat)) == {"x": p}
    assert match(P("negate", (P("broadcast", bind="x"),)), b.negate(splat)) == {"x": splat}
