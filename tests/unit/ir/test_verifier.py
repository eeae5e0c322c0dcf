"""The verifier says what is wrong with a module, where, and under which number.

Every text here is read by XLA's parser, which believes what is written; several kill XLA later.
"""

# One line per case, however long.
# ruff: noqa: E501

from __future__ import annotations

import pytest

import hloc
from hloc.ir.verifier import check
from hloc.shapes import Layout
from hloc.source import Span

SUM = "sum { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }\n"
LESS = "less { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = pred[] compare(p, q), direction=LT }\n"
NEGATE = "neg { p = f32[] parameter(0) ROOT n = f32[] negate(p) }\n"
NEGATE4 = "neg4 { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }\n"
CONVOLUTION = (
    "a = f32[1,8,8,3] parameter(0)",
    "b = f32[3,3,3,16] parameter(1)",
    "ROOT c = f32[1,6,6,16] convolution(a, b), window={size=3x3}, dim_labels=b01f_01io->b01f, ",
)


def module(*lines: str, called: str = "", header: str = "") -> str:
    """Return the text of a module whose entry has `lines`."""
    body = "".join(f"  {line}\n" for line in lines)
    return f"HloModule m{header}\n{called}ENTRY main {{\n{body}}}\n"


A4 = "a = f32[4] parameter(0)"
A = "a = f32[] parameter(0)"

