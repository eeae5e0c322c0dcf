"""The diff of unrelated files: what a person changed is shown, and what moved along with it not."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloc
from hloc.analysis.diff.file_diff import DiffOptions, diff_modules
from hloc.analysis.diff.module_diff import (
    ADDED,
    CHANGED,
    LAYOUT,
    MOVED,
    REMOVED,
    RENAMED,
    REWIRED,
    SAME,
    ModuleDiff,
)
from hloc.analysis.diff.module_match import match_modules

ROOT = Path(__file__).resolve().parents[3]
TEXT = """HloModule m
add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }
ENTRY e {
  x = f32[8,4] parameter(0)
  k = f32[4] constant({1,2,3,4})
  kb = f32[8,4] broadcast(k), dimensions={1}
  y = f32[8,4] multiply(x, kb)
  n = f32[8,4] negate(y)
  t = f32[8,4] tanh(n)
  z = f32[] constant(0)
  ROOT r = f32[8] reduce(t, z), dimensions={1}, to_apply=add
}
"""


def diff(old: str, new: str, options: DiffOptions | None = None) -> ModuleDiff:
    return diff_modules(hloc.parse(old), hloc.parse(new), options or DiffOptions())


def rows(found: ModuleDiff) -> list[tuple[str, str]]:
    return [(r.kind, r.name) for c in found.computations for r in c.rows if r.kind != SAME]


def test_equal_modules_have_no_difference() -> None:
    assert diff(TEXT, TEXT).is_empty
    assert diff(TEXT, str(hloc.parse(TEXT))).is_empty


def test_new_names_for_everything_are_no_difference() -> None:
    new = TEXT
    for name in "xkynt":
        new = new.replace(f"  {name} =", f"  {name}{name}.7 =").replace(
            f"({name},", f"({name}{name}.7,"
        )
        new = new.replace(f"({name})", f"({name}{name}.7)")
    new = new.replace("add {", "sum.1 {").replace("to_apply=add", "to_apply=sum.1")
    assert diff(TEXT, new).is_empty
    found = diff(TEXT, new, DiffOptions(names=True))
    assert {kind for kind, _ in rows(found)} == {RENAMED}
    assert [c.kind for c in found.computations] == [RENAMED, SAME]


@pytest.mark.parametrize(
    ("change", "to", "expected"),
    [
        ("tanh(n)", "tanh(y)", [(REMOVED, "n"), (REWIRED, "t")]),
        ("  t = f32[8,4] tanh(n)", "  w = f32[8,4] cosine(n)\n  t = f32[8,4] tanh(w)",
         [(ADDED, "w"), (REWIRED, "t")]),
        ("3,4}", "3,5}", [(CHANGED, "k")]),
        ("tanh(n)", "sine(n)", [(CHANGED, "t")]),
        ("s = f32[] add(p, q)", "s = f32[] add(q, p)", [(REWIRED, "s")]),
    ],
)  # fmt: skip
def test_one_edit_is_one_row(change: str, to: str, expected: list[tuple[str, str]]) -> None:
    new = TEXT.replace(change, to)
    if "tanh(y)" in to:
        new = new.replace("  n = f32[8,4] negate(y)\n", "")
    assert sorted(rows(diff(TEXT, new))) == sorted(expected)


def test_changed_attributes_and_shapes_are_named() -> None:
    new = TEXT.replace("f32[8] reduce(t, z), dimensions={1}", "f32[4] reduce(t, z), dimensions={0}")
    found = diff(TEXT, new)
    assert rows(found) == [(CHANGED, "r")]
    row = next(r for r in found.computations[-1].rows if r.kind == CHANGED)
    assert row.was == "f32[8] reduce, dimensions={1}"
    assert [r.name for r in found.header] == ["entry_layout"]


def test_layouts_count_unless_they_are_ignored() -> None:
    new = TEXT.replace("n = f32[8,4] negate", "n = f32[8,4]{0,1} negate")
    assert rows(diff(TEXT, new)) == [(LAYOUT, "n")]
    more = new.replace("negate(", "abs(")
    assert rows(diff(TEXT, more)) != [(LAYOUT, "n")], "another opcode is more than a layout"
    assert diff(TEXT, new, DiffOptions(layouts=False)).is_empty


def test_long_constants_differ_beyond_what_is_shown() -> None:
    def constant(*last: str) -> str:
        return f"ENTRY e {{ ROOT c = s32[100] constant({{{', '.join(('1',) * 99 + last)}}}) }}"

    assert rows(diff(constant("1"), constant("2"))) == [(CHANGED, "c")]
    assert diff(constant("1"), constant("1")).is_empty


def test_what_went_into_another_computation_is_moved() -> None:
    old = """HloModule m
