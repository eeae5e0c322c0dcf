"""Rows of a diff say what a change means: expanded, merged, moved, reordered, and which tokens."""

import time
from collections.abc import Callable

import pytest

import hloc
from hloc.analysis.diff.diff_groups import (
    MovedAway,
    Repeats,
    Rewired,
    Unchanged,
    changes_of,
    folded,
    items_of,
    only_about,
)
from hloc.analysis.diff.diff_rows import (
    CONTENT,
    EXPANDED,
    KIND_WORDS,
    REORDERED,
    DiffRow,
    DiffTable,
    RowOptions,
    diff_table,
)
from hloc.analysis.diff.module_diff import (
    ADDED,
    CHANGED,
    MERGED,
    MOVED,
    REMOVED,
    RENAMED,
    REWIRED,
    SAME,
)
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.ir.traversal import all_instructions

Change = Callable[[Module], object]


def diff_of(text: str, change: str | Change, options: RowOptions = CONTENT) -> DiffTable:
    """Return the rows of what a pipeline, or a function on the module, does to `text`."""
    old = hloc.parse(text)
    new = clone_module(old)
    if isinstance(change, str):
        hloc.Pipeline.parse(change).run(new)
    else:
        change(new)
    return diff_table(old, new, new.log.events, options)


def changed(table: DiffTable) -> dict[str, DiffRow]:
    """Return the changed rows by name."""
    return {row.name: row for c in table.computations for row in c.rows if row.kind != SAME}


def entry(*lines: str) -> str:
    return "HloModule m\nENTRY e {\n  " + "\n  ".join(lines) + "\n}\n"


def test_nothing_is_an_empty_table() -> None:
    table = diff_of(entry("ROOT x = f32[4] parameter(0)"), "dce")
    assert table.is_empty
    assert table.summary() == "no change"


def test_a_merge_names_the_survivor_and_counts_it() -> None:
    text = entry(
        "x = f32[4] parameter(0)", "a = f32[4] negate(x)", "b = f32[4] negate(x)",
        "c = f32[4] negate(x)", "s = f32[4] add(a, b)", "ROOT r = f32[4] add(s, c)",
    )  # fmt: skip
    rows = changed(diff_of(text, "cse,dce"))
    assert (rows["a"].kind, rows["a"].note) == (MERGED, "3 → 1")
    assert (rows["b"].kind, rows["b"].note, rows["b"].after) == (MERGED, "same as a", "")
    assert rows["r"].kind == REWIRED
    left = changed(diff_of(text, "cse"))
    assert left["b"].note == "same as a, no users left"


def test_one_that_became_several_says_how_many_and_which() -> None:
    text = entry(
        "x = f32[4,1] parameter(0)",
        "k = f32[] constant(1)",
        "c = f32[4,1] broadcast(k), dimensions={}",
        "ROOT r = f32[4,1] subtract(x, c)",
    )
    table = diff_of(text, "algebraic-simplifier")
    row = changed(table)["r"]
    assert row.kind == EXPANDED
    assert row.note.startswith("1 → 3: ")
    assert table.counts()[ADDED] == 3
    assert row.by.startswith("algebraic-simplifier/")


CALL = """HloModule m
f {
  p = f32[4] parameter(0)
  n = f32[4] negate(p)
  ROOT e = f32[4] exponential(n)
}
ENTRY e {
  x = f32[4] parameter(0)
  ROOT c = f32[4] call(x), to_apply=f
}
"""


def test_an_inlined_body_is_shown_once_where_it_is_now() -> None:
    table = diff_of(CALL, "call-inliner")
    main, callee = table.computations
    moved = [row for row in main.rows if row.kind == MOVED]
    assert [(row.text.partition(" = ")[2], row.note) for row in moved] == [
        ("f32[4] negate(x)", "from f"),
        ("f32[4] exponential(n.0)".replace("n.0", moved[0].name), "from f"),
    ]
    assert (callee.kind, callee.rows) == (REMOVED, ())
    assert callee.note == "3 instructions, no callers left"
    gone = diff_of(CALL, "call-inliner,dce").computations[-1]
    assert (gone.kind, gone.note) == (REMOVED, "moved to e")


def test_fusion_moves_and_its_sources_are_one_line() -> None:
    text = entry(
        "x = f32[64] parameter(0)", "n = f32[64] negate(x)", "ROOT r = f32[64] exponential(n)"
    )
    body, main = diff_of(text, "fusion").computations
    assert [row.kind for row in body.rows] == [ADDED, MOVED, MOVED]
    away = [item for item in items_of(main) if isinstance(item, MovedAway)]
    assert away == [MovedAway(("n", "r"), body.name)]
    assert not any(isinstance(item, MovedAway) for item in items_of(main, expand=True))


