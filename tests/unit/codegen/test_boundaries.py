"""Loops from boundary to boundary: what rolls and padded arrays read is known in each."""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc.codegen.cpu.backend import CpuBackend
from hloc.codegen.kernels.boundaries import boundaries, boxes
from hloc.driver import optimise
from hloc.options import CompileOptions
from tests.inputs import inputs_for
from tests.tolerance import assert_close

ROLL = """HloModule m
ENTRY e {
  p = f32[3,40] parameter(0)
  a = f32[3,1] slice(p), slice={[0:3], [39:40]}
  b = f32[3,39] slice(p), slice={[0:3], [0:39]}
  ROOT c = f32[3,40] concatenate(a, b), dimensions={1}
}"""

STENCIL = """HloModule m
ENTRY e {
  p = f32[6,20] parameter(0)
  z = f32[] constant(7)
  w = f32[8,22] pad(p, z), padding=1_1x1_1
  a = f32[6,20] slice(w), slice={[2:8], [1:21]}
  b = f32[6,20] slice(w), slice={[1:7], [0:20]}
  c = f32[6,20] slice(w), slice={[1:7], [2:22]}
  d = f32[6,20] add(a, b)
  ROOT r = f32[6,20] subtract(d, c)
}"""

SEVERAL_RESULTS = """HloModule m
f {
  x = f32[] parameter(0)
  i = s32[] parameter(1)
  y = f32[] parameter(2)
  j = s32[] parameter(3)
  c = pred[] compare(x, y), direction=GE
  v = f32[] select(c, x, y)
  k = s32[] select(c, i, j)
  ROOT t = (f32[], s32[]) tuple(v, k)
}
ENTRY e {
  p = f32[8,3] parameter(0)
  n = s32[8,3] iota(), iota_dimension=0
  z = f32[] constant(-inf)
  o = s32[] constant(0)
  ROOT r = (f32[4,3], s32[4,3]) reduce-window(p, n, z, o), window={size=2x1 stride=2x1}, to_apply=f
}"""

TURNED = """HloModule m
ENTRY e {
  p = f32[5] parameter(0)
  q = f32[4] parameter(1)
  a = f32[9] concatenate(p, q), dimensions={0}
  b = f32[9,3] broadcast(a), dimensions={0}
  t = f32[3,9] transpose(b), dimensions={1,0}
  ROOT r = f32[3,1,9] reshape(t)
}"""


STACK = """HloModule m
ENTRY e {
  p = f32[30,40] parameter(0)
  q = f32[30,40] parameter(1)
  a = f32[30,1] slice(p), slice={[0:30], [39:40]}
  b = f32[30,39] slice(p), slice={[0:30], [0:39]}
  c = f32[30,40] concatenate(a, b), dimensions={1}
  d = f32[2,40] slice(p), slice={[28:30], [0:40]}
  f = f32[28,40] slice(q), slice={[0:28], [0:40]}
  g = f32[30,40] concatenate(d, f), dimensions={0}
  v = f32[1,30,40] reshape(c)
  w = f32[1,30,40] reshape(g)
  s = f32[2,30,40] concatenate(v, w), dimensions={0}
  ROOT r = f32[2,30,40] add(s, s)
}"""
"""Two arrays, which come from several places along different dimensions."""


ROTATED = """HloModule m
ENTRY e {
  p = f32[9,6,40] parameter(0)
  a = f32[4,5,40] slice(p), slice={[5:9], [1:6], [0:40]}
  b = f32[2,5,40] slice(p), slice={[0:2], [1:6], [0:40]}
  c = f32[3,5,40] slice(p), slice={[1:4], [1:6], [0:40]}
  d = f32[9,5,40] concatenate(a, b, c), dimensions={0}
  f = f32[9,2,40] slice(d), slice={[0:9], [3:5], [0:40]}
  g = f32[9,3,40] slice(d), slice={[0:9], [0:3], [0:40]}
  h = f32[9,5,40] concatenate(f, g), dimensions={1}
  i = f32[9,5,7] slice(h), slice={[0:9], [0:5], [33:40]}
  j = f32[9,5,33] slice(h), slice={[0:9], [0:5], [0:33]}
  k = f32[9,5,40] concatenate(i, j), dimensions={2}
  ROOT r = f32[9,5,40] add(k, h)
}"""
"""An array rotated along all dimensions, in three parts along the first."""


