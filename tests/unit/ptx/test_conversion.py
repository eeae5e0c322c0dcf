"""Cvt: every bit against fractions and Python's integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.ptx.ptx_running import Array, evaluate
from tests.unit.ptx.test_floats import FORMATS, check, is_nan, patterns, rounded, to_float
from tests.unit.ptx.test_integer import clamp, edges, read, words

QUICK = settings(max_examples=10, deadline=None)
INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")


@pytest.mark.parametrize("result", INTEGERS)
@pytest.mark.parametrize("source", INTEGERS)
def test_integer_to_integer(source: str, result: str) -> None:
    """Narrow results are extended to the register they go into."""
    bits, out_bits = int(source[1:]), int(result[1:])
    a = edges(bits)
    held, out = max(bits, 16), max(out_bits, 16)
    inputs = [words([x | (0xAB << 8 if bits == 8 else 0) for x in a], held)]
    got = evaluate(f"cvt.{result}.{source} %out, %in0;", inputs, f"u{out // 8}")
    expected = [read(result, read(source, x)) for x in a]
    np.testing.assert_array_equal(got, words(expected, out))
    got = evaluate(f"cvt.sat.{result}.{source} %out, %in0;", inputs, f"u{out // 8}")
    np.testing.assert_array_equal(got, words([clamp(read(source, x), result) for x in a], out))


ROUND: dict[str, Callable[[float], int]] = {
    "rni": round,
    "rzi": math.trunc,
    "rmi": math.floor,
    "rpi": math.ceil,
}


@pytest.mark.parametrize("mode", ROUND)
@pytest.mark.parametrize("result", ["s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("source", FORMATS)
def test_float_to_integer(source: str, result: str, mode: str) -> None:
    """Values out of range are clamped; NaN is 0, or the top bit where 64 bits take part."""
    bits = FORMATS[source][0]
    values = [0.5, 1.5, -0.5, -2.5, 3.7, -3.7, 1e5, -1e5, 3e9, -3e9, 1e19, -1e19, 2e19, 65504.0]
    values += [float("inf"), -float("inf"), float("nan"), 0.0, 2.0**31, 2.0**63, -(2.0**63)]
    if source == "bf16":
        a = (np.array(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    else:
        with np.errstate(over="ignore"):
            a = np.array(values).astype(f"f{bits // 8}").view(f"u{bits // 8}")
    out = int(result[1:])
    got = evaluate(f"cvt.{mode}.{result}.{source} %out, %in0;", [a], f"u{out // 8}")
    for pattern, found in zip(a.tolist(), got.tolist(), strict=True):
        x = to_float(pattern, source)
        if x != x:
            wide = out == 64 or bits == 64
            assert found == (1 << out - 1 if wide else 0)
        elif math.isinf(x):
            assert read(result, found) == clamp(1 << 70 if x > 0 else -1 << 70, result)
        else:
            assert read(result, found) == clamp(ROUND[mode](x), result)


@pytest.mark.parametrize("result", FORMATS)
@pytest.mark.parametrize("source", ["u8", "s16", "u32", "s32", "u64", "s64"])
def test_integer_to_float(source: str, result: str) -> None:
    bits = int(source[1:])
    a = edges(bits) + [(1 << bits - 1) - (1 << i) + 1 for i in range(bits - 1)]
    got = evaluate(
        f"cvt.rn.{result}.{source} %out, %in0;",
        [words(a, max(bits, 16))],
        f"u{FORMATS[result][0] // 8}",
    )
    expected = [rounded(Fraction(v), result) if (v := read(source, x)) else 0 for x in a]
    check(got, list(expected), [a])


@pytest.mark.parametrize("result", FORMATS)
@pytest.mark.parametrize("source", FORMATS)
@QUICK
@given(data=st.data())
def test_float_to_float(source: str, result: str, data: st.DataObject) -> None:
    a = data.draw(patterns(source))
    if source == result:
        return
    precision = {name: FORMATS[name][1] for name in FORMATS}
    exact = precision[result] >= precision[source] and source != "bf16" and result != "f16"
    exact = exact or (source == "bf16" and result in ("f32", "f64"))
    exact = exact or (source == "f16" and result in ("f32", "f64"))
    rounding = "" if exact else ".rn"
    size = FORMATS[source][0] // 8
    got = evaluate(
        f"cvt{rounding}.{result}.{source} %out, %in0;",
        [np.array(a, f"u{size}")],
        f"u{FORMATS[result][0] // 8}",
    )
    expected: list[int | None] = []
    for pattern in a:
        x = to_float(pattern, source)
        bits, mantissa, _ = FORMATS[result]
        sign = 1 << bits - 1 if np.signbit(x) else 0
        if is_nan(pattern, source):
            expected.append(None)
        elif math.isinf(x):
            expected.append(sign | (1 << bits - 1) - (1 << mantissa - 1))
        else:
            expected.append(rounded(Fraction(x), result) | sign if x else sign)
    check(got, expected, [a])


@pytest.mark.parametrize(
    ("mode", "function"),
    [("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)],
)
def test_rounding_to_integral_values(mode: str, function: np.ufunc) -> None:
    x = np.array([0.5, 1.5, -0.5, -2.5, 1e10, np.inf, -0.0, 3.999], np.float32)
    got = evaluate(f"cvt.{mode}.f32.f32 %out, %in0;", [x], "f4")
    np.testing.assert_array_equal(got, function(x))
    np.testing.assert_array_equal(np.signbit(got), np.signbit(function(x)))


def narrowed(x: Array, name: str) -> Array:
    return np.array([rounded(Fraction(float(v)), name) if v else 0 for v in x], np.uint16)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_packing_puts_the_first_into_the_high_half(name: str) -> None:
    x, y = np.random.default_rng(1).standard_normal((2, 50)).astype(np.float32)
    got = evaluate(f"cvt.rn.{name}x2.f32 %out, %in0, %in1;", [x, y], "u4")
    np.testing.assert_array_equal(got >> 16, narrowed(x, name))
    np.testing.assert_array_equal(got & 0xFFFF, narrowed(y, name))
    relu = evaluate(f"cvt.rn.relu.{name}x2.f32 %out, %in0, %in1;", [x, y], "u4")
    np.testing.assert_array_equal(relu >> 16, narrowed(np.maximum(x, 0), name))


@pytest.mark.parametrize(("mode", "name"), [("rz", "f16"), ("rz", "bf16"), ("rz", "f32")])
def test_narrowing_towards_zero(mode: str, name: str) -> None:
    x = np.random.default_rng(2).standard_normal(100)
    source = "f64" if name == "f32" else "f32"
    x = x if source == "f64" else x.astype(np.float32)
    got = evaluate(f"cvt.{mode}.{name}.{source} %out, %in0;", [x], f"u{FORMATS[name][0] // 8}")
    for value, found in zip(x, got.tolist(), strict=True):
        low = Fraction(to_float(found, name))
        high = Fraction(to_float(found + 1, name))  # the next one away from zero
        assert abs(low) <= abs(Fraction(float(value))) < abs(high)


def test_tf32_rounds_ties_away() -> None:
    bits = np.array([0x3F801000, 0x3F800FFF, 0xBF803000, 0x3F802000, 0x7F800000], np.uint32)
    got = evaluate("cvt.rna.tf32.f32 %out, %in0;", [bits], "u4")
    assert got.tolist() == [0x3F802000, 0x3F800000, 0xBF804000, 0x3F802000, 0x7F800000]


@pytest.mark.parametrize(("name", "largest"), [("e4m3", 448.0), ("e5m2", 57344.0)])
def test_eight_bit_floats_go_there_and_back(name: str, largest: float) -> None:
    codes = np.array(
        [c for c in range(256) if c & 0x7F < {"e4m3": 0x7F, "e5m2": 0x7C}[name]], np.uint16
    )
    both = codes | codes << 8
    halves = evaluate(f"cvt.rn.f16x2.{name}x2 %out, %in0;", [both], "u4").view(np.float16)
    values = halves[::2].astype(np.float32)
    assert values.max() == largest
    back = evaluate(f"cvt.rn.satfinite.{name}x2.f32 %out, %in0, %in1;", [values, values], "u2")
    np.testing.assert_array_equal(back, both)
    more = np.array([largest * 2, -largest * 2], np.float32)
    got = evaluate(f"cvt.rn.satfinite.{name}x2.f32 %out, %in0, %in1;", [more, more], "u2")
    top = int(both[values.argmax()])
    assert got.tolist() == [top, top | 0x8080]
    middle = ((values[:-1].astype(np.float64) + values[1:]) / 2)[5:20].astype(np.float32)
    tied = evaluate(f"cvt.rn.satfinite.{name}x2.f32 %out, %in0, %in1;", [middle, middle], "u2")
    assert (tied & 1 == 0).all()
