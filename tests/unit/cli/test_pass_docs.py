"""docs/passes.md and docs/rules.md say what the passes and rules are now."""

from pathlib import Path

import pytest

from hloc.cli import pass_docs, rule_docs
from hloc.opt.registry import ALIASES, PASSES, is_in_library
from hloc.opt.rules import ALL_RULES

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize("name", ["passes", "rules"])
def test_the_page_is_in_step(name: str) -> None:
    page = pass_docs.page() if name == "passes" else rule_docs.page()
    assert (DOCS / f"{name}.md").read_text() == page, "run `make docs`"


def test_every_pass_has_a_section_with_its_aliases() -> None:
    page = pass_docs.page()
    for name in PASSES:
        assert f"\n### {name}\n" in page, f"{name}: is its folder in GROUPS?"
    for alias in ALIASES:
        assert f"`{alias}`" in page


def test_levels_are_those_of_the_pipelines() -> None:
    assert pass_docs.levels_of("fusion") == "2 3"
    assert pass_docs.levels_of("cse") == "1 2 3"
    assert pass_docs.levels_of("priority-fusion") == "for GPUs, where `fusion` runs"
    assert pass_docs.levels_of("gather-expander") == "library"
    assert pass_docs.levels_of("copy-insertion") == "all, in lowering"


def test_the_library_is_what_no_pipeline_runs() -> None:
    """A pass that enters a pipeline leaves `opt/library`, and the reverse."""
    for name in PASSES:
        assert is_in_library(name) == (pass_docs.levels_of(name) == "library"), name


def test_every_rule_has_a_row_with_law_and_case() -> None:
    rows = [line for line in rule_docs.page().splitlines() if line.startswith("| `")]
    assert len(rows) == len(ALL_RULES)
    cases = rule_docs.golden_cases()
    assert all(rule.name in cases for rule in ALL_RULES)


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("add-negate", "`add(x, negate(y))` → `subtract(x, y)`"),
        ("abs-abs", "`abs(y = abs(x))` → `y`, if signed or float"),
        ("add-zero", "`add(x, 0)` → `x`, if integer"),
        ("multiply-minus-one", "`multiply(x, -1)` → `negate(x)`, if signed or float"),
    ],
)
def test_laws_are_read_from_pattern_builder_and_guard(name: str, law: str) -> None:
    (rule,) = (rule for rule in ALL_RULES if rule.name == name)
    assert rule_docs.law(rule) == law
