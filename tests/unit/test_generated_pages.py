"""The generated pages say what options, passes and rules are now."""

from collections.abc import Callable
from pathlib import Path

import pytest

from docs.generators import command_line, numerics, passes, rules
from hloc.cli.options import OPTIONS
from hloc.opt.registry import ALIASES, PASSES, is_in_library
from hloc.opt.rules import ALL_RULES
from hloc.report.law_text import law as law_of

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("command-line", command_line.page),
        ("numerics", numerics.page),
        ("passes", passes.page),
        ("rules", rules.page),
    ],
)
def test_the_page_is_up_to_date(name: str, page: Callable[[], str]) -> None:
    assert (DOCS / f"{name}.md").read_text() == page(), "run `make docs`"


def test_the_page_of_the_command_line_names_every_option() -> None:
    page = command_line.page()
    assert all(flag in page for option in OPTIONS for flag in option.flags)


def test_every_pass_has_a_section_with_its_aliases() -> None:
    page = passes.page()
    for name in PASSES:
        assert f"\n### {name}\n" in page, f"{name}: is its folder in GROUPS?"
    for alias in ALIASES:
        assert f"`{alias}`" in page


def test_levels_are_those_of_the_pipelines() -> None:
    assert passes.levels_of("fusion") == "2 3"
    assert passes.levels_of("cse") == "1 2 3"
    assert passes.levels_of("priority-fusion") == "for GPUs, where `fusion` runs"
    assert passes.levels_of("operand-fusion") == "2 3, for GPUs"
    assert passes.levels_of("gather-expander") == "library"
    assert passes.levels_of("copy-insertion") == "all, in lowering"


def test_the_library_is_what_no_pipeline_runs() -> None:
    """A pass that enters a pipeline leaves `opt/library`, and the reverse."""
    for name in PASSES:
        assert is_in_library(name) == (passes.levels_of(name) == "library"), name


def test_every_rule_has_a_row_with_law_and_case() -> None:
    rows = [line for line in rules.page().splitlines() if line.startswith("| `")]
    assert len(rows) == len(ALL_RULES)
    cases = rules.golden_cases()
    assert all(rule.name in cases for rule in ALL_RULES)


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("select-not", "`select(not(p), x, y)` → `select(p, y, x)`"),
        ("abs-abs", "`abs(y = abs(x))` → `y`, if signed or float"),
        ("add-zero", "`add(x, 0)` → `x`, if integer"),
        ("multiply-minus-one", "`multiply(x, -1)` → `negate(x)`, if signed or float"),
    ],
)
def test_laws_are_read_from_pattern_builder_and_guard(name: str, law: str) -> None:
    (rule,) = (rule for rule in ALL_RULES if rule.name == name)
    assert law_of(rule) == law
