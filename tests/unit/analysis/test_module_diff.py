"""The diff follows instructions by identity: what a pass did, and nothing else, is shown."""

from pathlib import Path

import numpy as np
import pytest

import hloc
from hloc.analysis.diff.module_diff import (
    ADDED,
    CHANGED,
    LAYOUT,
    MERGED,
    REMOVED,
    REWIRED,
    SAME,
    ModuleDiff,
    diff_snapshots,
)
from hloc.analysis.diff.module_lines import line_of, literal_text, snapshot
from hloc.ir.module import Module
from hloc.ir.traversal import all_instructions
from hloc.literal import literal_of
from hloc.shapes import array_shape

ROOT = Path(__file__).resolve().parents[3]

TEXT = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] add(x, y)
  b = f32[4] add(x, y)
  n = f32[4] negate(a)
  nn = f32[4] negate(n)
  ROOT r = f32[4] multiply(nn, b)
}
"""


def after(pipeline: str, module: Module) -> ModuleDiff:
    """Return the diff that `pipeline` makes in `module`."""
    before, mark = snapshot(module), len(module.log.events)
    hloc.Pipeline.parse(pipeline).run(module)
    return diff_snapshots(before, snapshot(module), module.log.since(mark))


def rows(found: ModuleDiff) -> list[tuple[str, str, str]]:
    return [
        (row.kind, row.text.partition(" = ")[0].removeprefix("ROOT "), row.by)
        for computation in found.computations
        for row in computation.rows
        if row.kind != SAME
    ]


def test_nothing_changed_is_an_empty_diff() -> None:
    found = after("map-inliner", hloc.parse(TEXT))
    assert found.is_empty
    assert found.summary() == "no change"


TURNED = """HloModule m
ENTRY e {
  x = f32[2,4,8] parameter(0)
  y = f32[2,8,6] parameter(1)
  d = f32[2,4,6] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
  t = f32[4,2,6] transpose(d), dimensions={1,0,2}
  ROOT r = f32[4,12] reshape(t)
}
"""  # noqa: E501


def test_a_changed_layout_is_a_change() -> None:
    found = after("layout-assignment", hloc.parse(TURNED))
    assert [(kind, name) for kind, name, _ in rows(found)] == [(LAYOUT, "d")]
    (row,) = [row for c in found.computations for row in c.rows if row.kind == LAYOUT]
    assert row.text.startswith("d = f32[2,4,6]{2,0,1} dot")
    assert row.was == "row-major"


def test_a_merged_instruction_and_its_user_are_shown() -> None:
    found = after("cse", hloc.parse(TEXT))
    assert rows(found) == [(MERGED, "b", "cse"), (REWIRED, "r", "cse")]
    (computation,) = found.computations
    assert any("multiply(nn, b → a)" in row.text for row in computation.rows)
    assert rows(after("cse,dce", hloc.parse(TEXT)))[0] == (MERGED, "b", "cse")


def test_removed_rows_stand_where_they_were_and_name_the_rule() -> None:
    found = after("algebraic-simplifier", hloc.parse(TEXT))
    by = "algebraic-simplifier/negate-negate"
    assert rows(found) == [(REMOVED, "n", by), (REMOVED, "nn", by), (REWIRED, "r", by)]
    assert found.summary() == "-2 ⇄1"


def test_renaming_an_operand_does_not_touch_its_users() -> None:
    """A line diff would show every user; the diff by identity shows the renamed one alone."""
    module = hloc.parse(TEXT)
    before = snapshot(module)
    (a,) = (inst for inst in all_instructions(module) if inst.name == "a")
    module.entry.rename(a, "sum")
    assert diff_snapshots(before, snapshot(module), module.log.events).is_empty


def test_a_changed_shape_shows_what_it_was() -> None:
    module = hloc.parse(TEXT)
    before = snapshot(module)
    (a,) = (inst for inst in all_instructions(module) if inst.name == "a")
    with module.log.acting("test/reshape"):
        module.entry.set_shape(a, array_shape("f32", 2, 2))
    found = diff_snapshots(before, snapshot(module), module.log.events)
    assert rows(found) == [(CHANGED, "a", "test/reshape")]
    text = next(row.text for row in found.computations[0].rows if row.kind == CHANGED)
    assert text == "a = f32[2,2] add(x, y)   (was f32[4] add)"


def test_computations_come_and_go() -> None:
    module = hloc.parse(TEXT)
    fused = after("fusion,dce", module)
    assert [(c.kind, c.is_entry) for c in fused.computations] == [(ADDED, False), (SAME, True)]
    assert fused.count(ADDED) > fused.count(REMOVED) > 0
    old, new = snapshot(module), snapshot(hloc.parse(TEXT))
    assert diff_snapshots(old, new).count(REMOVED) > 0


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.float32(0.5), "0.5"),
        (np.array([1, 2, 3], np.int32), "{1, 2, 3}"),
        (np.arange(100, dtype=np.uint8), "{0, 1, 2, 3, 4, 5, 6, 7, ...}"),
        (np.array([True, False]), "{true, false}"),
        (np.array([[np.inf, np.nan]], np.float64), "{inf, nan}"),
        (np.array(1 - 2j, np.complex64), "(1, -2)"),
        (np.zeros((0,), np.float32), "{}"),
    ],
)
def test_literals_are_short(array: np.ndarray, text: str) -> None:
    assert literal_text(literal_of(np.asarray(array))) == text


def test_a_line_has_operands_and_attributes() -> None:
    module = hloc.parse(
        """ENTRY e {
  x = (f32[2,3], s32[]) parameter(0)
  y = f32[2,3] get-tuple-element(x), index=0
  c = f32[2,3] constant({...})
  p = pred[2,3] compare(y, c), direction=LT
  ROOT t = pred[3,2] transpose(p), dimensions={1,0}
}"""
    )
    assert [line_of(inst).text() for inst in module.entry.instructions] == [
        "x = (f32[2,3], s32[]) parameter(0)",
        "y = f32[2,3] get-tuple-element(x), index=0",
        "c = f32[2,3] constant({...})",
        "p = pred[2,3] compare(y, c), direction=LT",
        "ROOT t = pred[3,2] transpose(p), dimensions={1,0}",
    ]


def test_lines_of_a_snapshot_are_those_of_instructions_alone() -> None:
    module = hloc.load(str(ROOT / "examples" / "lstm_scan.hlo"))
    lines = {line.uid: line for c in snapshot(module) for line in c.lines}
    assert lines == {inst.uid: line_of(inst) for inst in all_instructions(module)}
