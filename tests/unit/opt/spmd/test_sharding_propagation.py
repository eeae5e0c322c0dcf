"""Propagation keeps what users wrote, leaves manual regions alone, and has one fixed point."""

from __future__ import annotations

from hloc.driver import parse_text
from hloc.ir.module import Module
from hloc.opt.pass_base import PassContext
from hloc.opt.spmd.sharding_propagation import ShardingPropagation

MANUAL = """HloModule m, num_partitions=4, allow_spmd_sharding_propagation_to_output={true}

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}

ENTRY e {
  x = f32[8] parameter(0), sharding={devices=[4]<=[4]}
  n = f32[8] negate(x)
  c = f32[8] custom-call(n), custom_call_target="Sharding", sharding={devices=[4]<=[4]}
  m = f32[2] custom-call(c), custom_call_target="SPMDFullToShardShape", sharding={manual}
  one = f32[] constant(1)
  ones = f32[2] broadcast(one), dimensions={}
  t = f32[2] add(m, ones)
  s = f32[2] all-reduce(t), to_apply=add
  k = f32[2] custom-call(s), custom_call_target="Sharding", sharding={manual}
  w = f32[8] custom-call(k), custom_call_target="SPMDShardToFullShape", sharding={devices=[4]<=[4]}
  ROOT r = f32[8] negate(w)
}
"""


def _call(target: str, attribute: str) -> str:
    return f'custom_call_target="xla.sdy.{target}", frontend_attributes={{xla.sdy.{attribute}}}'


_RESULT = '"#sdy.sharding_per_value<[<@mesh, [{\\"x\\"}, {}]>]>"'
SHARDY = (
    """HloModule m, num_partitions=4, frontend_attributes={MESHES}, FLAGS

ENTRY e {
  x = f32[8,4] parameter(0)
  n = f32[8,4] negate(x)
  b = f32[8,4] custom-call(n), BARRIER
  g = f32[8,4] exponential(b)
  ROOT r = f32[8,4] custom-call(g), RESULT
}
""".replace("{MESHES}", '{xla.sdy.meshes={mesh = #sdy.mesh<["x"=4]>}}')
    .replace("FLAGS", "allow_spmd_sharding_propagation_to_parameters={true}")
    .replace("BARRIER", _call("PropagationBarrier", 'allowed_direction="DIRECTION"'))
    .replace("RESULT", _call("FuncResultSharding", f"sharding={_RESULT}"))
)


def propagated(text: str) -> Module:
    module = parse_text(text)
    ShardingPropagation().run(module, PassContext())
    return module


def sharding(module: Module, name: str) -> str:
    (inst,) = (i for c in module.computations for i in c.instructions if i.name == name)
    return "" if inst.common.sharding is None else str(inst.common.sharding)


def test_a_manual_region_is_left_as_it_is() -> None:
    module = propagated(MANUAL)
    assert [sharding(module, name) for name in ("n", "r")] == ["{devices=[4]<=[4]}"] * 2
    assert [sharding(module, name) for name in ("m", "k")] == ["{manual}"] * 2
    assert [sharding(module, name) for name in ("one", "ones", "t", "s", "a")] == [""] * 5
    assert sharding(module, "w") == "{devices=[4]<=[4]}"


def test_a_barrier_is_crossed_in_the_allowed_direction_only() -> None:
    split, whole = "{devices=[4,1]<=[4]}", "{replicated}"
    for direction, expected in ((0, whole), (1, whole), (2, split), (3, split)):
        module = propagated(SHARDY.replace("DIRECTION", str(direction)))
        assert [sharding(module, name) for name in ("g", "n")] == [split, expected]


def test_a_second_run_changes_nothing() -> None:
    for text in (MANUAL, SHARDY):
        module = propagated(text)
        assert not ShardingPropagation().run(module, PassContext())


def test_what_a_region_returns_is_split_as_it_says() -> None:
    text = MANUAL.replace(
        '  w = f32[8] custom-call(k), custom_call_target="SPMDShardToFullShape", '
        "sharding={devices=[4]<=[4]}\n  ROOT r = f32[8] negate(w)",
        '  w = (f32[8]) custom-call(k), custom_call_target="SPMDShardToFullShape", '
        "sharding={{devices=[4]<=[4]}}\n  ROOT r = f32[8] get-tuple-element(w), index=0",
    )
    assert sharding(propagated(text), "r") == "{devices=[4]<=[4]}"
