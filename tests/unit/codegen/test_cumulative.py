"""Scans in one pass: sizes, directions, windows, types, what is fused in, and accuracy."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import hloc
from hloc.analysis.cumulative import plain_scan
from hloc.codegen.llvm.target import host_target, target_for
from tests.tolerance import bounds
from tests.unit.codegen.emitters import emitter_for
from tests.unit.codegen.harness import (
    check_root,
    emit,
    module_text,
    parse_text,
    random_arrays,
    reducer,
    run_instruction,
)

AVX2 = target_for("x86_64", "haswell")

GATHER = "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1}"


def window(rank: int, dim: int, size: int, low: int, high: int) -> str:
    """Return the attribute of a window of `size` along one dimension."""
    sizes = "x".join(str(size) if d == dim else "1" for d in range(rank))
    pads = "x".join(f"{low}_{high}" if d == dim else "0_0" for d in range(rank))
    return f"window={{size={sizes} pad={pads}}}"


def scan(
    dims: list[int],
    dim: int,
    *,
    low: int | None = None,
    high: int = 0,
    size: int | None = None,
    dtype: str = "f32",
    opcode: str = "add",
    layout: str = "",
) -> str:
    """Return a module whose root is a cumulative fold, inclusive and forward if not told."""
    n = dims[dim]
    size = n if size is None else size
    low = size - 1 if low is None else low
    result = [*dims]
    result[dim] = n + low + high - size + 1
    source = f"{dtype}[{','.join(map(str, dims))}]{layout}"
    shape = f"{dtype}[{','.join(map(str, result))}]{layout}"
    attributes = f"{window(len(dims), dim, size, low, high)}, to_apply=f"
    root = f"{shape} reduce-window(p0, p1), {attributes}"
    return module_text([source, f"{dtype}[]"], root, reducer("f", opcode, dtype))


def check(text: str, **options: Any) -> None:
    """Compare the kernel of a scan with the evaluator."""
    assert emitter_for(parse_text(text).entry.root).name == "cumulative"  # type: ignore[union-attr]
    check_root(text, random_arrays(text), **{"rtol": 1e-4, "atol": 1e-4, **options})


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("dims", "dim"),
    [
        ([2], 0),
        ([63], 0),
        ([65], 0),
        ([1025], 0),
        ([2111], 0),
        ([3, 7], 1),
        ([40, 2], 1),
        ([4, 7, 5], 1),
        ([40, 12], 1),
        ([7, 100], 1),
        ([131, 5], 0),
        ([131, 17], 0),
        ([64, 1030], 0),
        ([3, 70, 21], 1),
        ([3, 1, 70, 2], 2),
    ],
)
def test_odd_sizes_in_both_directions(dims: list[int], dim: int, reverse: bool) -> None:
    size = dims[dim]
    low, high = (0, size - 1) if reverse else (size - 1, 0)
    check(scan(dims, dim, low=low, high=high), pieces=2)


@pytest.mark.parametrize("dims", [[1100], [3, 40], [40, 3], [40, 20], [130, 1040], [7, 10]])
@pytest.mark.parametrize(("more_low", "more_high"), [(1, -1), (3, 0), (0, -5), (-4, 0), (2, -7)])
@pytest.mark.parametrize("reverse", [False, True])
def test_windows_that_leave_elements_out_or_begin_empty(
    dims: list[int], more_low: int, more_high: int, reverse: bool
) -> None:
    """Exclusive scans, and those of which some results are cut off."""
    dim = len(dims) - 1 if dims[0] < 10 else 0
    low, high = dims[dim] - 1 + more_low, more_high
    check(scan(dims, dim, low=high if reverse else low, high=low if reverse else high))


@pytest.mark.parametrize("dims", [[4, 70], [70, 4], [70, 30], [4, 9, 5]])
@pytest.mark.parametrize(
    ("opcode", "dtype", "rtol"),
    [
        ("multiply", "f32", 1e-4),
        ("maximum", "f32", 0),
        ("minimum", "f64", 0),
        ("add", "f64", 1e-12),
        ("add", "bf16", 0.01),
        ("add", "f16", 2e-3),
        ("maximum", "bf16", 0),
        ("add", "s32", 0),
        ("add", "s8", 0),
        ("multiply", "u16", 0),
        ("minimum", "u8", 0),
        ("maximum", "s64", 0),
        ("and", "pred", 0),
        ("or", "pred", 0),
        ("xor", "u32", 0),
    ],
)
def test_reducers(dims: list[int], opcode: str, dtype: str, rtol: float) -> None:
    dim = dims.index(max(dims))
    check(scan(dims, dim, dtype=dtype, opcode=opcode), rtol=rtol, atol=4 * rtol)


def test_the_initial_value_counts_once_for_every_result() -> None:
    text = scan([3, 100], 1, low=100, high=-1)
    values, _ = random_arrays(text)
    (found,) = check_root(text, [values, np.asarray(100, np.float32)], **bounds("f32 prefix sum"))
    np.testing.assert_array_equal(found[:, 0], np.float32(100))


def test_infinities_and_nan_reach_what_comes_after_them_only() -> None:
    root = parse_text(scan([2, 70], 1)).entry.root
    values = np.ones((2, 70), np.float32)
    values[0, 20], values[1, 33], values[1, 50] = np.nan, np.inf, -np.inf
    (found,) = run_instruction(root, [values, np.zeros((), np.float32)])
    np.testing.assert_array_equal(np.isnan(found[0]), np.arange(70) >= 20)
    np.testing.assert_array_equal(np.isnan(found[1]), np.arange(70) >= 50)


@pytest.mark.parametrize("layout", ["{0,1}", "{1,0}"])
@pytest.mark.parametrize("dim", [0, 1])
def test_layouts(layout: str, dim: int) -> None:
    check(scan([50, 37], dim, layout=layout))


@pytest.mark.parametrize("dims", [[1 << 18], [1 << 16, 16]])
def test_long_sums_stay_accurate(dims: list[int]) -> None:
    """A running sum in f32 would lose four digits over so many numbers of one sign."""
    entry = parse_text(scan(dims, 0)).entry
    values = np.random.default_rng(0).random(dims, np.float32)
    (found,) = run_instruction(entry.root, [values, np.zeros((), np.float32)])
    exact = np.cumsum(values.astype(np.float64), axis=0)
    assert (np.abs(found - exact) / exact).max() < 4e-7


def test_bits_do_not_depend_on_how_the_rows_are_split() -> None:
    for dims, dim in (([40, 1500], 1), ([1500, 2100], 0)):
        text = scan(dims, dim)
        arrays, root = random_arrays(text), parse_text(text).entry.root
        one, several = (run_instruction(root, arrays, pieces=n)[0] for n in (1, 3))
        np.testing.assert_array_equal(one.view(np.uint32), several.view(np.uint32))


def test_other_windows_are_left_to_others() -> None:
    shifted = module_text(
        ["f32[9]", "f32[]"],
        "f32[9] reduce-window(p0, p1), window={size=3 pad=1_1}, to_apply=f",
        reducer("f", "add", "f32"),
    )
    assert plain_scan(parse_text(shifted).entry.root) is None
    assert plain_scan(parse_text(scan([9], 0, opcode="subtract")).entry.root) is None
    assert plain_scan(parse_text(scan([9], 0, dtype="c64")).entry.root) is None


def test_what_makes_the_elements_is_fused_in() -> None:
    text = module_text(
        ["f32[20,300]", "f32[]"],
        f"f32[20,300] reduce-window(d, p1), {window(2, 1, 300, 299, 0)}, to_apply=f",
        reducer("f", "add", "f32"),
    ).replace("  ROOT", "  d = f32[20,300] multiply(p0, p0)\n  ROOT")
    executable = hloc.compile(text)
    (root,) = [i for i in executable.compiled.module.entry.instructions if i.is_a("fusion")]
    assert root.called[0].root.is_a("reduce-window")
    values = np.random.default_rng(1).standard_normal((20, 300)).astype(np.float32)
    (found,) = executable(values, np.float32(1))
    np.testing.assert_allclose(
        found, 1 + np.cumsum(values.astype(np.float64) ** 2, 1), **bounds("f32 few roundings")
    )


@pytest.mark.parametrize("triple", ["x86_64", "aarch64", "riscv64"])
def test_every_machine_has_text(triple: str) -> None:
    """The number of lanes follows the target's vectors."""
    target = target_for(triple)
    kernel = emit(parse_text(scan([8, 300], 1)).entry.root, target=target)
    assert f"<{target.vector_bits // 32} x float>" in kernel.text


