"""`tuple_style="compact"`: elements of tuples where they are used, and what still has a line."""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc.errors import HloError

ELEMENTS = """HloModule m

ENTRY main {
  p = (f32[3], (f32[3], f32[3])) parameter(0)
  a = f32[3] get-tuple-element(p), index=0
  q = (f32[3], f32[3]) get-tuple-element(p), index=1
  b = f32[3] get-tuple-element(q), index=0
  c = f32[3] get-tuple-element(q), index=1, sharding={replicated}
  d = f32[3] get-tuple-element(p), index=0
  s = f32[3] add(a, b), control-predecessors={d}
  t = f32[3] add(s, c)
  ROOT r = f32[3] subtract(t, d)
}
"""


def test_elements_are_written_where_they_are_used() -> None:
    lines = hloc.parse(ELEMENTS).to_text("short", tuple_style="compact").split("\n")
    assert lines[2:] == [
        "ENTRY main {",
        "  p = (f32[3]{0}, (f32[3]{0}, f32[3]{0})) parameter(0)",
        "  d = f32[3]{0} get-tuple-element(p), index=0",
        "  s = f32[3]{0} add(p#0, p#1#0)",
        "  c = f32[3]{0} get-tuple-element(p#1), index=1, sharding={replicated}",
        "  t = f32[3]{0} add(s, c)",
        "  ROOT r = f32[3]{0} subtract(t, d)",
        "}",
        "",
        "",
    ]


def test_an_element_that_is_awaited_keeps_its_name() -> None:
    text = hloc.parse(ELEMENTS).to_text(tuple_style="compact")
    assert "control-predecessors={%d}" in text
    assert "control-predecessors={%d}" in hloc.parse(text).to_text(tuple_style="compact")


def test_a_root_has_a_line_and_its_users_name_the_tuple() -> None:
    text = """HloModule m

ENTRY main {
  p = (f32[3], f32[3]) parameter(0)
  ROOT a = f32[3] get-tuple-element(p), index=0
  b = f32[3] negate(a)
}
"""
    compact = hloc.parse(text).to_text("short", tuple_style="compact")
    assert "ROOT a = f32[3]{0} get-tuple-element(p), index=0" in compact
    assert "negate(p#0)" in compact


def test_canonical_names_count_printed_instructions_only() -> None:
    text = hloc.parse(ELEMENTS).to_text("canonical", tuple_style="compact")
    assert "add(f32[3]{0} tmp_0#0, f32[3]{0} tmp_0#1#0)" in text
    assert "ROOT tmp_5 = " in text


def test_both_spellings_compute_the_same() -> None:
    module = hloc.parse(ELEMENTS)
    again = hloc.parse(module.to_text(tuple_style="compact"))
    rng = np.random.default_rng(5)
    a, b, c = rng.random((3, 3), np.float32)
    (first,) = hloc.compile(module)(a, b, c)
    np.testing.assert_array_equal(first, hloc.compile(again)(a, b, c)[0])
    np.testing.assert_array_equal(first, (a + b + c) - a)


def test_a_schedule_keeps_its_order() -> None:
    text = ELEMENTS.replace("HloModule m", "HloModule m, is_scheduled=true")
    compact = hloc.parse(text).to_text(tuple_style="compact")
    names = [line.split()[0] for line in compact.split("\n") if line.startswith("  ")]
    assert names == ["%p", "%c", "%d", "%s", "%t", "ROOT"]
    assert hloc.parse(compact).to_text(tuple_style="compact") == compact


def test_there_are_two_styles() -> None:
    with pytest.raises(HloError, match="unknown tuple style sparse; there are full, compact"):
        hloc.parse(ELEMENTS).to_text(tuple_style="sparse")
