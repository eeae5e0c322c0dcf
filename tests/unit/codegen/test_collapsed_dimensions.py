"""Adjacent dimensions that a kernel treats alike become one."""

import numpy as np
import pytest

import hloc
from hloc.codegen.lower.collapsed_dimensions import collapse_dimensions
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.report.inputs import random_inputs
from tests.tolerance import assert_close

MAX = """
max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] maximum(a, b)
}"""

ARGMIN = """
less {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  p = pred[] compare(a, b), direction=LE
  x = f32[] select(p, a, b)
  y = s32[] select(p, i, j)
  ROOT r = (f32[], s32[]) tuple(x, y)
}"""

FUSION = """
body {
  x = f32[5,3,4,7] parameter(0)
  v = f32[4,7] parameter(1)
  n = f32[] constant(-inf)
  b = f32[5,3,4,7] broadcast(v), dimensions={2,3}
  s = f32[5,3,4,7] multiply(x, b)
  m = f32[5,3] reduce(s, n), dimensions={2,3}, to_apply=max
  w = f32[5,3,4,7] broadcast(m), dimensions={0,1}
  ROOT d = f32[5,3,4,7] subtract(s, w)
}"""

KERNELS = {
    "transpose": (
        "x = f32[6,4,3,2,5] parameter(0)",
        "f32[3,2,5,6,4] transpose(x), dimensions={2,3,4,0,1}",
        "f32[30,24]",
    ),
    "broadcast": (
        "x = f32[3,4] parameter(0)",
        "f32[2,5,3,4,7] broadcast(x), dimensions={2,3}",
        "f32[10,12,7]",
    ),
    "permuted broadcast": (
        "x = f32[3,4,6] parameter(0)",
        "f32[4,6,5,3] broadcast(x), dimensions={3,0,1}",
        "f32[24,5,3]",
    ),
    "reduce": (
        "x = f32[5,3,4,7] parameter(0)\nn = f32[] constant(-inf)",
        "f32[5,7] reduce(x, n), dimensions={1,2}, to_apply=max",
        "f32[5,7]",
    ),
    "kept dimensions": (
        "x = f32[5,3,4,7] parameter(0)\nn = f32[] constant(-inf)",
        "f32[3,4,7] reduce(x, n), dimensions={0}, to_apply=max",
        "f32[84]",
    ),
    "rows of a layout": (
        "x = f32[5,3,4]{1,0,2} parameter(0)",
        "f32[5,3,4]{2,1,0} copy(x)",
        "f32[15,4]",
    ),
    "slice": (
        "x = f32[5,9,4,2] parameter(0)",
        "f32[5,6,4,2] slice(x), slice={[0:5], [2:8], [0:4], [0:2]}",
        "f32[5,48]",
    ),
    "steps": (
        "x = f32[5,9,4,2] parameter(0)",
        "f32[5,3,4,2] slice(x), slice={[0:5], [2:8:2], [0:4], [0:2]}",
        "f32[5,3,8]",
    ),
    "pad": (
        "x = f32[5,3,4] parameter(0)\nn = f32[] constant(2)",
        "f32[5,6,4] pad(x, n), padding=0_0x1_2x0_0",
        "f32[5,24]",
    ),
    "interior": (
        "x = f32[5,3,4] parameter(0)\nn = f32[] constant(2)",
        "f32[5,5,4] pad(x, n), padding=0_0x0_0_1x0_0",
        "f32[5,5,4]",
    ),
    "concatenate": (
        "x = f32[5,3,4] parameter(0)\ny = f32[5,2,4] parameter(1)",
        "f32[5,5,4] concatenate(x, y), dimensions={1}",
        "f32[5,20]",
    ),
    "reverse": (
        "x = f32[5,3,4,2] parameter(0)",
        "f32[5,3,4,2] reverse(x), dimensions={1}",
        "f32[5,3,8]",
    ),
    "iota": ("", "s32[5,3,4,2] iota(), iota_dimension=1", "s32[5,3,8]"),
    "fusion": (
        "x = f32[5,3,4,7] parameter(0)\nv = f32[4,7] parameter(1)",
        "f32[5,3,4,7] fusion(x, v), kind=kLoop, calls=body",
        "f32[15,28]",
    ),
}


def kernel_module(name: str) -> Module:
    inputs, kernel, _ = KERNELS[name]
    return hloc.parse(f"HloModule m\n{MAX}\n{FUSION}\nENTRY e {{\n{inputs}\nROOT r = {kernel}\n}}")


@pytest.mark.parametrize("name", KERNELS)
def test_the_kernel_has_fewer_dimensions(name: str) -> None:
    module = kernel_module(name)
    collapse_dimensions(module)
    verify(module)
    (kernel,) = (
        inst
        for inst in module.entry.instructions
        if not inst.is_a("bitcast", "constant", "parameter")
    )
    assert kernel.array.text_without_layout == KERNELS[name][2]


@pytest.mark.parametrize("name", KERNELS)
def test_its_elements_are_the_same(name: str) -> None:
    module = kernel_module(name)
    inputs = random_inputs(module, 0)
    (want,) = hloc.evaluate(module, *inputs)
    (got,) = hloc.compile(module, opt_level=0)(*inputs)
    assert_close(got, want)


def test_results_of_one_reduction_are_collapsed_together() -> None:
    module = hloc.parse(
        f"""HloModule m
        {ARGMIN}
        ENTRY e {{
          x = f32[2,5,3] parameter(0)
          i = s32[2,5,3] iota(), iota_dimension=0
          n = f32[] constant(inf)
          z = s32[] constant(0)
          r = (f32[5,3], s32[5,3]) reduce(x, i, n, z), dimensions={{0}}, to_apply=less
          a = f32[5,3] get-tuple-element(r), index=0
          b = s32[5,3] get-tuple-element(r), index=1
          ROOT t = (f32[5,3], s32[5,3]) tuple(a, b)
        }}"""
    )
    inputs = random_inputs(module, 0)
    want = hloc.evaluate(module, *inputs)
    collapse_dimensions(module)
    verify(module)
    (reduced,) = (inst for inst in module.entry.instructions if inst.is_a("reduce"))
    assert str(reduced.shape) == "(f32[15]{0}, s32[15]{0})"
    for got, wanted in zip(hloc.evaluate(module, *inputs), want, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_elementwise_kernels_stay_as_they_are() -> None:
    module = hloc.parse(
        """HloModule m
        ENTRY e {
          x = f32[2,5,3] parameter(0)
          ROOT a = f32[2,5,3] add(x, x)
        }"""
    )
    before = str(module)
    collapse_dimensions(module)
    assert str(module) == before
