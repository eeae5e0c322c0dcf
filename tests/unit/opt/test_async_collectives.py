"""Collectives that are split and moved apart: same answers on every device, hidden in the model."""

import numpy as np
import pytest

import hloc
from hloc.analysis.compute_time import compute_times, find_device
from hloc.analysis.network.links import Network, parse_links
from hloc.analysis.network.module_mesh import module_mesh
from hloc.analysis.network.overlap import timeline
from hloc.evaluator.devices import evaluate_devices
from hloc.ir.module import Module
from hloc.ir.print_order import instruction_order
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline

PASSES = "async-collective-creator,latency-hiding-scheduler"

_HEAD = """HloModule m, num_partitions=2

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY e {
  x = f32[256,256] parameter(0)
  y = f32[256,256] parameter(1)
"""
_WORK = """  p = f32[256,256] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  q = f32[256,256] dot(p, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
"""
_GROUPS = "channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true"

PROGRAMS = {
    "all-reduce": f"""{_HEAD}
  c = f32[256,256] all-reduce(x), {_GROUPS}, to_apply=add
  t = f32[256,256] tanh(c)
{_WORK}  ROOT r = f32[256,256] add(t, q)
}}
""",
    "all-reduce of two": f"""{_HEAD}
  c = (f32[256,256], f32[256,256]) all-reduce(x, y), {_GROUPS}, to_apply=add
  first = f32[256,256] get-tuple-element(c), index=0
  second = f32[256,256] get-tuple-element(c), index=1
  t = f32[256,256] subtract(first, second)
{_WORK}  ROOT r = f32[256,256] add(t, q)
}}
""",
    "all-gather": f"""{_HEAD}
  c = f32[512,256] all-gather(x), {_GROUPS}, dimensions={{0}}
  t = f32[256,256] slice(c), slice={{[256:512], [0:256]}}
{_WORK}  ROOT r = f32[256,256] add(t, q)
}}
""",
    "collective-permute": f"""{_HEAD}
  c = f32[256,256] collective-permute(x), channel_id=1, source_target_pairs={{{{0,1}},{{1,0}}}}
  t = f32[256,256] tanh(c)
{_WORK}  ROOT r = f32[256,256] add(t, q)
}}
""",
}


def _run_passes(text: str) -> Module:
    module = hloc.parse(text)
    Pipeline.parse(PASSES, check_changed=True).run(module, PassContext())
    return module


def _exposed(module: Module) -> float:
    mesh = module_mesh(module)
    network = Network(mesh, parse_links("nvlink", mesh))
    compute = compute_times(module, find_device("H100"))
    found = timeline(module, compute, network, instruction_order)
    return sum(timing.exposed_seconds for timing in found.collectives)


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_split_collectives_are_hidden_and_give_the_same_answers(text: str) -> None:
    module, before = _run_passes(text), hloc.parse(text)
    opcodes = [inst.opcode.name for inst in module.entry.instructions]
    start = next(i for i, name in enumerate(opcodes) if name.endswith("-start"))
    done = next(i for i, name in enumerate(opcodes) if name.endswith("-done"))
    assert "dot" in opcodes[start:done]
    assert _exposed(module) < _exposed(before)
    assert module.config.is_scheduled

    random = np.random.default_rng(0)
    arguments = [
        [random.normal(size=(256, 256)).astype(np.float32) for _ in range(2)] for _ in range(2)
    ]
    wanted = evaluate_devices(before, arguments)
    for device in range(2):
        got = evaluate_devices(hloc.parse(module.to_text()), arguments)[0][device]
        np.testing.assert_array_equal(got, wanted[0][device])
    # Of compiled code, the bits of both texts: the passes change no arithmetic.
    plain, split = (hloc.compile(t, passes="dce").run_devices(arguments) for t in (text, module))
    for device in range(2):
        np.testing.assert_array_equal(split[0][device], plain[0][device])


def test_without_independent_work_nothing_is_split() -> None:
    text = PROGRAMS["all-reduce"].replace("add(t, q)", "add(t, x)")
    text = "\n".join(line for line in text.splitlines() if " dot(" not in line)
    module = hloc.parse(text)
    context = PassContext(remarks=[])
    assert not Pipeline.parse(PASSES, check_changed=True).run(module, context)
    assert [(r.kind, r.text) for r in context.remarks or ()] == [
        ("missed", "independent work: 0.0 us")
    ]


def test_a_group_of_one_is_left_alone() -> None:
    module = hloc.parse(PROGRAMS["all-reduce"].replace("{{0,1}}", "{{0},{1}}"))
    assert not Pipeline.parse(PASSES, check_changed=True).run(module, PassContext())