WRONG = {
    # layouts and sizes
    "element of 3 bits": ("HLOC0311", module("ROOT a = s4[4]{0:E(3)} parameter(0)")),
    "element too narrow": ("HLOC0311", module("ROOT a = f32[4]{0:E(4)} parameter(0)")),
    "tile of 0": ("HLOC0311", module("ROOT a = f32[4]{0:T(0)} parameter(0)")),
    # operands and attributes
    "add broadcasts": ("HLOC0312", module(A4, "b = f32[] parameter(1)", "ROOT c = f32[4] add(a, b)")),
    "transpose repeats": ("HLOC0313", module("a = f32[4,6] parameter(0)", "ROOT b = f32[4,4] transpose(a), dimensions={0,0}")),
    "element beyond the tuple": ("HLOC0313", module("a = (f32[]) parameter(0)", "ROOT b = f32[] get-tuple-element(a), index=7")),
    "negative element": ("HLOC0313", module("a = (f32[]) parameter(0)", "ROOT b = f32[] get-tuple-element(a), index=-1")),
    "element of an array": ("HLOC0313", module(A, "ROOT b = f32[] get-tuple-element(a), index=0")),
    "sort along -1": ("HLOC0313", module(A4, "ROOT b = f32[4] sort(a), dimensions={-1}, to_apply=less", called=LESS)),
    "sort by a sum": ("HLOC0313", module(A4, "ROOT b = f32[4] sort(a), dimensions={0}, to_apply=sum", called=SUM)),
    "no feature group": ("HLOC0313", module(*CONVOLUTION[:2], CONVOLUTION[2] + "feature_group_count=0")),
    "negative feature groups": ("HLOC0313", module(*CONVOLUTION[:2], CONVOLUTION[2] + "feature_group_count=-1")),
    "no batch group": ("HLOC0313", module(*CONVOLUTION[:2], CONVOLUTION[2] + "batch_group_count=0")),
    "order of complex": ("HLOC0313", module("a = c64[] parameter(0)", "ROOT b = pred[] compare(a, a), direction=LT")),
    "maximum of complex": ("HLOC0313", module("a = c64[] parameter(0)", "ROOT b = c64[] maximum(a, a)")),
    "iota of a scalar": ("HLOC0313", module("ROOT a = f32[] iota(), iota_dimension=0")),
    "slice beyond": ("HLOC0313", module(A4, "ROOT b = f32[3] slice(a), slice={[2:5]}")),
    "stride 0": ("HLOC0313", module(A4, "ROOT b = f32[3] slice(a), slice={[0:3:0]}")),
    "empty window": ("HLOC0313", module(A4, "z = f32[] parameter(1)", "ROOT b = f32[4] reduce-window(a, z), window={size=0}, to_apply=sum", called=SUM)),
    "negative device": ("HLOC0313", module(A4, "ROOT b = f32[4] collective-permute(a), source_target_pairs={{0,-1}}")),
    # called computations
    "condition is no pred": ("HLOC0313", module(A, "ROOT b = f32[] while(a), condition=neg, body=neg", called=NEGATE)),
    "call with too few": ("HLOC0313", module(A, "ROOT b = f32[] call(a), to_apply=sum", called=SUM)),
    "fusion with too many": ("HLOC0313", module(A, "ROOT b = f32[] fusion(a, a), kind=kLoop, calls=neg", called=NEGATE)),
    "fusion body shared": ("HLOC0325", module(A, "b = f32[] call(a), to_apply=neg", "ROOT c = f32[] fusion(b), kind=kLoop, calls=neg", called=NEGATE)),
    # declared shapes
    "wrong size": ("HLOC0314", module(A4, "ROOT b = f32[5] opt-barrier(a)")),
    "wrong type": ("HLOC0314", module(A4, "ROOT b = s32[4] negate(a)")),
    "wrong tuple": ("HLOC0314", module(A4, "ROOT b = (f32[5]) tuple(a)")),
    # pairs
    "never ended": ("HLOC0329", module(A4, "s = (f32[4], f32[4], u32[]) copy-start(a)", "ROOT b = f32[4] negate(a)")),
    "ended twice": ("HLOC0316", module(A4, "s = ((f32[4]), f32[4]) negate-start(a)", "x = f32[4] negate-done(s)", "y = f32[4] negate-done(s)", "ROOT b = f32[4] add(x, y)")),
    "ends a parameter": ("HLOC0316", module("a = (f32[4], f32[4], u32[]) parameter(0)", "ROOT b = f32[4] copy-done(a)")),
    "used by another": ("HLOC0316", module(A4, "s = (f32[4], f32[4], u32[]) copy-start(a)", "ROOT b = f32[4] get-tuple-element(s), index=0")),
    # devices
    "ended on another channel": ("HLOC0317", module(A4, "t = token[] after-all()", "s = (f32[4], u32[], token[]) send(a, t), channel_id=1", "ROOT d = token[] send-done(s), channel_id=2")),
    "negative channel": ("HLOC0330", module(A4, "ROOT b = f32[4] all-reduce(a), channel_id=-1, to_apply=sum", called=SUM)),
    "device in two groups": ("HLOC0318", module(A4, "ROOT b = f32[4] all-reduce(a), replica_groups={{0,1},{1,2}}, to_apply=sum", called=SUM)),
    "empty group": ("HLOC0318", module(A4, "ROOT b = f32[4] all-reduce(a), replica_groups={{0},{}}, to_apply=sum", called=SUM)),
    "replica left out": ("HLOC0318", module(A4, "ROOT b = f32[4] all-reduce(a), replica_groups={{0,1}}, to_apply=sum", called=SUM, header=", replica_count=4")),
    "replica beyond": ("HLOC0318", module(A4, "ROOT b = f32[4] all-reduce(a), replica_groups={{0,2}}, to_apply=sum", called=SUM)),
    "partitions counted as replicas": ("HLOC0318", module(A4, "ROOT b = f32[4] all-reduce(a), replica_groups=[1,4]<=[4], to_apply=sum", called=SUM, header=", replica_count=2, num_partitions=4")),
    "flattened ids of all": ("HLOC0318", module(A4, "ROOT b = f32[4] all-reduce(a), channel_id=1, use_global_device_ids=true, to_apply=sum", called=SUM)),
    "parts of a mesh axis overlap": ("HLOC0318", module(A4, "ROOT b = f32[4] all-reduce(a), replica_groups=mesh['x'=8] {'x':(1)4,'x':(2)2}, to_apply=sum", called=SUM)),
    "mesh with a device twice": ("HLOC0318", module(A4, "ROOT b = f32[4] all-reduce(a), replica_groups=mesh['x'=2,'y'=2], device_ids=(0,1,2,2) {'x'}, to_apply=sum", called=SUM)),
    "gather in groups of two sizes": ("HLOC0318", module(A4, "ROOT b = f32[8] all-gather(a), replica_groups={{0,1},{2}}, dimensions={0}")),
    "gather of another factor": ("HLOC0318", module(A4, "ROOT b = f32[8] all-gather(a), replica_groups={{0,1,2,3}}, dimensions={0}")),
    "scatter of another factor": ("HLOC0318", module(A4, "ROOT b = f32[2] reduce-scatter(a), replica_groups={{0,1,2,3}}, dimensions={0}, to_apply=sum", called=SUM)),
    "pieces with a rest": ("HLOC0318", module(A4, "ROOT b = f32[4] all-to-all(a), replica_groups={{0,1,2}}, dimensions={0}")),
    "operands of another count": ("HLOC0318", module(A4, "ROOT b = (f32[4], f32[4]) all-to-all(a, a), replica_groups={{0,1,2}}")),
    "target beyond": ("HLOC0318", module(A4, "ROOT b = f32[4] collective-permute(a), source_target_pairs={{0,4}}", header=", replica_count=4")),
    "broadcast beyond": ("HLOC0318", module(A4, "ROOT b = f32[4] collective-broadcast(a), replica_groups={{0,9}}", header=", replica_count=4")),
    "sharding of other rank": ("HLOC0319", module("ROOT a = f32[4] parameter(0), sharding={devices=[2,2]<=[4]}")),
    "device twice": ("HLOC0319", module("ROOT a = f32[4] parameter(0), sharding={devices=[2]0,0}")),
    # aliases of instructions
    "alias of no operand": ("HLOC0326", module(A4, "ROOT b = f32[4] fusion(a), kind=kLoop, calls=neg4, output_to_operand_aliasing={{}: (1, {})}", called=NEGATE4)),
    "alias of no output": ("HLOC0326", module(A4, 'ROOT b = f32[4] custom-call(a), custom_call_target="f", output_to_operand_aliasing={{3}: (0, {})}')),
    # header
    "layout of fewer": ("HLOC0320", module(A, "ROOT b = f32[] negate(a)", header=", entry_computation_layout={()->f32[]}")),
    "layout of another parameter": ("HLOC0321", module(A, "ROOT b = f32[] negate(a)", header=", entry_computation_layout={(s32[])->f32[]}")),
    "layout of another result": ("HLOC0322", module(A, "ROOT b = f32[] negate(a)", header=", entry_computation_layout={(f32[])->s32[]}")),
    "alias of no parameter": ("HLOC0323", module("ROOT a = f32[4] parameter(0)", header=", input_output_alias={{}: (3, {})}")),
    "alias of other size": ("HLOC0324", module(A4, "ROOT b = f32[2] slice(a), slice={[0:2]}", header=", input_output_alias={{}: (0, {})}")),
    "parameter for two outputs": ("HLOC0331", module(A4, "ROOT b = (f32[4], f32[4]) tuple(a, a)", header=", input_output_alias={{0}: (0, {}), {1}: (0, {})}")),
    "no partition": ("HLOC0327", module("ROOT a = f32[4] parameter(0)", header=", num_partitions=0")),
    "no replica": ("HLOC0327", module("ROOT a = f32[4] parameter(0)", header=", replica_count=0")),
    "donor that is not there": ("HLOC0328", module("ROOT a = f32[4] parameter(0)", header=", buffer_donor={(3, {})}")),
    "donor that is aliased": ("HLOC0328", module("ROOT a = f32[4] parameter(0)", header=", input_output_alias={{}: (0, {})}, buffer_donor={(0, {})}")),
}  # fmt: skip

