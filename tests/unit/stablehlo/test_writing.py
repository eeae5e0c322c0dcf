"""Modules written as StableHLO and read again: the same text the second time, the same results."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hloc
from hloc.errors import UnsupportedError
from hloc.formats.read import read_snapshot
from hloc.ir.module import Module
from hloc.shapes import ArrayShape
from hloc.stablehlo.from_module import stablehlo_text
from tests.inputs import inputs_for

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted(
    path
    for path in [*(ROOT / "examples").glob("*.hlo"), *(ROOT / "examples/modules").glob("*.hlo")]
    if ".default." not in path.name and ".optimized." not in path.name
)

OPCODES = """HloModule m

add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y)
}

less {
  x = s32[] parameter(0)
  y = s32[] parameter(1)
  ROOT c = pred[] compare(x, y), direction=LT
}

fused {
  p = f32[4,6] parameter(0)
  e = f32[4,6] exponential(p)
  ROOT r = f32[4,6] tanh(e)
}

body {
  t = (s32[], f32[4,6]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  v = f32[4,6] get-tuple-element(t), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  half = f32[] constant(0.5)
  h = f32[4,6] broadcast(half), dimensions={}
  w = f32[4,6] multiply(v, h)
  ROOT out = (s32[], f32[4,6]) tuple(j, w)
}

condition {
  t = (s32[], f32[4,6]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}

yes {
  q = f32[4,6] parameter(0)
  ROOT n = f32[4,6] negate(q)
}

no {
  q = (f32[4,6], f32[]) parameter(0)
  a = f32[4,6] get-tuple-element(q), index=0
  s = f32[] get-tuple-element(q), index=1
  b = f32[4,6] broadcast(s), dimensions={}
  ROOT m = f32[4,6] maximum(a, b)
}

ENTRY main {
  a = f32[4,6]{1,0} parameter(0)
  n = s32[3]{0} parameter(1)
  f = f32[] parameter(2)
  u = f32[4,6] fusion(a), kind=kLoop, calls=fused
  zero = f32[] constant(-0)
  r = f32[4] reduce(a, zero), dimensions={1}, to_apply=add
  start = s32[] constant(0)
  init = (s32[], f32[4,6]) tuple(start, a)
  loop = (s32[], f32[4,6]) while(init), condition=condition, body=body
  v = f32[4,6] get-tuple-element(loop), index=1
  sorted = s32[3] sort(n), dimensions={0}, to_apply=less
  p = pred[] compare(f, zero), direction=GT
  both = (f32[4,6], f32[]) tuple(a, f)
  c = f32[4,6] conditional(p, a, both), true_computation=yes, false_computation=no
  g = f32[4,3] gather(a, n), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1},
    index_vector_dim=1, slice_sizes={4,1}
  ROOT t = (f32[4,6], f32[4], f32[4,6], s32[3], f32[4,6], f32[4,3]) tuple(u, r, v, sorted, c, g)
}
"""


def again(module: Module) -> Module:
    text = stablehlo_text(module)
    read = read_snapshot(text.encode(), "again.mlir").module
    assert stablehlo_text(read) == text
    return read


def check_same_results(read: Module, module: Module, arguments: Sequence[Any]) -> None:
    for ours, theirs in zip(
        hloc.evaluate(read, *arguments), hloc.evaluate(module, *arguments), strict=True
    ):
        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_comes_back_with_the_same_results(path: Path) -> None:
    module = hloc.load(str(path))
    arguments = inputs_for(module, special=False)
    check_same_results(again(module), module, arguments)


def test_structure_becomes_regions_functions_and_several_results() -> None:
    module = hloc.parse(OPCODES)
    text = stablehlo_text(module)
    for part in (
        "stablehlo.while(%iterArg_2 = %", '"stablehlo.if"(%', '"stablehlo.reduce"(',
        "stablehlo.tanh", "dense<-0.0e+00>", "} do {",
    ):  # fmt: skip
        assert part in text
    rng = np.random.default_rng(0)
    for sign in (-1.0, 1.0):
        arguments = (
            rng.standard_normal((4, 6)).astype(np.float32),
            np.array([2, 0, 5], np.int32),
            np.float32(sign),
        )
        check_same_results(again(module), module, arguments)


@pytest.mark.parametrize(
    "dtype", ["f32", "f64", "bf16", "f16", "f8e4m3fn", "c64", "s4", "u8", "pred"]
)
def test_constants_keep_every_bit(dtype: str) -> None:
    shape = f"{dtype}[4]"
    values = {"pred": "true, false, true, true", "c64": "(1.5,-0), (0,inf), (nan,2), (-3,1e-30)"}
    numbers = "-1, 0, 1, 3" if dtype in ("s4",) else "1, 0, 7, 3"
    floats = "nan, -0, 0.3, 1.5" if dtype == "f8e4m3fn" else "nan, -inf, 0.1, -0"
    default = floats if "f" in dtype else numbers
    module = hloc.parse(
        f"HloModule m\nENTRY e {{ ROOT c = {shape} constant({{{values.get(dtype, default)}}}) }}"
    )
    literal = module.entry.root.attributes.literal
    assert again(module).entry.root.attributes.literal == literal


def test_long_constants_are_written_as_bytes() -> None:
    numbers = ", ".join(str(n / 7) for n in range(100))
    module = hloc.parse(f"HloModule m\nENTRY e {{ ROOT c = f32[100] constant({{{numbers}}}) }}")
    assert 'dense<"0x' in stablehlo_text(module)
    assert again(module).entry.root.attributes.literal == module.entry.root.attributes.literal


def test_what_stablehlo_cannot_express_is_refused() -> None:
    module = hloc.parse(
        "HloModule m\nENTRY e { a = f32[2,3]{1,0} parameter(0)\n"
        " ROOT b = f32[3,2]{0,1} bitcast(a) }"
    )
    with pytest.raises(UnsupportedError, match="depends on a layout"):
        stablehlo_text(module)


def test_aliases_and_shardings_of_parameters_come_back() -> None:
    module = hloc.parse(
        "HloModule m, input_output_alias={ {1}: (0, {}, may-alias) }\n"
        "ENTRY e { a = f32[2] parameter(0), sharding={replicated}\n b = f32[2] negate(a)\n"
        " ROOT t = (f32[2], f32[2]) tuple(b, b) }"
    )
    read = again(module)
    assert read.config.aliases == module.config.aliases
    sharding = read.entry.parameters[0].common.sharding
    assert str(sharding) == "{replicated}"
    assert isinstance(read.entry.parameters[0].shape, ArrayShape)
