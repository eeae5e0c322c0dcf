"""Weights in panels: which constants and parts of loops lie so, and that products are the same.

Matrix registers, which multiply parts of f32, pack them in every call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hloc
from hloc.codegen.cpu import weight_panels
from hloc.codegen.cpu.backend import CpuBackend
from hloc.dtypes import DTYPES
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.literal import literal_of
from hloc.memory.panels import in_panels, panel_order, panel_width
from hloc.options import CompileOptions
from hloc.runtime.loading import load_compiled
from hloc.runtime.manifest_file import Program, program_bytes, read_program
from hloc.shapes import ArrayShape, Layout, TupleShape
from tests.tolerance import bounds
from tests.unit.codegen.harness import parse_text
from tests.unit.codegen.test_products import narrower

Array = np.ndarray[Any, Any]


NO_MATRICES = "-amx-bf16"
"""Features of the machine of these tests, of which some are about vectors alone."""


def dot_text(rows: int, depth: int, columns: int) -> str:
    """Return the text of a product of a parameter and a weight."""
    return f"""HloModule m
ENTRY e {{
  x = f32[{rows},{depth}] parameter(0)
  w = f32[{depth},{columns}] WEIGHT
  ROOT d = f32[{rows},{columns}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""


LAYER = """HloModule m
ENTRY e {
  x = f32[300,96] parameter(0)
  w = f32[96,256] WEIGHT
  d = f32[300,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[300,256] tanh(d)
  ROOT r = f32[300,256] subtract(t, d)
}
"""

ROWS_ALONG_M = """HloModule m
ENTRY e {
  x = f32[96,100] parameter(0)
  w = f32[96,256] WEIGHT
  ROOT d = f32[100,256] dot(x, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}
"""

COLUMNS_ALONG_K = """HloModule m
ENTRY e {
  x = f32[100,96] parameter(0)
  w = f32[256,96] WEIGHT
  ROOT d = f32[100,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
}
"""

BATCHES_WITHIN = """HloModule m
ENTRY e {
  x = f32[3,100,96] parameter(0)
  w = f32[192,3,96] WEIGHT
  ROOT d = f32[3,100,192] dot(x, w), lhs_batch_dims={0}, lhs_contracting_dims={2},
    rhs_batch_dims={1}, rhs_contracting_dims={2}
}
"""

BATCHES = """HloModule m
ENTRY e {
  x = f32[3,100,96] parameter(0)
  w = f32[3,96,192] WEIGHT
  ROOT d = f32[3,100,192] dot(x, w), lhs_batch_dims={0}, lhs_contracting_dims={2},
    rhs_batch_dims={0}, rhs_contracting_dims={1}
}
"""

WINDOW = """HloModule m
ENTRY e {
  x = f32[1,14,14,32] parameter(0)
  w = f32[5,5,32,192] WEIGHT
  c = f32[1,14,14,192] convolution(x, w), window={size=5x5 pad=2_2x2_2}, dim_labels=b01f_01io->b01f
  z = f32[] constant(0)
  zs = f32[1,14,14,192] broadcast(z), dimensions={}
  ROOT r = f32[1,14,14,192] maximum(c, zs)
}
"""

POINTWISE = """HloModule m
ENTRY e {
  x = f32[1,14,14,96] parameter(0)
  w = f32[1,1,96,192] WEIGHT
  ROOT c = f32[1,14,14,192] convolution(x, w), window={size=1x1}, dim_labels=b01f_01io->b01f
}
"""

# Panels of every machine divide 192 and 256 columns.
TEXTS = {
    "small": dot_text(37, 100, 256),
    "blocks of k": dot_text(25, 900, 320),
    "layer": LAYER,
    "rows along m": ROWS_ALONG_M,
    "columns along k": COLUMNS_ALONG_K,
    "batches": BATCHES,
    "batches within": BATCHES_WITHIN,
    "window": WINDOW,
    "pointwise": POINTWISE,
}


def weight(inst_module: Module) -> Any:
    """Return the constant called `w`."""
    (found,) = (i for i in inst_module.entry.instructions if i.is_a("constant") and i.array.rank)
    return found


def baked(text: str, values: Array) -> Module:
    """Return the module of `text` with `values` as its weight."""
    module: Module = parse_text(text.replace("WEIGHT", "constant({...})"))
    inst = weight(module)
    row = opcode_row("constant")
    assert row.attributes is not None
    literal = literal_of(values, DTYPES[str(inst.array.dtype)])
    module.entry.set_attributes(inst, row.attributes(literal=literal))
    return module


def arrays_for(module: Module) -> list[Array]:
    """Return random floats for the parameters."""
    random = np.random.default_rng(0)
    return [random.standard_normal(p.array.dims, np.float32) for p in module.entry.parameters]


def both(text: str, **options: Any) -> tuple[Any, Array, Array, Array]:
    """Return the program with a constant weight, its input, its result, and that of an argument."""
    plain = parse_text(text.replace("WEIGHT", "parameter(1)"))
    x, w = arrays_for(plain)
    program = hloc.compile(baked(text, w), **options)
    (wanted,) = hloc.compile(plain, **options)(x, w)
    (found,) = program(x)
    return program, x, found, wanted


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_constant_weight_gives_the_same_bits(name: str, threads: int) -> None:
    """Sums are those of packing in every call: the same tiles and blocks of k."""
    program, _, found, wanted = both(TEXTS[name], threads=threads, features=NO_MATRICES)
    assert panel_width(weight(program.compiled.module).array), "the weight lies in panels"
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("features", ["", NO_MATRICES, "-avx512f", "-avx512f,-avx,-avx2,-fma"])
def test_vectors_of_other_widths(features: str) -> None:
    _, _, found, wanted = both(LAYER, features=features)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", ["small", "blocks of k", "window"])
def test_a_machine_with_other_tiles_reads_the_same_panels(name: str) -> None:
    """Kernels for several machines share the constants: one packs them in calls from its panels."""
    plain = parse_text(TEXTS[name].replace("WEIGHT", "parameter(1)"))
    x, w = arrays_for(plain)
    options = CompileOptions(features=NO_MATRICES)
    compiled = CpuBackend().compile(baked(TEXTS[name], w), options)
    other = CpuBackend().for_machine(compiled, narrower(128))
    (found,), (wanted,) = load_compiled(other)(x), hloc.evaluate(plain, x, w)
    np.testing.assert_allclose(found, wanted, **bounds("f32 products"))


def test_a_weight_that_something_else_reads_stays_as_it_is() -> None:
    text = LAYER.replace(
        "ROOT r = f32[300,256] subtract(t, d)",
        "r = f32[300,256] subtract(t, d)\n  ROOT p = (f32[300,256], f32[96,256]) tuple(r, w)",
    )
    (x, w) = arrays_for(parse_text(text.replace("WEIGHT", "parameter(1)")))
    program = hloc.compile(baked(text, w))
    assert not panel_width(weight(program.compiled.module).array)
    np.testing.assert_array_equal(program(x)[1], w)


@pytest.mark.parametrize(
    "text", [dot_text(64, 96, 101), dot_text(600, 96, 128)], ids=["columns", "rows"]
)
def test_columns_that_panels_do_not_divide_stay_and_those_of_many_rows(text: str) -> None:
    program, _, found, wanted = both(text)
    assert not panel_width(weight(program.compiled.module).array)
    np.testing.assert_array_equal(found, wanted)


TILED = """HloModule m
ENTRY e {
  x = f32[300,96] parameter(0)
  w = f32[96,256]{1,0:T(96,16)} WEIGHT
  d = f32[300,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  n = f32[96,256]{1,0:T(8,128)} negate(w)
  ROOT p = (f32[300,256], f32[96,256]) tuple(d, n)
}
"""


@pytest.mark.parametrize("is_constant", [False, True])
def test_tiles_that_a_module_brings_along_mean_nothing_here(*, is_constant: bool) -> None:
    """They are those of the machine that the text is from."""
    plain = parse_text(TILED.replace("WEIGHT", "parameter(1)"))
    x, w = arrays_for(plain)
    program = hloc.compile(baked(TILED, w) if is_constant else plain)
    product, negated = program(*((x,) if is_constant else (x, w)))
    np.testing.assert_allclose(product, x @ w, **bounds("f32 products"))
    np.testing.assert_array_equal(negated, -w)


def test_a_kept_program_has_its_panels_at_cache_lines() -> None:
    program, _, _, _ = both(LAYER, features=NO_MATRICES)
    kept = Program(program.manifest, program.compiled.objects(), "")
    data = program_bytes(kept)
    assert data is not None
    again = read_program(data)
    (before,) = (c for c in program.manifest.constants if c.ndim > 1)
    (after,) = (c for c in again.manifest.constants if c.ndim > 1)
    np.testing.assert_array_equal(before, after)
    assert before.ctypes.data % 64 == after.ctypes.data % 64 == 0


def test_panels_in_memory() -> None:
    """Two panels of two columns, each with all three rows; batches one behind the other."""
    shape = in_panels(ArrayShape(DTYPES["f32"], (3, 4)), 0, 2)
    assert str(shape) == "f32[3,4]{1,0:T(3,2)}"
    values = np.arange(12).reshape(3, 4)
    assert panel_order(values, shape).ravel().tolist() == [0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11]
    batches = in_panels(ArrayShape(DTYPES["f32"], (2, 3, 4)), 1, 2)
    found = panel_order(np.stack([values, values + 12]), batches).reshape(2, -1)
    assert found[1].tolist() == (found[0] + 12).tolist()
    assert panel_width(ArrayShape(DTYPES["f32"], (3, 4), Layout((0, 1)))) == 0


LOOP = """HloModule m
body {
  s = (s32[], f32[ROWS], f32[WEIGHT]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[ROWS] get-tuple-element(s), index=1
  w = f32[WEIGHT] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  d = f32[ROWS] dot(h, w), DIMS
  t = f32[ROWS] tanh(d)
  ROOT r = (s32[], f32[ROWS], f32[WEIGHT]) tuple(next, t, w)
}
condition {
  s = (s32[], f32[ROWS], f32[WEIGHT]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  most = s32[] constant(3)
  ROOT c = pred[] compare(i, most), direction=LT
}
ENTRY e {
  h = f32[ROWS] parameter(0)
  w = f32[WEIGHT] parameter(1)
  zero = s32[] constant(0)
  s = (s32[], f32[ROWS], f32[WEIGHT]) tuple(zero, h, w)
  l = (s32[], f32[ROWS], f32[WEIGHT]) while(s), condition=condition, body=body
  h2 = f32[ROWS] get-tuple-element(l), index=1
  w2 = f32[WEIGHT] get-tuple-element(l), index=2
  ROOT r = (f32[ROWS], f32[WEIGHT]) tuple(h2, w2)
}
"""
"""A recurrent layer of three steps; the loop hands the weight on."""

ALONG_K = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
ALONG_N = "lhs_contracting_dims={1}, rhs_contracting_dims={1}"
BATCHED = (
    "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}"
)


def loop_text(rows: str, weight_dims: str, dims: str = ALONG_K) -> str:
    return LOOP.replace("ROWS", rows).replace("WEIGHT", weight_dims).replace("DIMS", dims)


def in_loop(compiled: Module) -> list[int]:
    """Return the width of the panels of each array of the state of the only loop."""
    (loop,) = (i for i in compiled.entry.instructions if i.is_a("while"))
    assert isinstance(loop.shape, TupleShape)
    return [panel_width(s) for s in loop.shape.elements if isinstance(s, ArrayShape)]


def ran(text: str, **options: Any) -> tuple[list[int], list[Array]]:
    """Return the panels of the loop, and its results, which are those of the evaluator."""
    module = parse_text(text)
    arrays = [0.1 * x for x in arrays_for(module)]
    program = hloc.compile(module, features=NO_MATRICES, **options)
    found = program(*arrays)
    for one, other in zip(found, hloc.evaluate(parse_text(text), *arrays), strict=True):
        np.testing.assert_allclose(one, other, **bounds("f32 products"))
    return in_loop(program.compiled.module), found


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "text",
    [
        loop_text("50,256", "256,256"),
        loop_text("32,256", "256,256"),  # groups of rows, which read a weight in place otherwise
        loop_text("50,256", "256,256", ALONG_N),
        loop_text("3,40,192", "3,192,192", BATCHED),
        loop_text("40,960", "960,960"),  # of 48 columns, where threads share pieces of 64
        loop_text("50,256", "256,256").replace("f32[256,256]", "f32[256,256]{0,1}"),
    ],
    ids=["packed", "groups", "along n", "batches", "wide", "other layout"],
)
def test_a_weight_of_a_loop_is_packed_before_it(
    text: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    panels, found = ran(text, threads=threads)
    assert panels[2]
    assert not any(panels[:2])
    monkeypatch.setattr(weight_panels, "_has_plain_state", lambda loop: False)
    panels, wanted = ran(text.replace("HloModule m", "HloModule n"), threads=threads)
    assert not any(panels)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_weight_after_the_loop_is_the_one_before() -> None:
    text = loop_text("50,256", "256,256")
    text = text.replace("  w2 = f32[256,256] get", "  ROOT w2 = f32[256,256] get")
    text = text.replace("  ROOT r = (f32[50,256], f32[256,256]) tuple(h2, w2)\n", "")
    panels, (found,) = ran(text, opt_level=0)
    assert panels[2]
    np.testing.assert_array_equal(found, 0.1 * arrays_for(parse_text(text))[1])


def test_two_products_read_the_same_panels() -> None:
    text = loop_text("50,256", "256,256").replace(
        "t = f32[50,256] tanh(d)",
        f"t0 = f32[50,256] tanh(d)\n  t = f32[50,256] dot(t0, w), {ALONG_K}",
    )
    assert ran(text)[0][2]


@pytest.mark.parametrize(
    "change",
    [
        (
            "one = s32[] constant(1)",
            "one = s32[] constant(1)\n  v = f32[256,256] negate(w)",
            "(next, t, w)",
            "(next, t, v)",
        ),
        (
            "t = f32[50,256] tanh(d)",
            "m = f32[50,256] slice(w), slice={[0:50], [0:256]}\n  t = f32[50,256] multiply(d, m)",
        ),
        (
            "most = s32[] constant(3)",
            "w = f32[256,256] get-tuple-element(s), index=2\n  x = f32[1,1] slice(w), "
            "slice={[0:1], [0:1]}\n  y = f32[] reshape(x)\n  z = s32[] convert(y)\n"
            "  k = s32[] constant(3)\n  most = s32[] add(z, k)",
        ),
    ],
    ids=["changed", "read", "condition"],
)
def test_a_weight_that_a_loop_changes_or_reads_otherwise_stays(change: tuple[str, ...]) -> None:
    text = loop_text("50,256", "256,256")
    for old, new in zip(change[::2], change[1::2], strict=True):
        assert text.count(old) == 1
        text = text.replace(old, new)
    assert not any(ran(text)[0])
