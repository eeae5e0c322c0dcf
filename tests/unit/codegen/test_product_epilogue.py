"""Products with what follows them as one kernel: which are fused, and that results agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hloc
from hloc.analysis.in_place import may_overwrite
from hloc.codegen.cpu.emitters.convolution import grouped_epilogue, winograd
from hloc.codegen.cpu.emitters.gemm import gemm_epilogue
from hloc.codegen.cpu.kernel import needs_defusion
from hloc.codegen.lower.expansion import expand
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.opt.pipeline import Pipeline
from hloc.shapes import leaves
from tests.inputs import inputs_for
from tests.tolerance import difference
from tests.unit.codegen.emitters import emitter_for

PASSES = (
    "algebraic-simplifier,dce,fusion,dce,multi-output-fusion,dce,output-fusion{min-bytes=262144}"
)
"""Smaller products than those that are worth it, for tests to be quick."""

BIAS = """HloModule m
ENTRY e {
  x = T[300,70] parameter(0)
  w = T[70,260] parameter(1)
  b = T[260] parameter(2)
  d = T[300,260] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = T[300,260] broadcast(b), dimensions={1}
  s = T[300,260] add(d, c)
  ROOT r = T[300,260] tanh(s)
}
"""

ROW_BIAS = """HloModule m
ENTRY e {
  x = f32[70,300] parameter(0)
  w = f32[260,70] parameter(1)
  b = f32[300] parameter(2)
  d = f32[300,260] dot(x, w), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  c = f32[300,260] broadcast(b), dimensions={0}
  ROOT s = f32[300,260] multiply(d, c)
}
"""

LONG_SUMS = """HloModule m
ENTRY e {
  x = f32[270,900] parameter(0)
  w = f32[900,260] parameter(1)
  d = f32[270,260] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[270,260] exponential(d)
  ROOT r = f32[270,260] subtract(t, d)
}
"""

RESIDUAL = """HloModule m
ENTRY e {
  x = f32[3,150,40] parameter(0)
  w = f32[3,40,170] parameter(1)
  r = f32[3,150,170] parameter(2)
  n = f32[3,150,170] negate(r)
  o = f32[3,150,170] sine(n)
  d = f32[3,150,170] dot(x, w), BATCH
  ROOT s = f32[3,150,170] add(d, o)
}
""".replace(
    "BATCH",
    "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}",
)

SEVERAL = """HloModule m
ENTRY e {
  x = f32[300,70] parameter(0)
  w = f32[70,260] parameter(1)
  y = f32[300,260] parameter(2)
  d = f32[300,260] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  h = bf16[300,260] convert(d)
  t = f32[300,260] tanh(d)
  g = f32[300,260] multiply(t, y)
  ROOT r = (bf16[300,260], f32[300,260], f32[300,260]) tuple(h, t, g)
}
"""

MANY_DIMENSIONS = """HloModule m
ENTRY e {
  x = f32[2,75,64] parameter(0)
  w = f32[64,8,60] parameter(1)
  p = f32[2,75,8,60] parameter(2)
  d = f32[2,75,8,60] dot(x, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  half = f32[] constant(0.5)
  halves = f32[2,75,8,60] broadcast(half), dimensions={}
  s = f32[2,75,8,60] multiply(d, halves)
  ROOT r = f32[2,75,8,60] maximum(s, p)
}
"""

CONVOLUTION = """HloModule m
ENTRY e {
  x = f32[2,24,26,16] parameter(0)
  k = f32[3,3,LANES,64] parameter(1)
  b = f32[64] parameter(2)
  d = f32[2,24,26,64] convolution(x, k), window={size=3x3 pad=1_1x1_1}, MORE
  c = f32[2,24,26,64] broadcast(b), dimensions={3}
  s = f32[2,24,26,64] add(d, c)
  zero = f32[] constant(0)
  zeros = f32[2,24,26,64] broadcast(zero), dimensions={}
  ROOT r = f32[2,24,26,64] maximum(s, zeros)
}
"""

WIDE_CONVOLUTION = (
    CONVOLUTION.replace("LANES", "32")
    .replace("26,16]", "26,32]")
    .replace("MORE", "dim_labels=b01f_01io->b01f")
)

PLANES = (
    WIDE_CONVOLUTION.replace("26,32]", "26]")
    .replace("[2,24,26]", "[2,32,24,26]")
    .replace("3,3,32,64", "64,32,3,3")
    .replace("[2,24,26,64]", "[2,64,24,26]")
    .replace("dimensions={3}", "dimensions={1}")
    .replace("b01f_01io->b01f", "bf01_oi01->bf01")
)

PLAIN_CONVOLUTION = """HloModule m
ENTRY e {
  x = f32[2,24,26,40] parameter(0)
  k = f32[1,1,40,64] parameter(1)
  b = f32[64] parameter(2)
  d = f32[2,24,26,64] convolution(x, k), window={size=1x1}, dim_labels=b01f_01io->b01f
  c = f32[2,24,26,64] broadcast(b), dimensions={3}
  ROOT s = f32[2,24,26,64] add(d, c)
}
"""


DEPTHWISE = """HloModule m
ENTRY e {
  x = f32[4,48,50,64] parameter(0)
  k = f32[3,3,1,64] parameter(1)
  b = f32[64] parameter(2)
  y = f32[4,24,25,64] parameter(3)
  d = f32[4,24,25,64] convolution(x, k), window={size=3x3 stride=2x2 pad=0_1x0_1},
    dim_labels=b01f_01io->b01f, feature_group_count=64
  c = f32[4,24,25,64] broadcast(b), dimensions={3}
  s = f32[4,24,25,64] add(d, c)
  m = f32[4,24,25,64] multiply(s, y)
  ROOT r = f32[4,24,25,64] tanh(m)
}
"""


def convolution(groups: int) -> str:
    more = f"dim_labels=b01f_01io->b01f, feature_group_count={groups}"
    return CONVOLUTION.replace("LANES", str(16 // groups)).replace("MORE", more)


FUSED = {
    "bias": BIAS.replace("T[", "f32["),
    "double": BIAS.replace("T[", "f64["),
    "bf16": BIAS.replace("T[", "bf16[").replace("300", "600"),
    "bias along rows, transposed": ROW_BIAS,
    "sums of several blocks": LONG_SUMS,
    "batch and residual": RESIDUAL,
    "several results": SEVERAL,
    "columns of two dimensions": MANY_DIMENSIONS,
    "convolution": convolution(groups=1),
    "groups": convolution(groups=2),
    "convolution without window": PLAIN_CONVOLUTION,
}

GROUPED = {
    "depthwise": DEPTHWISE,
    "channels of no vector": DEPTHWISE.replace("64]", "83]").replace("=64", "=83"),
    "groups of two": DEPTHWISE.replace("3,3,1,64", "3,3,2,64").replace("=64", "=32"),
    "lines shared": DEPTHWISE.replace("[4,", "[1,").replace("64]", "128]").replace("=64", "=128"),
}
"""Convolutions of small groups, which no gemm computes."""

TILES = {
    "tiles": WIDE_CONVOLUTION,
    "tiles of odd sizes": WIDE_CONVOLUTION.replace("26", "25").replace("24", "23"),
    "parts of the features": WIDE_CONVOLUTION.replace("64]", "128]"),
    "planes": PLANES,
    "planes of odd sizes": PLANES.replace("26", "25").replace("24", "23"),
}
"""Convolutions by Winograd's method."""


def fused(text: str) -> Module:
    module = hloc.parse(text)
    Pipeline.parse(PASSES, check_changed=True).run(module)
    verify(module)
    return module


def fusion_of(module: Module) -> Any:
    """Return the one fusion of a product, None if there is none."""
    found = [
        inst
        for inst in module.entry.instructions
        if inst.is_a("fusion") and inst.attributes.kind == "kOutput"
    ]
    return found[0] if found else None


@pytest.mark.parametrize("name", [*FUSED, *GROUPED, *TILES])
def test_the_kernel_computes_what_its_members_do(name: str) -> None:
    """On one thread and on several, which give the same bits."""
    text = {**FUSED, **GROUPED, **TILES}[name]
    module = fused(text)
    inst = fusion_of(module)
    assert inst is not None
    emitter = grouped_epilogue.EMITTER if name in GROUPED else gemm_epilogue.EMITTER
    assert emitter_for(inst) is (winograd.EPILOGUE if name in TILES else emitter)
    assert not needs_defusion(inst)
    original = hloc.parse(text)
    inputs = inputs_for(original, special=False)
    want = hloc.evaluate(original, *inputs)
    one, many = (hloc.compile(text, passes=PASSES, threads=n)(*inputs) for n in (1, 4))
    for got, other, wanted in zip(one, many, want, strict=True):
        assert difference(got, wanted) is None
        assert got.tobytes() == other.tobytes()


def test_no_result_takes_the_memory_of_an_operand() -> None:
    """Sums lie in the result before the residual of the same place is read."""
    inst = fusion_of(fused(FUSED["batch and residual"].replace("sine(n)", "negate(n)")))
    for number in range(len(inst.operands)):
        assert not any(may_overwrite(inst, number, i) for i, _ in leaves(inst.shape))


STATE = """HloModule m, input_output_alias={ {}: (2, {}) }
ENTRY e {
  x = f32[300,70] parameter(0)
  w = f32[70,260] parameter(1)
  r = f32[300,260] parameter(2)
  d = f32[300,260] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT s = f32[300,260] add(d, r)
}
"""


def test_an_argument_that_is_given_away_is_still_overwritten() -> None:
    assert fusion_of(fused(STATE)) is None
    assert fusion_of(fused(STATE.replace(", input_output_alias={ {}: (2, {}) }", ""))) is not None
    inputs = inputs_for(hloc.parse(STATE), special=False)
    (want,) = hloc.evaluate(STATE, *inputs)
    state = np.array(inputs[2])
    (got,) = hloc.compile(STATE, passes=PASSES)(inputs[0], inputs[1], state, donate=(2,))
    assert np.shares_memory(got, state)
    assert difference(got, want) is None


LOOP = """HloModule m
body {
  s = (s32[], f32[300,70], f32[70,260], f32[300,260]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[300,70] get-tuple-element(s), index=1
  w = f32[70,260] get-tuple-element(s), index=2
  a = f32[300,260] get-tuple-element(s), index=3
  one = s32[] constant(1)
  j = s32[] add(i, one)
  d = f32[300,260] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  n = f32[300,260] add(d, a)
  ROOT r = (s32[], f32[300,70], f32[70,260], f32[300,260]) tuple(j, x, w, n)
}
condition {
  s = (s32[], f32[300,70], f32[70,260], f32[300,260]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  most = s32[] constant(3)
  ROOT r = pred[] compare(i, most), direction=LT
}
ENTRY e {
  x = f32[300,70] parameter(0)
  w = f32[70,260] parameter(1)
  a = f32[300,260] parameter(2)
  z = s32[] constant(0)
  t = (s32[], f32[300,70], f32[70,260], f32[300,260]) tuple(z, x, w, a)
  l = (s32[], f32[300,70], f32[70,260], f32[300,260]) while(t), condition=condition, body=body
  ROOT r = f32[300,260] get-tuple-element(l), index=3
}
"""


def test_a_sum_that_a_loop_carries_stays_in_place() -> None:
    """Else every step would copy it back to where the next step expects it."""
    module = fused(LOOP)
    kinds = [
        i.attributes.kind for c in module.computations for i in c.instructions if i.is_a("fusion")
    ]
    assert "kOutput" not in kinds
    scaled = LOOP.replace("n = f32[300,260] add(d, a)", "n = f32[300,260] tanh(d)")
    bodies = [i for c in fused(scaled).computations for i in c.instructions if i.is_a("fusion")]
    assert [inst.attributes.kind for inst in bodies].count("kOutput") == 1
    inputs = inputs_for(hloc.parse(scaled), special=False)
    (want,), (got,) = hloc.evaluate(scaled, *inputs), hloc.compile(scaled, passes=PASSES)(*inputs)
    assert difference(got, want) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "ROOT r = f32[300,260] tanh(s)",
            "t = f32[300,260] tanh(s)\n ROOT r = bf16[300,260] convert(t)",
        ),
        ("ROOT r = f32[300,260] tanh(s)", "ROOT r = f32[260,300] transpose(s), dimensions={1,0}"),
        ("ROOT r = f32[300,260] tanh(s)", "ROOT r = (f32[300,260], f32[300,260]) tuple(d, s)"),
        ("300", "30"),
        ("70", "7"),
    ],
    ids=["other type", "other order", "read twice", "small", "short sums"],
)
def test_what_is_not_fused(old: str, new: str) -> None:
    assert fusion_of(fused(FUSED["bias"].replace(old, new))) is None


def test_a_target_without_the_kernel_takes_it_apart_and_fuses_the_rest() -> None:
    module = fused(FUSED["bias"])
    expand(module, lambda inst: fusion_of(module) is inst or needs_defusion(inst))
    verify(module)
    opcodes = [inst.opcode.name for inst in module.entry.instructions]
    assert opcodes.count("dot") == opcodes.count("fusion") == 1
