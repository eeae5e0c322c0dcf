"""Names are made unique by XLA's rule, so that prints of both tools can be compared."""

from __future__ import annotations

import pytest

import hloc
from hloc.ir.names import NameUniquer


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (["p", "p", "p", "p", "p.1", "p.7"], ["p", "p.1", "p.2", "p.3", "p.4", "p.7"]),
        (["a.0", "a", "a.0"], ["a.0", "a.1", "a.2"]),
        (["a", "a.0"], ["a", "a.1"]),
        (["x.2", "x.2", "x"], ["x.2", "x.0", "x.1"]),
        (["f.x", "f.x"], ["f.x", "f.x.1"]),
        ([".5", ".5", "5."], [".5", ".5.1", "5."]),
        (["a.01", "a.1"], ["a.1", "a.0"]),
        (["n.99999999999999999999", "n"], ["n.99999999999999999999", "n"]),
    ],
)
def test_a_clash_gets_the_smallest_free_number(asked: list[str], given: list[str]) -> None:
    uniquer = NameUniquer()
    assert [uniquer.unique(name) for name in asked] == given


def test_names_that_are_keywords_are_printed_so_that_they_can_be_read() -> None:
    text = "HloModule m\nENTRY e { %ROOT = f32[] parameter(0) ROOT %true = f32[] floor(%ROOT) }"
    short = hloc.parse(text).to_text("short")
    assert "ROOT %true = f32[] floor(%ROOT)" in short
    assert hloc.parse(short).to_text("short") == short


@pytest.mark.parametrize("name", ["s8", "true", "token"])
def test_modules_are_named_by_other_tokens_after_a_percent_sign_only(name: str) -> None:
    text = hloc.parse(f"HloModule %{name}\nENTRY e {{ ROOT a = f32[] parameter(0) }}").to_text()
    assert text.startswith(f"HloModule %{name},")
    assert hloc.parse(text).name == name


def test_a_copy_knows_the_names_and_learns_by_itself() -> None:
    first = NameUniquer()
    assert [first.unique("a") for _ in range(3)] == ["a", "a.1", "a.2"]
    second = first.copy()
    assert [second.unique("a"), second.unique("b")] == ["a.3", "b"]
    assert [first.unique("a"), first.unique("b")] == ["a.3", "b"]
