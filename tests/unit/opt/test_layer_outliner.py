"""Equal layers become calls of one computation, and the results stay bit for bit."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import hloc
from hloc.evaluator.devices import evaluate_devices
from hloc.ir.clone import clone_module
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import live_computations
from hloc.ir.verifier import verify
from hloc.ops.builder import Builder
from hloc.opt.pipeline import Pipeline
from hloc.shapes import array_leaves, array_shape
from tests.inputs import inputs_for

OUTLINE = "layer-outliner{min-length=6,min-layers=3,min-instructions=8},dce"


def drawn_model(seed: int, layers: int) -> Module:
    """Return a module of equal layers, each of random operations, then one that reads some results.

    A layer reads the results of the layer before it, arrays of its own and arrays that all read.
    """
    random = np.random.default_rng(seed)
    module = Module("m")
    entry = module.add_computation("entry")
    module.set_entry(entry)
    b = Builder(entry)
    shape = array_shape("f32", 4, 4)
    steps = [
        (random.choice(["add", "dot", "multiply", "tanh", "splat", "transpose"]), *random.random(2))
        for _ in range(random.integers(14, 28))
    ]
    results = random.choice(range(4, 4 + len(steps)), random.integers(3), replace=False)
    shared = [b.parameter(0, shape)]
    state, kept = [b.parameter(1, shape), b.parameter(2, shape)], []
    for number in range(layers):
        values = [*shared, *state, b.parameter(3 + number, shape)]
        for name, left, right in steps:
            x, y = values[int(left * len(values))], values[int(right * len(values))]
            if name == "splat":
                values.append(b.add(x, b.splat(0.5, shape)))
            elif name == "dot":
                values.append(b.dot(x, y, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,)))
            elif name == "transpose":
                values.append(b.transpose(x, dimensions=(1, 0)))
            else:
                values.append(getattr(b, name)(*((x,) if name == "tanh" else (x, y))))
        state = values[-2:]
        kept += [values[place] for place in results]
    entry.set_root(b.tuple([*kept, *state]))
    module.log.recording = True
    verify(module)
    return module


def run(module: Module, passes: str) -> Module:
    copy = clone_module(module)
    Pipeline.parse(passes, check_changed=True).run(copy)
    verify(copy)
    return copy


def calls_of(module: Module) -> list[Instruction]:
    return [inst for inst in module.entry.instructions if inst.is_a("call")]


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.integers(3, 7))
def test_results_are_the_same(seed: int, layers: int) -> None:
    module = run(drawn_model(seed, layers), "dce")
    inputs = inputs_for(module)
    want = hloc.evaluate(module, *inputs)
    outlined = run(module, OUTLINE)
    for other in (outlined, run(outlined, "layer-inliner,dce")):
        for got, wanted in zip(hloc.evaluate(other, *inputs), want, strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_layers_of_random_models_are_found() -> None:
    """Not in every model: random steps may leave a few live instructions only."""
    outlined = [run(drawn_model(seed, 6), f"dce,{OUTLINE}") for seed in range(30)]
    assert sum(bool(calls_of(module)) for module in outlined) > 15


def chain(layers: int, end: str = "sine({value})") -> str:
    """Return the text of a model whose layers have 37 instructions, the last one `end`."""
    lines = ["HloModule m", "sum { a = f32[] parameter(0) b = f32[] parameter(1)"]
    lines += ["ROOT s = f32[] add(a, b) }", "ENTRY e {", "x.0 = f32[8] parameter(0)"]
    for k in range(layers):
        value = f"x.{k}"
        for step in range(12):
            name, at = f"{k}.{step}", f', metadata={{op_name="net/block_{k}/{step}" source_line=9}}'
            lines += [
                f"c.{name} = f32[] constant({step}.5)",
                f"b.{name} = f32[8] broadcast(c.{name}), dimensions={{}}",
                f"v.{name} = f32[8] multiply({value}, b.{name}){at}",
            ]
            value = f"v.{name}"
        lines.append(f"x.{k + 1} = f32[8] " + end.format(value=value))
    return "\n".join([*lines, f"ROOT r = f32[8] negate(x.{layers})", "}"])


def test_parts_of_names_that_differ_become_stars() -> None:
    module = run(hloc.parse(chain(5)), OUTLINE)
    (layer,) = {call.called[0] for call in calls_of(module)}
    found = {inst.common.metadata for inst in layer.instructions if inst.common.metadata}
    assert {m.op_name for m in found} == {f"net/*/{step}" for step in range(12)}
    assert {m.source_line for m in found} == {9}


def test_ordered_instructions_are_in_no_layer() -> None:
    assert calls_of(run(hloc.parse(chain(5)), OUTLINE))
    ordered = hloc.parse(chain(5, "sine({value}), control-predecessors={{x.0}}"))
    assert not calls_of(run(ordered, OUTLINE))


def test_what_a_side_effect_waits_for_is_in_no_layer() -> None:
    """An outfeed that no result needs runs after an instruction of each block."""
    text = chain(5)
    for k in range(5):
        wait = f"x.{k}.t = token[] after-all()\nx.{k}.o = token[] outfeed(x.0, x.{k}.t)"
        line = f"x.{k + 1} = f32[8] sine(v.{k}.11)"
        text = text.replace(line, f"{line}\n{wait}, control-predecessors={{x.{k + 1}}}")
    assert text.count("outfeed") == 5
    assert not calls_of(run(hloc.parse(text), OUTLINE))


def test_collectives_of_layers_keep_channels_of_their_own() -> None:
    end = "all-reduce({value}), to_apply=sum, channel_id=7, use_global_device_ids=true, "
    text = chain(5, end + "replica_groups={{{{0,1}}}}")
    module = hloc.parse(text.replace("HloModule m", "HloModule m, num_partitions=2"))
    outlined = run(module, OUTLINE)
    assert len(calls_of(outlined)) >= 4
    inlined = run(outlined, "layer-inliner,dce")
    found = [inst for inst in inlined.entry.instructions if inst.is_a("all-reduce")]
    assert len({inst.attributes.channel_id for inst in found}) >= len(calls_of(outlined))
    arguments = [(array, 1 - array) for array in inputs_for(module)]
    (got,), (want,) = evaluate_devices(inlined, arguments), evaluate_devices(module, arguments)
    np.testing.assert_array_equal(got, want)


def test_a_deep_model_is_optimised_once() -> None:
    """40 layers of 37 instructions: -O2 finds them, and the results have the same bits."""
    text = chain(40)
    inputs = inputs_for(hloc.parse(text))
    plain = hloc.compile(text, disabled_passes=("layer-outliner",))
    (want,), (got,) = plain(*inputs), hloc.compile(text)(*inputs)
    np.testing.assert_array_equal(got, want)
    module = run(hloc.parse(text), "layer-outliner,dce")
    assert len(calls_of(module)) >= 38
    assert len(live_computations(module)) == 2


def test_long_computations_from_constants_are_not_copied_into_layers() -> None:
    """A short one is: it costs less than an array in memory."""
    for steps, copied in ((5, True), (40, False)):
        lines = ["c.0 = f32[8] iota(), iota_dimension=0"]
        lines += [f"c.{k + 1} = f32[8] add(c.{k}, c.0)" for k in range(steps)]
        text = chain(5, f"maximum({{value}}, c.{steps})")
        text = text.replace(
            "x.0 = f32[8] parameter(0)", "\n".join(["x.0 = f32[8] parameter(0)", *lines])
        )
        (layer,) = {call.called[0] for call in calls_of(run(hloc.parse(text), OUTLINE))}
        assert any(inst.is_a("iota") for inst in layer.instructions) == copied


def test_results_of_layers_have_no_last_dimensions_of_one() -> None:
    lines = ["HloModule m", "sum { a = f32[] parameter(0) b = f32[] parameter(1)"]
    lines += ["ROOT s = f32[] add(a, b) }", "ENTRY e {", "x.0 = f32[4,8] parameter(0)"]
    for k in range(6):
        lines += [
            f"zero.{k} = f32[] constant(0)",
            f"s.{k} = f32[4] reduce(x.{k}, zero.{k}), dimensions={{1}}, to_apply=sum",
            f"k.{k} = f32[4,1] reshape(s.{k})",
            f"t.{k} = f32[4,1] tanh(k.{k})",
            f"r.{k} = f32[4] reshape(t.{k})",
            f"b.{k} = f32[4,8] broadcast(r.{k}), dimensions={{0}}",
            f"x.{k + 1} = f32[4,8] subtract(x.{k}, b.{k})",
        ]
    kept = ", ".join(f"t.{k}" for k in range(6))
    types = ", ".join(["f32[4,1]"] * 6)
    module = hloc.parse("\n".join([*lines, f"ROOT r = ({types}) tuple({kept})", "}"]))
    outlined = run(module, OUTLINE)
    calls = calls_of(outlined)
    assert len(calls) >= 4
    for call in calls:
        assert {str(leaf) for leaf in call.operand_arrays} == {"f32[4,8]{1,0}"}
        assert "f32[4]{0}" in {str(leaf) for leaf in array_leaves(call.shape)}
        assert "f32[4,1]{1,0}" not in {str(leaf) for leaf in array_leaves(call.shape)}
    inputs = inputs_for(module)
    results = zip(hloc.evaluate(outlined, *inputs), hloc.evaluate(module, *inputs), strict=True)
    for got, want in results:
        np.testing.assert_array_equal(got, want)