RIGHT = {
    "sign of an unsigned comparison": module("a = u32[] parameter(0)", "ROOT b = pred[] compare(a, a), direction=LT, type=SIGNED"),
    "reducer that returns a tuple of one": module(A4, "z = f32[] parameter(1)", "ROOT b = (f32[3]) reduce-window(a, z), window={size=2}, to_apply=one", called="one { p = f32[] parameter(0) q = f32[] parameter(1) s = f32[] add(p, q) ROOT t = (f32[]) tuple(s) }\n"),
    "pair of an all-reduce-start": module(A4, "s = (f32[4], f32[4]) all-reduce-start(a), to_apply=sum", "ROOT d = f32[4] all-reduce-done(s)", called=SUM),
    "channel 0 is no channel": module(A4, "b = f32[4] all-reduce(a), channel_id=0, to_apply=sum", "ROOT c = f32[8] all-gather(b), channel_id=0, dimensions={0}", called=SUM),
    "send and receive share a channel": module("t = token[] after-all()", A4, "s = (f32[4], u32[], token[]) send(a, t), channel_id=1", "d = token[] send-done(s), channel_id=1", "r = (f32[4], u32[], token[]) recv(d), channel_id=1", "ROOT e = (f32[4], token[]) recv-done(r), channel_id=1"),
    "collectives share a channel": module(A4, "b = f32[4] all-reduce(a), channel_id=1, to_apply=sum", "ROOT c = f32[8] all-gather(b), channel_id=1, dimensions={0}", called=SUM),
    "sharding of an empty tuple": module(A4, 't = () custom-call(a), custom_call_target="f", custom_call_has_side_effect=true, sharding={{maximal device=0}}', "ROOT b = f32[4] negate(a)"),
    "subgroups of a sharding": module("ROOT a = f32[4] parameter(0), sharding={devices=[2,2]<=[4] last_tile_dim_replicate}"),
    "half precision result of a dot": module("a = f32[4,4] parameter(0)", "ROOT b = bf16[4,4] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    "packed elements": module("ROOT a = s4[4]{0:E(4)} parameter(0)"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_module_is_named_by_code_and_place(name: str) -> None:
    code, text = WRONG[name]
    with pytest.raises(hloc.HloError) as caught:
        hloc.parse(text)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code
    assert isinstance(diagnostic.span, Span)


@pytest.mark.parametrize("name", WRONG)
def test_without_verification_the_text_is_believed_as_by_xla(name: str) -> None:
    module = hloc.parse(WRONG[name][1], verify=False)
    assert check(module)


@pytest.mark.parametrize("name", RIGHT)
def test_what_xla_runs_is_not_refused(name: str) -> None:
    assert not check(hloc.parse(RIGHT[name], verify=False))


def test_notes_name_operands_and_where_they_are_defined() -> None:
    with pytest.raises(hloc.HloError) as caught:
        hloc.parse(WRONG["slice beyond"][1])
    (note,) = caught.value.diagnostics[0].notes
    assert note == "operand 0 is f32[4] 'a', defined at <string>:3:3"


def test_every_fault_of_a_module_is_reported() -> None:
    text = module(A4, "b = f32[5] negate(a)", "c = s32[4] negate(a)", "ROOT d = f32[4] negate(a)")
    with pytest.raises(hloc.HloError) as caught:
        hloc.parse(text)
    assert [d.code for d in caught.value.diagnostics] == ["HLOC0312", "HLOC0314"]


def test_a_schedule_in_the_wrong_order_is_a_fault() -> None:
    text = module(
        A, "b = f32[] negate(a)", "ROOT c = f32[] negate(b)", header=", is_scheduled=true"
    )
    found = hloc.parse(text)
    a, b, c = found.entry.instructions
    found.entry.reorder([a, c, b])
    assert [d.code for d in check(found)] == ["HLOC0315"]


@pytest.mark.parametrize("layout", ["{7,0}", "{0,0}"])
def test_a_layout_that_is_no_permutation_is_reported_at_its_place(layout: str) -> None:
    text = module(
        f"a = f32[2,3]{layout} parameter(0)", "ROOT b = f32[3,2] transpose(a), dimensions={1,0}"
    )
    for verify in (True, False):
        with pytest.raises(hloc.HloError, match="does not name each dimension") as caught:
            hloc.parse(text, verify=verify)
        (fault,) = caught.value.diagnostics
        assert fault.span is not None
        assert fault.span.text.startswith("f32[2,3]{")


def test_shape_rules_never_see_a_layout_that_is_no_permutation() -> None:
    """The rule of transpose failed with KeyError after the operand had been reported."""
    found = hloc.parse(
        module("a = f32[2,3] parameter(0)", "ROOT b = f32[3,2] transpose(a), dimensions={1,0}")
    )
    (a,) = found.entry.parameters
    found.entry.set_shape(a, a.array.with_layout(Layout((7, 0))))
    assert [d.code for d in check(found)] == ["HLOC0311"]


def test_a_tuple_of_thousands_is_checked_in_linear_time() -> None:
    count = 20_000
    lines = ["a = f32[] parameter(0)"]
    lines += [f"x{i} = f32[] negate(a)" for i in range(count)]
    shapes, names = ", ".join(["f32[]"] * count), ", ".join(f"x{i}" for i in range(count))
    found = hloc.parse(module(*lines, f"ROOT t = ({shapes}) tuple({names})"), verify=False)
    assert check(found) == []  # comparing every operand with every user would take minutes