def test_the_changed_tokens_are_marked_and_no_others() -> None:
    def change(module: Module) -> None:
        (r,) = (i for i in all_instructions(module) if i.name == "b")
        r.computation.set_attributes(r, type(r.attributes)(dimensions=(1,)))

    text = entry("x = f32[4] parameter(0)", "b = f32[4,4] broadcast(x), dimensions={0}",
                 "ROOT r = f32[4,4] negate(b)")  # fmt: skip
    row = changed(diff_of(text, change))["b"]
    assert row.kind == CHANGED
    assert [text for text, mark in row.parts if mark == "new"] == ["1"]
    assert row.text == "b = f32[4,4] broadcast(x), dimensions={1}"
    assert row.note == "was dimensions={0}"


def test_a_rewired_line_marks_old_and_new_operand() -> None:
    text = entry("x = f32[4] parameter(0)", "n = f32[4] negate(x)", "nn = f32[4] negate(n)",
                 "ROOT r = f32[4] add(nn, x)")  # fmt: skip
    row = changed(diff_of(text, "algebraic-simplifier"))["r"]
    assert row.text == "ROOT r = f32[4] add(nn → x, x)"
    assert row.arrow == ("nn", "x")
    assert [(text, mark) for text, mark in row.parts if mark] == [("nn", "old"), ("x", "new")]


def test_renaming_is_shown_when_asked_for() -> None:
    def change(module: Module) -> None:
        (n,) = (i for i in all_instructions(module) if i.name == "n")
        n.computation.rename(n, "minus")

    text = entry("x = f32[4] parameter(0)", "n = f32[4] negate(x)", "ROOT r = f32[4] negate(n)")
    assert diff_of(text, change).is_empty
    row = changed(diff_of(text, change, RowOptions(names=True)))["minus"]
    assert (row.kind, row.note) == (RENAMED, "was n")


def test_a_schedule_is_compared_when_asked_for_with_the_fewest_moves() -> None:
    text = entry(
        "x = f32[4] parameter(0)", "a = f32[4] negate(x)", "b = f32[4] exponential(x)",
        "c = f32[4] cosine(x)", "ROOT r = (f32[4], f32[4], f32[4]) tuple(a, b, c)",
    )  # fmt: skip
    text = text.replace("HloModule m", "HloModule m, is_scheduled=true")

    def change(module: Module) -> None:
        x, a, b, c, r = module.entry.instructions
        module.entry.reorder([x, c, a, b, r])

    assert diff_of(text, change).is_empty
    table = diff_of(text, change, RowOptions(order=True))
    assert [(row.name, row.kind) for row in changed(table).values()] == [("c", REORDERED)]


# ---------------------------------------------------------------- groups


def layers(count: int, shapes: list[str] | None = None) -> str:
    """Return `count` layers, each of which has a double negation to be taken out."""
    lines = ["x0 = f32[8] parameter(0)"]
    for i in range(count):
        lines += [
            f"n{i} = f32[8] negate(x{i})",
            f"nn{i} = f32[8] negate(n{i})",
            f"sin{i} = f32[8] sine(nn{i})",
            f"x{i + 1} = f32[8] cosine(sin{i})",
        ]
    lines[-1] = "ROOT " + lines[-1]
    return entry(*lines)


def test_the_same_change_in_every_layer_is_shown_once() -> None:
    (computation,) = diff_of(layers(24), "algebraic-simplifier").computations
    items = list(items_of(computation))
    rows = [item for item in items if isinstance(item, DiffRow)]
    assert [row.name for row in rows] == ["n0", "nn0", "sin0"]
    (repeats,) = (item for item in items if isinstance(item, Repeats))
    assert repeats.count == 23
    assert repeats.same_shapes
    assert repeats.labels[0] == "sin1 ← x1"
    expanded = list(items_of(computation, expand=True))
    assert sum(isinstance(item, DiffRow) for item in expanded) == 24 * 3


def test_every_row_is_shown_or_stood_for() -> None:
    (computation,) = diff_of(layers(5), "algebraic-simplifier").computations
    shown = 0
    for item in items_of(computation):
        if isinstance(item, Unchanged):
            shown += len(item.names)
        elif isinstance(item, Repeats):
            shown += item.count * 3
        else:
            shown += 1
    assert shown == len(computation.rows)


