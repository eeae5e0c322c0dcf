"""Every computation that runs step by step gets one caller; kernels keep sharing theirs."""

import pytest

import hloc
from hloc.analysis.call_graph import control_flow_computations
from hloc.opt.calls.flatten_call_graph import FlattenCallGraph
from hloc.opt.pass_base import PassContext

SHARED = """HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
g {
  x = f32[] parameter(0)
  ROOT n = f32[] negate(x)
}
f {
  x = f32[] parameter(0)
  y = f32[] call(x), to_apply=g
  ROOT z = f32[] call(y), to_apply=g
}
ENTRY e {
  p = f32[4] parameter(0)
  zero = f32[] constant(0)
  r = f32[] reduce(p, zero), dimensions={0}, to_apply=add
  s = f32[] call(r, zero), to_apply=add
  t = f32[] call(s), to_apply=f
  w = pred[] parameter(1)
  ROOT u = f32[] conditional(w, t, t), true_computation=f, false_computation=f
}"""


def test_each_call_site_has_its_own_computation() -> None:
    module = hloc.parse(SHARED)
    assert FlattenCallGraph().run(module, PassContext())
    called = [
        c
        for computation in control_flow_computations(module)
        for inst in computation.instructions
        if inst.is_a("call", "conditional", "while")
        for c in inst.called
    ]
    assert len(called) == len(set(called)) == 1 + 3 + 6
    reducer = next(i for i in module.entry.instructions if i.is_a("reduce")).called[0]
    assert reducer.name == "add"
    assert reducer not in called


def test_a_flat_module_stays_as_it_is() -> None:
    module = hloc.parse(SHARED)
    FlattenCallGraph().run(module, PassContext())
    before = str(module)
    assert not FlattenCallGraph().run(module, PassContext())
    assert str(module) == before


def test_growth_is_bounded() -> None:
    """Thirty levels that each call the next one twice would be a thousand million computations."""
    levels = "".join(
        f"g{i} {{ x = f32[] parameter(0)\n a = f32[] call(x), to_apply=g{i - 1}\n"
        f" ROOT b = f32[] call(a), to_apply=g{i - 1} }}\n"
        for i in range(1, 31)
    )
    module = hloc.parse(
        "HloModule m\ng0 { x = f32[] parameter(0)\n ROOT n = f32[] negate(x) }\n"
        f"{levels}ENTRY e {{ x = f32[] parameter(0)\n ROOT r = f32[] call(x), to_apply=g30 }}"
    )
    with pytest.raises(hloc.HloError, match="would grow beyond 1000 instructions"):
        FlattenCallGraph(max_instructions=1000).run(module, PassContext())
