"""A new opcode is its row; one with loops of its own has an emitter per machine beside it.

`tests/new_opcode/` adds one of each as docs/adding-an-opcode.md says. All that hloc does with
opcodes is then asked of them: nothing else had to be touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module, reload
from pathlib import Path

import numpy as np
import pytest

import hloc
from docs.generators.opcodes import TYPES, page
from hloc.cli import main
from hloc.codegen.cpu.emitters import table as cpu_table
from hloc.codegen.gpu.emitters import table as gpu_table
from hloc.codegen.gpu.emitters.serial import on_threads
from hloc.errors import HloError
from hloc.ops import OPCODES
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline
from hloc.report.describe import describe_opcode
from tests.goldens import read_cases, run_case, update_file
from tests.tolerance import assert_close
from tests.unit.gpu import simulate

FOLDER = Path(__file__).parent / "new_opcode"
NAMES = ("softsign", "running-maximum")
TEXT = """HloModule m

ENTRY e {
  x = f32[3,40] parameter(0)
  y = f32[3,40] parameter(1)
  d = f32[3,40] subtract(x, y)
  s = f32[3,40] softsign(d)
  r = f32[3,40] running-maximum(s), initial=-1
  h = bf16[3,40] convert(r)
  g = bf16[3,40] softsign(h)
  ROOT t = (f32[3,40], bf16[3,40]) tuple(r, g)
}
"""


@pytest.fixture(autouse=True)
def opcodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    modules = [import_module(f"tests.new_opcode.{name.replace('-', '_')}") for name in NAMES]
    for name in NAMES:
        OPCODES.pop(name, None)
    _, structural = [reload(module) for module in modules]
    emitter = structural.EMITTER
    monkeypatch.setattr(cpu_table, "EMITTERS", (emitter, *cpu_table.EMITTERS))
    monkeypatch.setattr(gpu_table, "EMITTERS", (on_threads(emitter), *gpu_table.EMITTERS))
    yield
    for name in NAMES:
        del OPCODES[name]


def test_text_is_read_and_printed() -> None:
    module = hloc.parse(TEXT)
    text = module.to_text()
    assert "%r = f32[3,40]{1,0} running-maximum(%s), initial=-1" in text
    assert "%s = f32[3,40]{1,0} softsign(%d)" in text
    assert hloc.parse(text).to_text() == text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("f32[4] softsign(n)", "element type must be a float type"),
        ("f32[5] softsign(x)", "f32[5]"),
        ("f32[4] softsign(x, x)", "expects 1 operands"),
        ("f32[] running-maximum(c)", "has no last dimension"),
        ("f32[4] running-maximum(x), intial=1", "intial"),
        ("f32[4] softsing(x)", "softsign"),
    ],
)
def test_faults_are_told(line: str, message: str) -> None:
    text = (
        "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  n = s32[4] parameter(1)\n"
        f"  c = f32[] constant(0)\n  ROOT r = {line}\n}}"
    )
    with pytest.raises(HloError) as fault:
        hloc.parse(text)
    assert message in str(fault.value)


@pytest.mark.parametrize("opt_level", [0, 1, 2, 3])
def test_machine_code_gives_what_the_evaluator_gives(opt_level: int) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((3, 40)).astype(np.float32) for _ in range(2)]
    arrays[0][1, 3], arrays[0][2, 7] = np.nan, np.inf
    wanted = hloc.evaluate(TEXT, *arrays)
    found = hloc.compile(TEXT, opt_level=opt_level)(*arrays)
    for name, f, w in zip(("r", "g"), found, wanted, strict=True):
        assert_close(np.asarray(f), np.asarray(w), name)


@pytest.mark.parametrize("opt_level", [0, 2])
def test_ptx_runs_on_the_simulated_gpu(opt_level: int) -> None:
    simulate.check(TEXT, opt_level, special=True)


def test_its_golden(update_golden: bool) -> None:
    golden = FOLDER / "running-maximum.hlo"
    if update_golden:
        update_file(golden)
    (case,) = read_cases(golden)
    run_case(case, update=False)


def test_constants_are_folded() -> None:
    text = "HloModule m\nENTRY e {\n  c = f32[] constant(3)\n  ROOT r = f32[] softsign(c)\n}"
    assert "constant(0.75)" in _after("constant-folding", text)


def test_its_weight_takes_it_out_of_a_loop() -> None:
    text = """HloModule m
    more {
      s = (s32[], f32[64], f32[]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(5)
      ROOT c = pred[] compare(i, n), direction=LT
    }
    step {
      s = (s32[], f32[64], f32[]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      x = f32[64] get-tuple-element(s), index=1
      k = f32[] get-tuple-element(s), index=2
      one = s32[] constant(1)
      j = s32[] add(i, one)
      b = f32[64] broadcast(k), dimensions={}
      c = f32[64] iota(), iota_dimension=0
      d = f32[64] multiply(b, c)
      e = f32[64] softsign(d)
      y = f32[64] add(x, e)
      ROOT t = (s32[], f32[64], f32[]) tuple(j, y, k)
    }
    ENTRY e {
      x = f32[64] parameter(0)
      k = f32[] parameter(1)
      z = s32[] constant(0)
      s = (s32[], f32[64], f32[]) tuple(z, x, k)
      ROOT w = (s32[], f32[64], f32[]) while(s), condition=more, body=step
    }"""
    entry = _after("while-loop-invariant-code-motion,dce", text).partition("ENTRY")[2]
    assert "softsign(" in entry


def test_it_is_partitioned() -> None:
    text = """HloModule m, num_partitions=2
    ENTRY e {
      x = f32[4,6] parameter(0), sharding={devices=[2,1]<=[2]}
      s = f32[4,6] softsign(x)
      ROOT r = f32[4,6] running-maximum(s), initial=-1, sharding={devices=[2,1]<=[2]}
    }"""
    entry = hloc.partition(text).to_text().partition("ENTRY")[2]
    assert "f32[2,6]{1,0} softsign(" in entry
    assert "f32[2,6]{1,0} running-maximum(" in entry
    assert "all-" not in entry  # no collective


def _after(passes: str, text: str) -> str:
    module = hloc.parse(text)
    Pipeline.parse(passes).run(module, PassContext())
    return module.to_text()


@pytest.mark.parametrize("name", NAMES)
def test_the_tools_show_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = describe_opcode(name)
    assert OPCODES[name].reads in text
    assert f"{name}(x)" in text.split("example:")[1]
    assert main(["ops"]) == 0
    assert name in capsys.readouterr().out


def test_the_page_of_opcodes_says_what_each_type_does() -> None:
    made = page(NAMES)
    for name in NAMES:
        row = next(line for line in made.splitlines() if line.startswith(f"| {name} |"))
        cells = dict(zip(TYPES, (cell.strip() for cell in row.split("|")[2:-1]), strict=True))
        assert cells["f32"] == cells["bf16"] == cells["f64"] == "●"
        assert cells["s32"] == cells["pred"] == cells["c64"] == "p"