def test_changes_of_other_shapes_are_told_apart() -> None:
    text = entry(
        "x = f32[8] parameter(0)", "n = f32[8] negate(x)", "nn = f32[8] negate(n)",
        "s = f32[8] sine(nn)", "y = f32[4] parameter(1)", "m = f32[4] negate(y)",
        "mm = f32[4] negate(m)", "t = f32[4] sine(mm)",
        "ROOT r = (f32[8], f32[4]) tuple(s, t)",
    )  # fmt: skip
    (computation,) = diff_of(text, "algebraic-simplifier").computations
    (repeats,) = (item for item in items_of(computation) if isinstance(item, Repeats))
    assert not repeats.same_shapes


def test_many_users_of_one_replaced_instruction_are_one_line() -> None:
    opcodes = ("sine", "cosine", "tanh", "exponential")
    names = tuple(f"{opcode}.1" for opcode in opcodes)
    text = entry(
        "x = f32[4] parameter(0)",
        "a = f32[4] negate(x)",
        "b = f32[4] negate(x)",
        *(f"{opcode}.1 = f32[4] {opcode}(b)" for opcode in opcodes),
        f"ROOT r = (f32[4], f32[4], f32[4], f32[4], f32[4]) tuple(a, {', '.join(names)})",
    )
    (computation,) = diff_of(text, "cse").computations
    assert Rewired(names, "b", "a") in list(items_of(computation))


def test_the_same_in_several_computations_is_shown_once() -> None:
    bodies = "".join(
        f"f{i} {{\n  p = f32[4] parameter(0)\n  n = f32[4] negate(p)\n"
        f"  ROOT nn = f32[4] negate(n)\n}}\n"
        for i in range(3)
    )
    calls = [
        "x = f32[4] parameter(0)", "c0 = f32[4] call(x), to_apply=f0",
        "c1 = f32[4] call(c0), to_apply=f1", "ROOT c2 = f32[4] call(c1), to_apply=f2",
    ]  # fmt: skip
    text = entry(*calls).replace("ENTRY", bodies + "ENTRY")
    table = diff_of(text, "algebraic-simplifier")
    (first, others), *rest = folded(table.computations)
    assert (first.name, others) == ("f0", ("f1", "f2"))
    assert not rest
    assert len(folded(table.computations, expand=True)) == 3


def test_changes_hang_together_by_what_they_lost_and_got() -> None:
    (computation,) = diff_of(layers(2), "algebraic-simplifier").computations
    assert [[row.name for row in change] for change in changes_of(computation.rows)] == [
        ["n0", "nn0", "sin0"],
        ["n1", "nn1", "sin1"],
    ]
    assert [row.name for row in only_about(computation, "nn1")] == ["n1", "nn1", "sin1"]
    assert only_about(computation, "nope") == ()


# ---------------------------------------------------------------- size


def test_twenty_thousand_instructions_are_compared_in_seconds() -> None:
    old = hloc.parse(layers(5000))
    new = clone_module(old)
    hloc.Pipeline.parse("algebraic-simplifier").run(new)
    started = time.process_time()
    table = diff_table(old, new, new.log.events)
    items = [item for c in table.computations for item in items_of(c)]
    seconds = time.process_time() - started
    assert table.counts()[REMOVED] == 10_000
    assert len(items) < 20
    assert seconds < 3, seconds


@pytest.mark.parametrize("pipeline", ["algebraic-simplifier", "cse,dce", "fusion", "call-inliner"])
def test_rows_give_both_states_back(pipeline: str) -> None:
    """Whatever is folded, the rows hold every line of both states."""
    old = hloc.parse(CALL)
    new = clone_module(old)
    hloc.Pipeline.parse(pipeline).run(new)
    table = diff_table(old, new, new.log.events)
    for computation in table.computations:
        there = {c.name: c for c in new.computations}.get(computation.name)
        if there is not None and computation.rows:
            after = {row.name for row in computation.rows if row.after}
            assert after == {inst.name for inst in there.instructions}


def test_every_mark_is_in_common_fonts() -> None:
    """Dumps are read where only the usual fonts are; a missing glyph is drawn as an empty box."""
    in_most_fonts = {"\N{RIGHTWARDS ARROW OVER LEFTWARDS ARROW}", "≡", "□", "↕"}
    for mark, word in KIND_WORDS.items():
        assert mark <= "\xff" or mark in in_most_fonts, f"{word}: {mark}"
    assert len(set(KIND_WORDS.values())) == len(KIND_WORDS)
