"""Scenes: every instruction is somewhere, large modules open small, parts are found by name."""

import pytest

from hloc.driver import parse_text
from hloc.errors import HloError
from hloc.ir.computation import Computation
from hloc.pictures.boxes import Box
from hloc.pictures.changes import changes_between
from hloc.pictures.labels import written_in_users
from hloc.pictures.places import BOXES_AT_START, all_nodes, lines_of, opened, place, ways
from hloc.pictures.scene import Scene, scene_of
from hloc.pictures.selection import between, picked
from tests.unit.pictures.modules import layered_model, small, training_step


def titles(scene: Scene) -> dict[str, str]:
    return {leaf.name: leaf.title for leaf in scene.root.leaves()}


def names(computation: Computation, members: frozenset[object] | None) -> set[str]:
    return {i.name for i in computation.instructions if members is None or i in members}


def seen(scene: Scene, most: int = BOXES_AT_START) -> list[str]:
    return [lines_of(node.box)[0] for node in all_nodes(opened(scene, most)) if not node.is_open]


def test_scalars_are_written_in_their_users() -> None:
    found = titles(scene_of(small().entry))
    assert found["s"] == "multiply(·, lr)"
    assert found["top"] == "reduce maximum(·, -inf)"
    assert not {"lr", "rate", "low", "g"} & set(found)


def test_get_tuple_element_is_looked_through() -> None:
    root = scene_of(small().entry).root
    assert ("t", "n") in [(e.source.name, e.target.name) for e in root.edges]


def test_a_fusion_opens_into_its_computation_and_a_reducer_is_a_word() -> None:
    leaves = {leaf.name: leaf for leaf in scene_of(small().entry).root.leaves()}
    (body,) = leaves["f"].bodies
    assert [leaf.title for leaf in body.leaves()] == ["parameter 0", "multiply(·, 2)"]
    assert not leaves["top"].bodies


@pytest.mark.parametrize("scopes", [True, False])
def test_every_instruction_stands_in_the_tree_once(scopes: bool) -> None:
    entry = layered_model(40, scopes=scopes).entry
    leaves = scene_of(entry).root.leaves()
    drawn = [leaf.inst for leaf in leaves]
    assert len(drawn) == len(set(drawn))
    assert len(drawn) + len(written_in_users(entry)) == len(entry)


@pytest.mark.parametrize("scopes", [True, False])
def test_a_large_module_opens_with_few_boxes(scopes: bool) -> None:
    scene = scene_of(layered_model(90, scopes=scopes, width=40).entry)
    assert scene.root.count > 3600
    assert 1 < len(seen(scene)) <= BOXES_AT_START
    assert len(seen(scene, 10**6)) == len(scene.root.leaves())


def test_equal_layers_become_one_box() -> None:
    shown = seen(scene_of(layered_model(24).entry))
    assert "layer_0 … layer_22 ×23" in shown  # the root went to the last layer


def test_equal_rounds_are_found_without_scopes() -> None:
    """A dump without metadata still shows that it is a stack of layers."""
    shown = seen(scene_of(layered_model(24, scopes=False).entry))
    assert any("×24" in title or "×23" in title for title in shown), shown


@pytest.mark.parametrize("scopes", [True, False])
def test_a_training_step_folds_forwards_backwards_and_in_the_update(scopes: bool) -> None:
    """60 layers are three boxes, not three hundred, though every gradient reads a forward layer."""
    scene = scene_of(training_step(60, scopes=scopes).entry)
    folded = [box for box in scene.root.children if box.repeats >= 59 and box.count >= 60]
    weights = [box for box in folded if box.title.startswith("parameter")]
    assert len(folded) - len(weights) == 3, seen(scene)
    assert len(seen(scene)) <= 12, seen(scene)
    assert seen(scene) == seen(scene_of(training_step(60, scopes=scopes).entry))


@pytest.mark.parametrize("scopes", [True, False])
@pytest.mark.parametrize("most", [BOXES_AT_START, 10**6])
def test_boxes_stand_below_their_operands_and_lines_beside_boxes(scopes: bool, most: int) -> None:
    root = opened(scene_of(training_step(40, scopes=scopes).entry), most)
    place(root)
    drawn = ways(root)
    assert drawn
    assert all(way.target.y > way.source.bottom for way in drawn)
    assert not any(way.is_long for way in drawn), "only a line without bends runs behind boxes"


@pytest.mark.parametrize("visits", ["abab", "a-a", "abcabcaba"])
def test_scopes_that_take_turns_are_no_circle(visits: str) -> None:
    """A scope that is left and entered again would stand above and below the one between."""
    lines = ["HloModule m", "ENTRY e {", "  v0 = f32[8] parameter(0)"]
    for i, scope in enumerate(scope for scope in visits for _ in range(4)):
        where = f', metadata={{op_name="f/{scope}/add"}}' if scope != "-" else ""
        opcode = ("add", "multiply", "subtract", "maximum")[i % 4]
        lines.append(f"  v{i + 1} = f32[8] {opcode}(v{i}, v{max(0, i - 2)}){where}")
    module = parse_text("\n".join([*lines, f"  ROOT r = f32[8] negate(v{i + 1})", "}"]))
    for most in (3, BOXES_AT_START):
        root = opened(scene_of(module.entry), most)
        place(root)
        assert all(way.target.y > way.source.bottom for way in ways(root))


