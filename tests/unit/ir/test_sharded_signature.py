"""How arguments and results lie on devices, from every written form of a sharding."""

# One line per instruction, however long.
# ruff: noqa: E501

from __future__ import annotations

from dataclasses import replace

import pytest

import hloc
from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.ir.placement import Placement
from hloc.ir.sharded_signature import is_per_device, sharded_signature, whole_sizes

MESH = r'frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=4]>}}'
ROWS = ((0, 0), (0, 0), (0, 0), (0, 0), (1, 0), (1, 0), (1, 0), (1, 0))


def parameter(attributes: str, header: str = "", shape: str = "f32[8,8]") -> Placement | None:
    """Return the placement of the parameter of a program for eight devices."""
    module = hloc.parse(
        f"HloModule m, num_partitions=8{header}\nENTRY e {{ ROOT a = {shape} parameter(0){attributes} }}\n",
        verify=False,
    )
    return sharded_signature(module).parameters[0].placement


FORMS = {
    # each has the rows split in two, the first four devices hold the first half
    "V1": ", sharding={devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}",
    "V2": ", sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}",
    "V2 of two subgroups": ", sharding={devices=[2,1,2,2]<=[8] last_tile_dims={replicated, replicated}}",
    "named": ", sharding={mesh['x'=2,'y'=4], [{'x'}, {}]}",
    "named part of an axis": ", sharding={mesh['x'=8], [{'x':(1)2}, {}]}",
    "in a tuple": ", sharding={{devices=[2,1,4]<=[8] last_tile_dim_replicate}}",
}


@pytest.mark.parametrize("form", FORMS)
def test_written_forms_give_the_same_tiles(form: str) -> None:
    shape = "(f32[8,8])" if form == "in a tuple" else "f32[8,8]"
    assert parameter(FORMS[form], shape=shape) == Placement((2, 1), ROWS)


SHARDY = {
    r"[{\"x\"}, {}]": Placement((2, 1), ROWS),
    r"[{\"x\", ?}, {?}p1]": Placement((2, 1), ROWS),
    r"[{\"x\"}, {}], replicated={\"y\"}": Placement((2, 1), ROWS),
    r"[{}, {\"y\":(2)2}]": Placement((1, 2), ((0, 0), (0, 1)) * 4),
    r"[{\"y\":(1)2, \"x\"}, {}]": Placement(
        (4, 1), tuple((i, 0) for i in (0, 0, 2, 2, 1, 1, 3, 3))
    ),
    r"[{}, {}], unreduced={\"x\"}": None,
}


@pytest.mark.parametrize("text", SHARDY)
def test_shardy_counts_where_no_sharding_is_written(text: str) -> None:
    attributes = f', frontend_attributes={{xla.sdy.sharding="#sdy.sharding<@mesh, {text}>"}}'
    assert parameter(attributes, f", {MESH}") == SHARDY[text]


def test_devices_of_a_permuted_mesh_lie_in_its_order() -> None:
    mesh = MESH.replace("]>", "], device_ids=[7,6,5,4,3,2,1,0]>")
    attributes = r', frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"x\"}, {}]>"}'
    assert parameter(attributes, f", {mesh}") == Placement((2, 1), ROWS[::-1])
    explicit = ", sharding={mesh['x'=2,'y'=4], device_ids=(7,6,5,4,3,2,1,0), [{'x'}, {}]}"
    assert parameter(explicit) == Placement((2, 1), ROWS[::-1])


def test_one_device_may_have_all() -> None:
    found = parameter(", sharding={maximal device=3}")
    assert found is not None
    assert [bool(place) for place in found.places] == [False] * 3 + [True] + [False] * 4


def test_parts_of_a_manual_array_make_no_whole() -> None:
    assert parameter(", sharding={manual}") is None
    assert parameter(", sharding={devices=[1,1,8]<=[8] last_tile_dims={manual}}") is None