ENTRY e { x = f32[4] parameter(0) a = f32[4] exponential(x)
  b = f32[4] tanh(a) ROOT c = f32[4] cosine(b) }"""
    new = """HloModule m
body { p = f32[4] parameter(0) a = f32[4] exponential(p) ROOT b = f32[4] tanh(a) }
ENTRY e { x = f32[4] parameter(0) f = f32[4] fusion(x), kind=kLoop, calls=body
  ROOT c = f32[4] cosine(f) }"""
    found = rows(diff(old, new))
    assert (MOVED, "a") in found
    assert (MOVED, "b") in found
    assert (REMOVED, "a") not in found


def test_another_schedule_is_a_difference() -> None:
    old = """HloModule m, is_scheduled=true
ENTRY e { x = f32[] parameter(0) a = f32[] sine(x) b = f32[] cosine(x) ROOT c = f32[] add(a, b) }"""
    new = old.replace(
        "a = f32[] sine(x) b = f32[] cosine(x)", "b = f32[] cosine(x) a = f32[] sine(x)"
    )
    (row,) = diff(old, new).header
    assert row.text == "schedule of e differs from b on"
    assert diff(old, old).is_empty


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.hlo")), ids=lambda p: p.name)
def test_a_reprinted_module_is_the_same_and_a_rewritten_one_is_matched(path: Path) -> None:
    module = hloc.parse(path.read_text())
    again = hloc.parse(module.to_text("default", large_constants=True))
    assert diff_modules(module, again).is_empty
    hloc.Pipeline.parse("algebraic-simplifier,cse,dce").run(again)
    match = match_modules(module, again)
    assert len(match.instructions) > 0.85 * again.instruction_count


def chain(count: int, extra: int = -1, start: int = 0) -> str:
    """Return a module of `count` layers with names from `start`, one more in layer `extra`."""
    lines = [f"  x.{start} = f32[4] parameter(0)"]
    number = start
    for layer in range(count):
        for opcode in ("tanh", "negate", *(("cosine",) if layer == extra else ())):
            lines.append(f"  x.{number + 1} = f32[4] {opcode}(x.{number})")
            number += 1
    lines[-1] = lines[-1].replace("  x", "  ROOT x", 1)
    return "HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}\n"


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 30), st.data())
def test_one_instruction_more_in_a_chain_of_equals_is_found(
    count: int, data: st.DataObject
) -> None:
    """All names are shifted behind the new one, and all layers look alike."""
    extra = data.draw(st.integers(0, count - 2))
    found = diff(chain(count), chain(count, extra))
    assert found.count(ADDED) == 1
    assert found.count(REMOVED) == found.count(CHANGED) == 0
    assert found.count(REWIRED) <= 1


def test_the_time_grows_with_the_size_and_not_with_its_square() -> None:
    def seconds(count: int) -> float:
        old, new = hloc.parse(chain(count)), hloc.parse(chain(count, count // 2, 3))
        started = time.process_time()
        found = diff_modules(old, new)
        assert found.count(ADDED) == 1
        return time.process_time() - started

    small = seconds(500)
    assert seconds(4000) < 8 * 4 * small + 0.5
