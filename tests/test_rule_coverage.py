"""Every rewrite rule fires in a golden, so that none can be dead or wrong unseen."""

from collections import Counter

from hloc.opt.registry import PASSES
from hloc.opt.rules import ALL_RULES
from tests.goldens import GOLDEN, all_cases

LOWERING = {"copy-insertion", "flatten-call-graph"}  # part of code generation, tested there


def test_every_rule_fires_in_a_golden() -> None:
    named = {rule for case in all_cases("opt") for rule in case.fires}
    missing = [rule.name for rule in ALL_RULES if rule.name not in named]
    assert not missing, f"no golden has FIRES for: {', '.join(missing)}"


def test_rule_names_are_unique() -> None:
    twice = [n for n, count in Counter(rule.name for rule in ALL_RULES).items() if count > 1]
    assert not twice


def test_every_pass_has_a_golden_file_with_a_case_where_it_does_nothing() -> None:
    for name in PASSES:
        if name in LOWERING:
            continue
        cases = [c for c in all_cases("opt") if c.file == GOLDEN / "opt" / f"{name}.hlo"]
        assert cases, f"tests/golden/opt/{name}.hlo is missing"
        assert any(case.unchanged for case in cases), f"{name} has no UNCHANGED case"