WRONG = {
    "fewer devices": (", sharding={devices=[2,1]<=[2]}", "", "over 8 partitions"),
    "unknown mesh": (r', frontend_attributes={xla.sdy.sharding="#sdy.sharding<@other, [{}, {}]>"}', "", "mesh @other, which is unknown"),
    "broken text": (r', frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"x\""}', f", {MESH}", "ends too early"),
    "unknown axis": (r', frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"z\"}, {}]>"}', f", {MESH}", "has no axis 'z'"),
    "too few dimensions": (r', frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"x\"}]>"}', f", {MESH}", "does not spread 2 dimensions"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_sharding_that_does_not_fit_is_refused(case: str) -> None:
    attributes, header, message = WRONG[case]
    with pytest.raises(HloError, match=message):
        parameter(attributes, header)


def test_results_have_the_shardings_of_the_root_or_of_shardy() -> None:
    root = hloc.parse(
        "HloModule m, num_partitions=4\nENTRY e { a = f32[8] parameter(0) b = f32[6] parameter(1) "
        "ROOT t = (f32[8], f32[6]) tuple(a, b), sharding={{devices=[4]<=[4]}, {replicated}} }\n"
    )
    shardy = hloc.parse(
        r'HloModule m, num_partitions=4, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=4]>}}'
        "\nENTRY e { a = f32[8] parameter(0) b = f32[6] parameter(1) "
        'c = f32[8] custom-call(a), custom_call_target="xla.sdy.FuncResultSharding", '
        r'frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{\"x\"}]>]>"} '
        "t = (f32[8], f32[6]) tuple(c, b) g = f32[8] get-tuple-element(t), index=0 "
        "h = f32[6] get-tuple-element(t), index=1 ROOT u = (f32[8], f32[6]) tuple(g, h) }\n"
    )
    for module in (root, shardy):
        results = sharded_signature(module).results
        assert [sharded.local.dims for sharded in results] == [(2,), (6,)]


PARTITIONED = (
    "HloModule m, num_partitions=4\nENTRY {name} {{ a = f32[4] parameter(0), sharding={{devices=[4]<=[4]}} "
    "ROOT n = f32[4] negate(a){result} }}\n"
)


def test_a_module_that_xla_partitioned_has_shardings_of_whole_parameters() -> None:
    module = hloc.parse(PARTITIONED.format(name="main_spmd.2", result=""))
    signature = sharded_signature(module)
    assert signature.is_per_device
    assert signature.parameters[0].whole.dims == (16,)
    assert signature.results[0].placement is None


def test_a_module_that_hloc_partitioned_knows_its_whole_arrays() -> None:
    whole = hloc.parse(
        "HloModule m, num_partitions=4\nENTRY main { a = f32[13] parameter(0), sharding={devices=[4]<=[4]} "
        "ROOT n = f32[13] negate(a), sharding={devices=[4]<=[4]} }\n"
    )
    local = hloc.parse(PARTITIONED.format(name="main_spmd", result=", sharding={devices=[4]<=[4]}"))
    sizes = whole_sizes([(13,)], [(13,)])
    local.set_config(replace(local.config, frontend_attributes=tuple(sorted(sizes.items()))))
    again = hloc.parse(local.to_text())
    assert sharded_signature(again).results == sharded_signature(whole).results
    assert sharded_signature(again).parameters == sharded_signature(whole).parameters


def kind(text: str) -> bool:
    module: Module = hloc.parse(text)
    return is_per_device(module)


SUM = "sum { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }\n"
REDUCED = (
    SUM
    + "ENTRY e { a = f32[4] parameter(0) ROOT r = f32[4] all-reduce(a), channel_id=1, use_global_device_ids=true, replica_groups=[1,4]<=[4], to_apply=sum }\n"
)


def test_collectives_and_schedules_make_a_program_of_one_device() -> None:
    assert kind("HloModule m, num_partitions=4\n" + REDUCED)
    assert kind("HloModule m\n" + REDUCED)
    sharded = PARTITIONED.format(name="main", result="")
    assert kind(sharded.replace("partitions=4", "partitions=4, is_scheduled=true"))


def test_annotations_for_a_partitioner_make_a_global_program() -> None:
    assert not kind(PARTITIONED.format(name="main", result=""))
    assert not kind(f"HloModule m, num_partitions=4, {MESH}\n" + REDUCED)
    manual = REDUCED.replace(
        "a = f32[4] parameter(0)",
        'w = f32[16] parameter(0) v = f32[16] custom-call(w), custom_call_target="Sharding", sharding={devices=[4]<=[4]} a = f32[4] custom-call(v), custom_call_target="SPMDFullToShardShape", sharding={manual}',
    )
    assert not kind("HloModule m, num_partitions=4\n" + manual)


def test_one_device_has_no_parts() -> None:
    assert not kind("HloModule m\nENTRY main_spmd { ROOT a = f32[4] parameter(0) }\n")
