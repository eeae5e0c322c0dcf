"""Rules are proven as `hloc rules --proof` says, and wrong rules are caught.

Protects the record (hloc/prove/proofs.json) from rules that change after their proof: this proves a
few modules of each rule again, in the ways that the record names. `make prove` proves all of them.
"""

from itertools import islice

import pytest

from hloc.dtypes import DTYPES
from hloc.opt.make import make, splat
from hloc.opt.pattern import P
from hloc.opt.rule import Rule
from hloc.opt.rules import ALL_RULES
from hloc.opt.rules.builders import answer, apply, filled, root
from hloc.opt.rules.compare_select import true
from hloc.opt.values import (
    has_one_user,
    is_float,
    is_integer,
    is_pred,
    is_splat,
    is_zero,
    power_of_two,
)
from hloc.prove.record import WAYS, can_be_proven, proof_text, recorded
from tests.prove.bounds import LEVELS, ONE_VALUE
from tests.prove.choices import Choices, DoesNotFitError, every
from tests.prove.hints import HINTS, Hint
from tests.prove.rules import (
    WrongRuleError,
    instances,
    is_about_shapes,
    prove_module,
    prove_rule,
)

PROVABLE = [rule for rule in ALL_RULES if can_be_proven(rule)]
DRAWN, PROVEN = 3000, 4
"""Modules drawn for each rule and type, and how many of them are proven again."""

x, y = P(bind="x"), P(bind="y")
c = P(bind="c", when=is_splat)


# ---------------------------------------------------------------- what is recorded


def test_every_rule_that_can_be_proven_is_recorded() -> None:
    assert sorted(recorded()) == sorted(rule.name for rule in PROVABLE)
    for rule in PROVABLE:
        row = recorded()[rule.name]
        assert row["cases"] > 0, rule.name
        assert bool(row["bound"]) == is_about_shapes(rule), rule.name


def test_hints_are_of_rules_that_exist() -> None:
    assert set(HINTS) <= {rule.name for rule in ALL_RULES}


@pytest.mark.parametrize("rule", PROVABLE, ids=lambda rule: rule.name)
def test_a_few_modules_are_proven_as_recorded(rule: Rule) -> None:
    pytest.importorskip("z3")
    row, hint = recorded()[rule.name], HINTS.get(rule.name, Hint())
    bound = LEVELS[0] if is_about_shapes(rule) else ONE_VALUE
    proven = 0
    for way, kinds in row["ways"].items():
        kind = DTYPES[min(kinds, key=lambda name: DTYPES[name].bits)]
        drawn = islice(instances(rule, hint, kind, bound), DRAWN)
        for module, _ in islice((m for m in drawn if m is not None), PROVEN):
            got = prove_module(rule, module)
            assert got in (None, *WAYS) or kind.name in row["open"], (way, kind, got)
            proven += got in WAYS
    assert proven or row["bound"] not in ("", str(LEVELS[0])), "no module was proven"


def test_the_text_of_a_proof_names_ways_types_and_what_is_left() -> None:
    texts = {rule.name: proof_text(rule) for rule in ALL_RULES}
    assert texts["add-zero"] == "Z3 bit-vectors: integers of 1 to 64 bits (14 modules)"
    assert texts["add-float-constants"] == "property test only: roundings differ by design"
    assert "all shapes of rank 0 to" in texts["transpose-transpose"]
    assert "all values: " in texts["power-two"]
    assert "Z3 IEEE: " in texts["maximum-maximum"]


# ---------------------------------------------------------------- wrong rules are caught


def _shifted(computation, inst, found):  # type: ignore[no-untyped-def]
    amount = splat(computation, inst.array, power_of_two(found["c"]))
    return make(computation, "shift-right-arithmetic", inst.shape, found["x"], amount)


def _signed_power_of_two(inst, found):  # type: ignore[no-untyped-def]
    return inst.array.dtype.is_signed and bool(power_of_two(found["c"]))


def _inner_after_outer(computation, inst, found):  # type: ignore[no-untyped-def]
    inner, outer = found["y"].attributes.dimensions, inst.attributes.dimensions
    dims = tuple(outer[dim] for dim in inner)
    shape = inst.array
    if tuple(found["x"].array.dims[dim] for dim in dims) != shape.dims:
        return None
    return make(computation, "transpose", shape, found["x"], dimensions=dims)


def _unmirrored(computation, inst, found):  # type: ignore[no-untyped-def]
    parts, dims = inst.attributes.slice, found["y"].attributes.dimensions
    cut = make(computation, "slice", inst.shape, found["x"], slice=parts)
    return make(computation, "reverse", inst.shape, cut, dimensions=dims)


WRONG = {
    "integer, at the ends": Rule(  # MIN / -1 wraps
        "planted",
        P("divide", (P("negate", (x,)), P("negate", (y,)))),
        apply("divide", "x", "y"),
        when=root(is_integer),
    ),
    "integer, negative numbers": Rule(  # a shift rounds down, a quotient towards 0
        "planted", P("divide", (x, c)), _shifted, when=_signed_power_of_two
    ),
    "integer, one constant": Rule(  # 0 times anything
        "planted",
        P("divide", (P("multiply", (x, c), when=has_one_user), c)),
        answer("x"),
        when=root(is_integer),
    ),
    "predicate": Rule(
        "planted", P("select", (x, true, y)), apply("and", "x", "y"), when=root(is_pred)
    ),
    "float, a zero's sign": Rule("planted", P("add", (x, P(when=is_zero))), answer("x")),
    "float, infinity and NaN": Rule(
        "planted", P("subtract", (x, x)), filled(0), when=root(is_float)
    ),
    "float, rounding": Rule(
        "planted",
        P("divide", (P("multiply", (x, y)), y)),
        answer("x"),
        when=root(is_float),
    ),
    "shape, a permutation": Rule(
        "planted", P("transpose", (P("transpose", (x,), bind="y"),)), _inner_after_outer
    ),
    "shape, a place": Rule("planted", P("slice", (P("reverse", (x,), bind="y"),)), _unmirrored),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_caught(name: str) -> None:
    pytest.importorskip("z3")
    with pytest.raises(WrongRuleError, match="planted is wrong for") as fault:
        prove_rule(WRONG[name], budget=4000)
    assert str(fault.value).count("HloModule drawn") == 2


def test_rules_that_differ_by_design_are_not_proven() -> None:
    loose = {rule.exactness for rule in ALL_RULES if not can_be_proven(rule)}
    assert loose == {"reassociates", "assumes-finite"}


# ---------------------------------------------------------------- the enumeration


def test_every_combination_of_picks_is_built_once() -> None:
    def build(choices: Choices) -> tuple[int, str]:
        number = choices.pick((1, 2, 3))
        if number == 2:
            raise DoesNotFitError
        return number, choices.pick("ab" if number == 1 else "c")

    assert list(every(build)) == [(1, "a"), (1, "b"), None, (3, "c")]