MIRRORED = """HloModule m
ENTRY e {
  p = f32[20,30] parameter(0)
  a = f32[2,30] slice(p), slice={[1:3], [0:30]}
  b = f32[2,30] reverse(a), dimensions={0}
  c = f32[22,30] concatenate(b, p), dimensions={0}
  d = f32[22,3] slice(c), slice={[0:22], [1:4]}
  e = f32[22,3] reverse(d), dimensions={1}
  ROOT r = f32[22,33] concatenate(e, c), dimensions={1}
}"""
"""An array with a mirrored margin at two sides, as `jnp.pad(..., mode="reflect")` makes it."""


@pytest.mark.parametrize(
    ("text", "dim", "wanted"),
    [
        (ROLL, 1, (1,)),
        (ROLL, 0, ()),
        (SEVERAL_RESULTS, 0, ()),
        (ROTATED, 0, ()),
        (ROTATED, 1, ()),
        (ROTATED, 2, (7,)),
        (STENCIL, 0, (5,)),
        (STENCIL, 1, (1, 19)),
        (TURNED, 2, (5,)),
        (TURNED, 0, ()),
        (MIRRORED, 0, (2,)),
        (MIRRORED, 1, (3,)),
    ],
)
def test_boundaries_of_a_result(text: str, dim: int, wanted: tuple[int, ...]) -> None:
    root = hloc.parse(text).entry.root
    assert boundaries(root, dim) == wanted


def test_too_many_boundaries_are_none() -> None:
    pieces = ", ".join(["p"] * 12)
    text = f"""HloModule m
ENTRY e {{
  p = f32[3] parameter(0)
  ROOT c = f32[36] concatenate({pieces}), dimensions={{0}}
}}"""
    assert boundaries(hloc.parse(text).entry.root, 0) == ()


def test_parts_of_a_stack_are_split_where_they_read_other_arrays() -> None:
    """The first array has a boundary along columns, the second along rows."""
    parts = boxes(hloc.parse(STACK).entry.root, [0, 1, 2])
    assert sorted(map(str, parts)) == [
        "(range(0, 1), range(0, 30), range(0, 1))",
        "(range(0, 1), range(0, 30), range(1, 40))",
        "(range(1, 2), range(0, 2), range(0, 40))",
        "(range(1, 2), range(2, 30), range(0, 40))",
    ]


def test_the_longest_stretch_has_a_loop_of_its_own() -> None:
    """Too many boundaries: the ten elements that come one by one share a loop."""
    pieces = ", ".join([f"one{i}" for i in range(10)])
    slices = "\n".join(
        f"  one{i} = f32[1] slice(p), slice={{[{3 * i}:{3 * i + 1}]}}" for i in range(10)
    )
    text = f"""HloModule m
ENTRY e {{
  p = f32[300] parameter(0)
{slices}
  ROOT c = f32[310] concatenate({pieces}, p), dimensions={{0}}
}}"""
    module = hloc.parse(text)
    assert boxes(module.entry.root, [0]) == [(range(10),), (range(10, 310),)]
    (argument,) = inputs_for(module)
    (got,), (want,) = hloc.compile(text)(argument), hloc.evaluate(module, argument)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("text", [ROLL, STENCIL, TURNED, MIRRORED, STACK, ROTATED])
def test_each_stretch_gives_what_the_evaluator_gives(text: str) -> None:
    module = hloc.parse(text)
    arguments = inputs_for(module)
    for got, want in zip(
        hloc.compile(text)(*arguments), hloc.evaluate(module, *arguments), strict=True
    ):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "text",
    [
        ROLL.replace("ROOT c", "c").replace("}\n}", "}\n ROOT n = f32[3,40] add(c, p)\n}"),
        MIRRORED,
        ROTATED,
    ],
)
def test_no_element_asks_where_it_lies(text: str) -> None:
    """One loop per piece: nothing is chosen by the position, neither here nor by LLVM."""
    module = hloc.parse(text)
    optimise(module, CompileOptions(opt_level=2))
    units = CpuBackend().compile(module, CompileOptions(opt_level=2)).units
    code = "".join(unit.text for unit in units)
    assert "load float" in code
    assert "phi float" not in code


@pytest.mark.parametrize("order", ["2,1,0", "0,1,2", "1,2,0"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("then", ["add(k, h)", "exponential(k)"])
def test_rotations_in_any_layout(order: str, threads: int, then: str) -> None:
    shape = f"f32[9,5,40]{{{order}}}"
    text = ROTATED.replace("ROOT r = f32[9,5,40] add(k, h)", f"ROOT r = {shape} {then}")
    module = hloc.parse(text)
    (argument,) = inputs_for(module)
    (got,), (want,) = hloc.compile(text, threads=threads)(argument), hloc.evaluate(module, argument)
    assert_close(got, want)