def test_instructions_that_repeat_nothing_are_cut_into_parts() -> None:
    lines = ["HloModule m", "ENTRY e {", "  v0 = f32[8] parameter(0)"]
    opcodes = ("add", "multiply", "subtract", "maximum", "minimum", "divide")
    state = 1
    for i in range(1, 1200):
        state = state * 1_103_515_245 + 12345 & 0x7FFFFFFF
        lines.append(f"  v{i} = f32[8] {opcodes[state >> 16 & 3]}(v{i - 1}, v{i // 2})")
    scene = scene_of(parse_text("\n".join([*lines, "  ROOT r = f32[8] negate(v1199)", "}"])).entry)
    assert any(title.startswith("part 1 of") for title in seen(scene))
    assert len(seen(scene)) <= BOXES_AT_START


def test_boxes_stand_inside_their_frames_and_beside_each_other() -> None:
    root = opened(scene_of(layered_model(12).entry), 10**6)
    place(root)
    for node in all_nodes(root):
        for inside in node.nodes:
            assert node.x <= inside.x
            assert inside.x + inside.width <= node.x + node.width
            assert node.y <= inside.y
            assert inside.bottom <= node.bottom
        for a in node.nodes:
            assert not any(
                a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.bottom and b.y < a.bottom
                for b in node.nodes
                if b is not a
            )


def test_every_visible_pair_has_one_way() -> None:
    root = opened(scene_of(layered_model(12).entry))
    place(root)
    pairs = [(way.source, way.target) for way in ways(root)]
    assert pairs
    assert len(pairs) == len(set(pairs))
    assert all(way.path.startswith("M") for way in ways(root))


def test_a_deep_chain_needs_no_recursion() -> None:
    scene = scene_of(layered_model(1, width=5000, scopes=False).entry)
    assert len(seen(scene)) <= BOXES_AT_START


# ---------------------------------------------------------------- parts by name


def test_a_neighbourhood_says_what_it_leaves_out() -> None:
    what = picked(small(), "%s", radius=1)
    assert names(what.computation, what.members) == {"f", "s", "t", "top"}
    scene = scene_of(what.computation, what.members)
    leaves = {leaf.name: leaf for leaf in scene.root.leaves()}
    assert leaves["f"].hidden == "not drawn: 1 operand"


def test_nothing_beyond_until() -> None:
    what = picked(small(), "top", radius=9, until=["s"])
    assert names(what.computation, what.members) == {"n", "g", "s", "t", "top"}


@pytest.mark.parametrize(
    ("direction", "expected"),
    [("backward", {"f", "s", "x"}), ("forward", {"g", "n", "s", "t", "top"})],
)
def test_slices(direction: str, expected: set[str]) -> None:
    what = picked(small(), "s", direction=direction)
    assert names(what.computation, what.members) == expected


def test_paths_between_two_in_either_order() -> None:
    for first, last in (("x", "top"), ("top", "x")):
        what = between(small(), first, last)
        assert names(what.computation, what.members) == {"x", "f", "s", "top"}


def test_paths_that_are_not_there() -> None:
    with pytest.raises(HloError, match="no path between lr and x"):
        between(small(), "lr", "x")
    with pytest.raises(HloError, match="different computations"):
        between(small(), "x", "m")


def test_a_computation_is_drawn_by_its_name() -> None:
    assert picked(small(), "double").computation.name == "double"


# ---------------------------------------------------------------- changes


def test_changes_are_marked_and_what_is_gone_is_drawn() -> None:
    before = small()
    after = parse_text(small().to_text().replace("negate(", "abs("))
    leaves = scene_of(after.entry, None, changes_between(before, after)).root.leaves()
    status = {(leaf.inst.opcode.name, leaf.status) for leaf in leaves if leaf.inst and leaf.status}
    assert status in ({("abs", "changed")}, {("abs", "added"), ("negate", "removed")})


def test_what_was_removed_stands_where_it_stood() -> None:
    before = parse_text(
        "HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n  a = f32[8] sine(x)\n"
        "  b = f32[8] cosine(x)\n  c = f32[8] add(a, b)\n  ROOT r = f32[8] exponential(c)\n}"
    )
    after = parse_text(
        "HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n  a = f32[8] sine(x)\n"
        "  ROOT r = f32[8] exponential(a)\n}"
    )
    root = scene_of(after.entry, None, changes_between(before, after)).root
    gone = {leaf.name for leaf in root.leaves() if leaf.status == "removed"}
    assert gone == {"b", "c"}
    dashed = {(e.source.name, e.target.name) for e in root.edges if e.gone}
    assert dashed == {("x", "b"), ("a", "c"), ("b", "c"), ("c", "r")}


def test_nothing_is_marked_between_equal_modules() -> None:
    assert changes_between(small(), small()).is_empty


def test_a_group_with_a_change_is_marked() -> None:
    box = Box(0, "scope", "s", children=[Box(1, "instruction", "add", status="added")])
    box.add_up()
    assert box.status == "changed"
