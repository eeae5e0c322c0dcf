"""Conversions between all element types, bit for bit as `ml_dtypes` and NumPy."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest

import hloc
from hloc.codegen.llvm.target import Target, host_target
from hloc.dtypes import BF16, DTYPES, F16, DType
from tests.tolerance import bounds
from tests.unit.codegen.harness import (
    Array,
    check_root,
    evaluate,
    module_text,
    parse_text,
    run_instruction,
)

NARROW = [d for d in DTYPES.values() if d.is_float and d.bits < 32]
COUNT = 1 << 16


def _plain_target() -> Target:
    """Return this machine without its conversions between half and single precision."""
    host = host_target()
    kept = [
        f
        for f in host.features.split(",")
        if f[1:] != "f16c" and not f[1:].startswith(("avx512", "avx10"))
    ]
    off = "-f16c,-avx512f"
    return dataclasses.replace(host, features=",".join([*kept, off]), vector_bits=256)


def _all_values(dtype: DType) -> Array:
    unsigned = np.arange(COUNT, dtype=np.uint32) % (1 << dtype.bits)
    return unsigned.astype(f"u{dtype.storage_bytes}").view(dtype.numpy)


def _singles() -> Array:
    """Return f32 of all magnitudes, ties between neighbours of narrow types, special values."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, COUNT // 4, dtype=np.uint64).astype(np.uint32)
    near = np.exp2(rng.uniform(-30, 20, COUNT // 4)) * rng.choice([-1, 1], COUNT // 4)
    ties = np.arange(COUNT // 2) * 2.0**-11
    parts = [bits.view(np.float32), near.astype(np.float32), ties.astype(np.float32)]
    values = np.concatenate(parts)
    values[:8] = [0, -0.0, np.inf, -np.inf, np.nan, 448, 464, 465]
    return values


def _compare(source: DType, target: DType, values: Array, machine: Target | None) -> None:
    text = module_text([f"{source}[{COUNT}]"], f"{target}[{COUNT}] convert(p0)")
    entry = parse_text(text).entry
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = evaluate(entry, [values])
        (found,) = run_instruction(entry.root, [values], target=machine, level=1)
        as_wide = [x.astype(np.float64) for x in (found, expected)]
    bits = f"u{target.storage_bytes}"
    same = found.view(bits) == np.ascontiguousarray(expected).view(bits)
    both_nan = np.isnan(as_wide[0]) & np.isnan(as_wide[1])
    different = np.flatnonzero(~(same | both_nan))
    assert not different.size, (values[different[:4]], found[different[:4]])


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_to_single(dtype: DType) -> None:
    _compare(dtype, DTYPES["f32"], _all_values(dtype), None)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_from_single(dtype: DType) -> None:
    values = _singles()
    if dtype.name == "f8e8m0fnu":  # 2**-127 and its neighbours are subnormal in f32
        values[np.abs(values) < 2.0**-126] = 1
    _compare(DTYPES["f32"], dtype, values, None)


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_without_machine_conversions(dtype: DType) -> None:
    """Code for machines without f16c needs no library function either."""
    _compare(DTYPES["f32"], dtype, _singles(), _plain_target())
    _compare(dtype, DTYPES["f32"], _all_values(dtype), _plain_target())


@pytest.mark.parametrize("name", ["s2", "s4", "u4", "s8", "s32", "u32", "s64", "pred"])
def test_integers_to_bf16_and_back(name: str) -> None:
    rng = np.random.default_rng(0)
    dtype = DTYPES[name]
    if dtype.is_pred:
        integers = rng.random(COUNT) < 0.5
    else:
        low, high = (
            (0, 1 << dtype.bits)
            if dtype.is_unsigned
            else (-(1 << dtype.bits - 1), 1 << dtype.bits - 1)
        )
        integers = rng.integers(low, high, COUNT).astype(dtype.numpy)
    text = module_text([f"{name}[{COUNT}]"], f"bf16[{COUNT}] convert(p0)")
    entry = parse_text(text).entry
    (found,) = run_instruction(entry.root, [integers], level=1)
    np.testing.assert_array_equal(
        found.astype(np.float32), evaluate(entry, [integers]).astype(np.float32)
    )
    floats = _all_values(BF16)
    text = module_text([f"bf16[{COUNT}]"], f"{name}[{COUNT}] convert(p0)")
    entry = parse_text(text).entry
    (found,) = run_instruction(entry.root, [floats], level=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = evaluate(entry, [floats])
    np.testing.assert_array_equal(found.astype(np.int64), expected.astype(np.int64))


@pytest.mark.parametrize("opcode", ["add", "multiply", "maximum", "negate", "abs", "ceil"])
def test_nan_and_zeros_of_bf16_arithmetic(opcode: str) -> None:
    """Rounding leaves the NaN alone that operands have or that infinities make."""
    values = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -3e38, 1.5], np.float32)
    x, y = (part.reshape(-1) for part in np.meshgrid(values, values))
    arity = 2 if opcode in ("add", "multiply", "maximum") else 1
    operands = ("p0", "p1")[:arity]
    text = module_text(["bf16[81]"] * arity, f"bf16[81] {opcode}({', '.join(operands)})")
    arrays = [part.astype(BF16.numpy) for part in (x, y)[:arity]]
    with np.errstate(all="ignore"):
        check_root(text, arrays, **bounds("exact"))


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f8e5m2", "f8e4m3fn"])
def test_constants_are_f32_constants(dtype: str) -> None:
    """They are converted when the code is written, with the same values and NaN."""
    text = f"""HloModule m
ENTRY e {{
  p = {dtype}[40] parameter(0)
  a = {dtype}[] constant(-1.5)
  b = {dtype}[] constant(448)
  n = {dtype}[] constant(nan)
  m = {dtype}[40] broadcast(n), dimensions={{}}
  c = {dtype}[40] clamp(a, p, b)
  d = {dtype}[40] maximum(p, m)
  ROOT t = ({dtype}[40], {dtype}[40]) tuple(c, d)
}}"""
    module = hloc.parse(text)
    numbers = [0.0, -0.0, np.nan, 1e-7, 2.0, -3.0, 57344.0]
    x = np.resize(np.array(numbers, np.float32), 40).astype(
        module.entry.parameters[0].array.dtype.numpy
    )
    for got, want in zip(hloc.compile(text)(x), hloc.evaluate(module, x), strict=True):
        np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))