@pytest.mark.parametrize("bits", [128, 256])
@pytest.mark.parametrize("dtype", ["f32", "f64", "u8"])
def test_narrower_vectors(bits: int, dtype: str) -> None:
    target = dataclasses.replace(host_target(), vector_bits=min(bits, host_target().vector_bits))
    check(scan([3, 1100], 1, dtype=dtype), target=target)


@pytest.mark.parametrize("size", [7, 8, 100, 1024, 1029, 2048, 2056])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("pieces", [1, 2])
def test_elements_that_are_computed_in_lanes(
    size: int, dim: int, reverse: bool, pieces: int
) -> None:
    """Steps of random walks: gathered by random numbers, of which two keys are concatenated.

    A row is shorter than a vector, ends in a part of one, fills a block or strip, or is longer.
    """
    steps = (3, size)[dim]
    low, high = (0, steps - 1) if reverse else (steps - 1, 0)
    shape = f"[3,{size}]"
    mixed = "\n".join(
        f"  h{n} = u32{shape} {opcode}({'x' if n == 0 else f'h{n - 1}'}, b)"
        for n, opcode in enumerate(("multiply", "xor", "add", "multiply", "subtract") * 2)
    )
    text = f"""HloModule test

{reducer("f", "add", "s32")}

walk {{
  t = s32[5] parameter(0)
  x = u32{shape} parameter(1)
  k = u32[1] parameter(2)
  l = u32[1] parameter(3)
  z = s32[] parameter(4)
  c = u32[2] concatenate(k, l), dimensions={{0}}
  s = u32[1] slice(c), slice={{[1:2]}}
  r = u32[] reshape(s)
  b = u32{shape} broadcast(r), dimensions={{}}
{mixed}
  five = u32[] constant(5)
  fives = u32{shape} broadcast(five), dimensions={{}}
  i = u32{shape} remainder(h9, fives)
  j = u32[3,{size},1] reshape(i)
  g = s32{shape} gather(t, j), offset_dims={{}}, {GATHER}
  ROOT w = s32{shape} reduce-window(g, z), {window(2, dim, steps, low, high)}, to_apply=f
}}

ENTRY e {{
  t = s32[5] parameter(0)
  x = u32{shape} parameter(1)
  k = u32[1] parameter(2)
  l = u32[1] parameter(3)
  z = s32[] parameter(4)
  ROOT r = s32{shape} fusion(t, x, k, l, z), kind=kLoop, calls=walk
}}
"""
    check(text, pieces=pieces, rtol=0, atol=0)
    if size in (100, 1024, 2048) and not (dim and reverse):
        assert "xor <8 x i32>" in emit(parse_text(text).entry.root, target=AVX2).text
