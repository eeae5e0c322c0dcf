"""The Python of README and docs does what the page says beside it.

docs/python.md, writing-a-pass.md, gpu.md, new-backend.md and tutorial.md have tests of their own.
"""

import re
from typing import Any

import numpy as np
import pytest

import hloc
from hloc.opt import Pass
from hloc.opt.pass_base import PassContext
from hloc.opt.pattern import P
from hloc.opt.rule import Rule
from hloc.opt.rules.builders import apply
from hloc.report.inputs import random_inputs
from tests.unit.manual import ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def block(page: str, containing: str) -> str:
    """Return the one Python block of a page with some words in it."""
    (found,) = (text for text in BLOCK.findall((ROOT / page).read_text()) if containing in text)
    return str(found)


def run(page: str, containing: str, **names: Any) -> dict[str, Any]:
    """Execute a block, with what the text before it gives, and return its names."""
    exec(block(page, containing), names)
    return names


def test_the_readme_runs_a_module(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    arrays = random_inputs(hloc.load("examples/gpt_block.hlo"), 0)
    found = run("README.md", "hloc.evaluate", arrays=arrays)
    assert found["logits"].shape == found["reference"].shape
    printed = capsys.readouterr().out
    assert printed.startswith("HloModule jit_forward")
    assert "fused_computation" in printed


def test_custom_calls_are_python_functions() -> None:
    found = run("docs/custom-calls.md", "my.twice")
    assert found["run"](np.ones(4, np.float32))[0].tolist() == [2, 2, 2, 2]


DECODE = """HloModule step, buffer_donor={ (0, {}) }
ENTRY e {
  cache = f32[8,4] parameter(0)
  row = f32[1,4] parameter(1)
  at = s32[] parameter(2)
  zero = s32[] constant(0)
  new = f32[8,4] dynamic-update-slice(cache, row, at, zero)
  scores = f32[8,4] exponential(new)
  ROOT t = (f32[8,4], f32[8,4]) tuple(new, scores)
}
"""


def test_the_donated_cache_is_the_result() -> None:
    given, row = np.zeros((8, 4), np.float32), np.ones((1, 4), np.float32)
    names = {"cache": given, "row": row, "at": np.int32(3)}
    found = run("docs/donation.md", "donate=", hloc=hloc, text=DECODE, **names)
    assert found["cache"] is given
    assert given[3].tolist() == [1, 1, 1, 1]


def test_threads_can_be_bounded() -> None:
    text = "HloModule m\nENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] negate(x) }"
    assert run("docs/threads.md", "threads=1", hloc=hloc, text=text)["run"].threads == 1


SHARDED = """HloModule m, num_partitions=2
ENTRY e {
  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
  ROOT y = f32[4] negate(x), sharding={devices=[2]<=[2]}
}
"""


def test_devices_take_parts_and_wholes() -> None:
    whole = np.arange(4, dtype=np.float32)
    names = {"args": [[whole[:2], whole[2:]]], "arrays": [whole]}
    found = run("docs/devices.md", "run_devices", hloc=hloc, text=SHARDED, **names)
    assert [part.tolist() for part in found["results"][0]] == [[0, -1], [-2, -3]]
    assert found["y"].tolist() == [0, -1, -2, -3]
    assert found["local"].entry.parameters[0].array.dims == (2,)


def test_formats_are_read_and_written() -> None:
    found = run("docs/formats.md", "read_snapshot")
    text = b"HloModule m\nENTRY e { ROOT x = f32[4] parameter(0) }"
    module = found["read_snapshot"](text, "m").module
    for form in ("hlo", "pb", "module-pb", "stablehlo"):
        again = found["read_snapshot"](found["module_bytes"](module, form), "m").module
        assert again.entry.parameters[0].array.dims == (4,)


SCALE = """.version 7.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 y, .param .u64 x, .param .f32 by)
{
  .reg .u32 %r<5>;
  .reg .u64 %rd<6>;
  .reg .f32 %f<4>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  mul.wide.u32 %rd1, %r4, 4;
  ld.param.u64 %rd2, [x];
  add.u64 %rd3, %rd2, %rd1;
  ld.global.f32 %f1, [%rd3];
  ld.param.f32 %f2, [by];
  mul.f32 %f3, %f1, %f2;
  ld.param.u64 %rd4, [y];
  add.u64 %rd5, %rd4, %rd1;
  st.global.f32 [%rd5], %f3;
  ret;
}
"""


def test_a_kernel_runs_in_the_interpreter(capsys: pytest.CaptureFixture[str]) -> None:
    found = run("docs/ptx-interpreter.md", "parse_ptx", text=SCALE)
    np.testing.assert_array_equal(found["y"], 2 * found["x"])
    assert found["report"].global_sectors == 2 * 1024 * 4 // 32
    assert capsys.readouterr().out.startswith("256 ")


def test_the_row_of_the_page_is_a_rule() -> None:
    names = {"Rule": Rule, "P": P, "apply": apply, "x": P(bind="x"), "y": P(bind="y")}
    made = eval(block("docs/writing-a-rule.md", "add-of-negate"), names)
    module = hloc.parse("""HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  n = f32[4] negate(y)
  ROOT r = f32[4] add(n, x)
}""")
    assert Pass("sample", [made]).as_class()().run(module, PassContext())
    assert [operand.name for operand in module.entry.root.operands] == ["x", "y"]
    assert module.entry.root.opcode.name == "subtract"


def test_the_row_of_the_page_is_the_row_that_the_tests_add() -> None:
    row = block("docs/adding-an-opcode.md", "softsign").strip()
    assert row in (ROOT / "tests" / "new_opcode" / "softsign.py").read_text()
