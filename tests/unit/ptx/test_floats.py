"""Floating-point instructions: every bit against exact fractions rounded by other means."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hloc.ptx import PtxFault
from tests.tolerance import bounds
from tests.unit.ptx.ptx_running import Array, evaluate

QUICK = settings(max_examples=25, deadline=None)
FORMATS = {  # name -> bits, precision, smallest exponent of a unit in the last place
    "f16": (16, 11, -24),
    "bf16": (16, 8, -133),
    "f32": (32, 24, -149),
    "f64": (64, 53, -1074),
}


def special(name: str) -> list[int]:
    """Return patterns at every border: zeros, subnormals, ones, infinities, NaN."""
    bits, precision, _ = FORMATS[name]
    top = 1 << bits - 1
    infinity = (top >> precision - 1 << precision - 1) - 0
    infinity = (1 << bits - 1) - (1 << precision - 1)
    smallest_normal = 1 << precision - 1
    plain = [0, 1, 2, smallest_normal - 1, smallest_normal, infinity - 1, infinity, infinity + 1]
    one = ((1 << bits - precision) // 2 - 1) << precision - 1
    plain += [one, one + 1, one - 1]
    return plain + [top | p for p in plain]


def patterns(name: str) -> st.SearchStrategy[list[int]]:
    bits = FORMATS[name][0]
    one = st.one_of(st.sampled_from(special(name)), st.integers(0, (1 << bits) - 1))
    return st.lists(one, min_size=48, max_size=48)


def to_float(pattern: int, name: str) -> float:
    """Return the value of a pattern as a Python float, which holds all these formats."""
    if name == "bf16":
        return float(np.array(pattern << 16, np.uint32).view(np.float32))
    return float(np.array(pattern, f"u{FORMATS[name][0] // 8}").view(f"f{FORMATS[name][0] // 8}"))


def rounded(exact: Fraction, name: str) -> int:
    """Return the pattern nearest to a fraction that is not zero, ties to even."""
    bits, precision, lowest = FORMATS[name]
    sign, magnitude = int(exact < 0), abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    unit = max(exponent - precision + 1, lowest)
    scaled = magnitude / Fraction(2) ** unit
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    half = Fraction(rest, scaled.denominator)
    if half > Fraction(1, 2) or (half == Fraction(1, 2) and whole & 1):
        whole += 1
    # Counting units from zero gives the pattern: exponents follow each other without gaps.
    pattern = whole + ((unit - lowest) << precision - 1) if whole >= 1 << precision - 1 else whole
    infinity = (1 << bits - 1) - (1 << precision - 1)
    return sign << bits - 1 | min(pattern, infinity)


def check(got: Array, expected: list[int | None], inputs: list[list[int]]) -> None:
    """Compare bits; None stands for any NaN."""
    for i, (found, wanted) in enumerate(zip(got.tolist(), expected, strict=True)):
        if wanted is not None:
            assert found == wanted, [hex(v[i]) for v in inputs] + [hex(found), hex(wanted)]


def is_nan(pattern: int, name: str) -> bool:
    value = to_float(pattern, name)
    return value != value


@pytest.mark.parametrize("name", FORMATS)
@QUICK
@given(data=st.data())
def test_fma_rounds_once(name: str, data: st.DataObject) -> None:
    inputs = [data.draw(patterns(name)) for _ in range(3)]
    words = [np.array(v, f"u{FORMATS[name][0] // 8}") for v in inputs]
    got = evaluate(f"fma.rn.{name} %out, %in0, %in1, %in2;", words, words[0].dtype.str)
    expected: list[int | None] = []
    for a, b, c in zip(*inputs, strict=True):
        x, y, z = (to_float(p, name) for p in (a, b, c))
        if not all(np.isfinite(v) for v in (x, y, z)):
            with np.errstate(all="ignore"):
                value = float(np.float64(x) * np.float64(y) + np.float64(z))
            finite_nan = value != value
            if finite_nan:
                expected.append(None)
            else:
                assert np.isinf(value)
                bits, precision, _ = FORMATS[name]
                infinity = (1 << bits - 1) - (1 << precision - 1)
                expected.append((1 << bits - 1 if value < 0 else 0) | infinity)
            continue
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        if exact:
            expected.append(rounded(exact, name))
        else:
            negative = (
                (x * y == 0 and z == 0)
                and np.copysign(1, x) * np.copysign(1, y) < 0
                and np.copysign(1, z) < 0
            )
            expected.append(1 << FORMATS[name][0] - 1 if negative else 0)
    check(got, expected, inputs)


def test_fma_f32_at_a_tie_that_two_roundings_miss() -> None:
    """The sum lies just beside a tie of f32, by less than f64 can hold."""
    a = np.array([1 + 2.0**-12, 1 + 2.0**-23], np.float32)
    b = np.array([1 + 2.0**-12, 1 + 2.0**-23], np.float32)
    c = np.array([2.0**-60, 2.0**25], np.float32)
    got = evaluate("fma.rn.f32 %out, %in0, %in1, %in2;", [a, b, c], "f4")
    for i in range(2):
        exact = Fraction(float(a[i])) * Fraction(float(b[i])) + Fraction(float(c[i]))
        assert int(got.view(np.uint32)[i]) == rounded(exact, "f32")


OPERATIONS = {
    "add.rn": lambda x, y: x + y,
    "sub.rn": lambda x, y: x - y,
    "mul.rn": lambda x, y: x * y,
    "div.rn": lambda x, y: x / y,
}


@pytest.mark.parametrize(
    ("opcode", "name"),
    [(o, n) for o in OPERATIONS for n in FORMATS if o != "div.rn" or n in ("f32", "f64")],
)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_arithmetic_is_exactly_rounded(opcode: str, name: str, data: st.DataObject) -> None:
    inputs = [data.draw(patterns(name)) for _ in range(2)]
    words = [np.array(v, f"u{FORMATS[name][0] // 8}") for v in inputs]
    got = evaluate(f"{opcode}.{name} %out, %in0, %in1;", words, words[0].dtype.str)
    expected: list[int | None] = []
    for a, b in zip(*inputs, strict=True):
        x, y = to_float(a, name), to_float(b, name)
        finite = np.isfinite(x) and np.isfinite(y) and not (opcode == "div.rn" and y == 0)
        exact = OPERATIONS[opcode](Fraction(x), Fraction(y)) if finite else Fraction(0)
        expected.append(rounded(exact, name) if exact else None)
    check(got, expected, inputs)


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_roots_and_reciprocals(name: str) -> None:
    rng = np.random.default_rng(2)
    x = np.abs(rng.standard_normal(200) * 10.0 ** rng.integers(-30, 30, 200)).astype(
        f"f{int(name[1:]) // 8}"
    )
    got = evaluate(f"rcp.rn.{name} %out, %in0;", [x], x.dtype.str)
    for value, found in zip(x, got.view(f"u{x.itemsize}"), strict=True):
        assert int(found) == rounded(1 / Fraction(float(value)), name)
    got = evaluate(f"sqrt.rn.{name} %out, %in0;", [x], x.dtype.str)
    up, down = np.nextafter(got, np.inf), np.nextafter(got, -np.inf)
    for value, low, middle, high in zip(x, down, got, up, strict=True):
        exact = Fraction(float(value))
        below, above = (
            (Fraction(float(low)) + Fraction(float(middle))) / 2,
            (Fraction(float(high)) + Fraction(float(middle))) / 2,
        )
        assert below**2 <= exact <= above**2


@pytest.mark.parametrize("opcode", ["add", "mul", "fma", "div"])
@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_directed_rounding_brackets_the_exact_value(opcode: str, mode: str) -> None:
    rng = np.random.default_rng(3)
    x, y, z = (rng.standard_normal(60).astype(np.float32) for _ in range(3))
    inputs = [x, y, z] if opcode == "fma" else [x, y]
    names = ", ".join(f"%in{i}" for i in range(len(inputs)))
    got = evaluate(f"{opcode}.{mode}.f32 %out, {names};", inputs, "f4")
    exact_of = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b}
    for i, found in enumerate(got):
        values = [Fraction(float(v[i])) for v in inputs]
        exact = values[0] * values[1] + values[2] if opcode == "fma" else exact_of[opcode](*values)
        down = mode == "rm" or (mode == "rz" and exact > 0)
        other = np.nextafter(found, np.float32(np.inf if down else -np.inf))
        low, high = (found, other) if down else (other, found)
        assert Fraction(float(low)) <= exact <= Fraction(float(high))


def test_subnormals_stay_unless_flushed() -> None:
    x = np.array([1, 0x80000001, 0x007FFFFF, 0x00800000], np.uint32).view(np.float32)
    zero = np.zeros(4, np.float32)
    zero[1] = -0.0
    kept = evaluate("add.rn.f32 %out, %in0, %in1;", [x, zero], "u4")
    assert kept.tolist() == x.view(np.uint32).tolist()
    flushed = evaluate("add.rn.ftz.f32 %out, %in0, %in1;", [x, zero], "u4")
    assert flushed.tolist() == [0, 0x80000000, 0, 0x00800000]


def test_nan_results_have_the_bits_of_the_hardware() -> None:
    x = np.array([np.inf, np.nan, -np.nan], np.float32)
    y = np.array([-np.inf, 1, 1], np.float32)
    assert evaluate("add.rn.f32 %out, %in0, %in1;", [x, y], "u4").tolist() == [0x7FFFFFFF] * 3


def test_minimum_and_maximum_of_nan_and_zeros() -> None:
    nan, inf = np.nan, np.inf
    x = np.array([nan, 1, nan, 0.0, -0.0, inf, -3], np.float32)
    y = np.array([1, nan, nan, -0.0, 0.0, 2, -inf], np.float32)
    low = evaluate("min.f32 %out, %in0, %in1;", [x, y], "f4")
    high = evaluate("max.f32 %out, %in0, %in1;", [x, y], "f4")
    np.testing.assert_array_equal(low, [1, 1, nan, 0, 0, 2, -inf])
    np.testing.assert_array_equal(high, [1, 1, nan, 0, 0, inf, -3])
    assert np.signbit(low[3:5]).all()
    assert not np.signbit(high[3:5]).any()
    low = evaluate("min.NaN.f32 %out, %in0, %in1;", [x, y], "f4")
    np.testing.assert_array_equal(low, [nan, nan, nan, 0, 0, 2, -inf])
    crossed = evaluate("max.xorsign.abs.f32 %out, %in0, %in1;", [x, y], "f4")
    np.testing.assert_array_equal(crossed[5:], [inf, inf])


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_narrow_minimum_and_sign(name: str) -> None:
    bits = np.array(special(name), np.uint16)
    other = bits[::-1].copy()
    got = evaluate(f"min.NaN.{name} %out, %in0, %in1;", [bits, other], "u2")
    for a, b, found in zip(bits.tolist(), other.tolist(), got.tolist(), strict=True):
        x, y = to_float(a, name), to_float(b, name)
        if x != x or y != y:
            assert found == 0x7FFF
        else:
            assert to_float(found, name) == min(x, y)
    got = evaluate(f"neg.{name} %out, %in0;", [bits], "u2")
    np.testing.assert_array_equal(got, bits ^ 0x8000)
    got = evaluate(f"abs.{name} %out, %in0;", [bits], "u2")
    np.testing.assert_array_equal(got, bits & 0x7FFF)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_packed_arithmetic_is_that_of_its_halves(name: str) -> None:
    rng = np.random.default_rng(4)
    pairs = [rng.integers(0, 1 << 15, (64, 2)).astype(np.uint16) for _ in range(3)]
    for opcode, count in (("add.rn", 2), ("mul.rn", 2), ("fma.rn", 3), ("max", 2)):
        names = ", ".join(f"%in{i}" for i in range(count))
        packed = [p.view(np.uint32).reshape(-1) for p in pairs[:count]]
        got = evaluate(f"{opcode}.{name}x2 %out, {names};", packed, "u4").view(np.uint16)
        halves = [p.reshape(-1) for p in pairs[:count]]
        expected = evaluate(f"{opcode}.{name} %out, {names};", halves, "u2")
        np.testing.assert_array_equal(got, expected)


def test_relu_and_saturation() -> None:
    x = np.array([-2, -0.5, 0.25, 3, np.nan], np.float32)
    one = np.ones(5, np.float32)
    got = evaluate("mul.rn.sat.f32 %out, %in0, %in1;", [x, one], "f4")
    np.testing.assert_array_equal(got, [0, 0, 0.25, 1, 0])
    h = x.astype(np.float16)
    zero = np.zeros(5, np.float16)
    got = evaluate(
        "fma.rn.relu.f16 %out, %in0, %in1, %in2;", [h, one.astype(np.float16), zero], "f2"
    )
    np.testing.assert_array_equal(got[:4], [0, 0, 0.25, 3])


APPROXIMATE: dict[str, Callable[[Array], Array]] = {
    "ex2.approx.f32": np.exp2,
    "lg2.approx.f32": np.log2,
    "rcp.approx.ftz.f32": lambda x: 1 / x,
    "rsqrt.approx.f32": lambda x: 1 / np.sqrt(x),
    "sqrt.approx.f32": np.sqrt,
    "sin.approx.f32": np.sin,
    "cos.approx.f32": np.cos,
    "tanh.approx.f32": np.tanh,
}


@pytest.mark.parametrize("opcode", APPROXIMATE)
def test_approximations_are_close(opcode: str) -> None:
    x = np.random.default_rng(5).uniform(0.1, 3, 200).astype(np.float32)
    got = evaluate(f"{opcode} %out, %in0;", [x], "f4")
    np.testing.assert_allclose(
        got, APPROXIMATE[opcode](x.astype(np.float64)), **bounds("f32 few roundings")
    )


@pytest.mark.parametrize("opcode", ["div.full.f32", "div.approx.f32"])
def test_approximate_division(opcode: str) -> None:
    x, y = np.random.default_rng(6).uniform(0.1, 3, (2, 99)).astype(np.float32)
    got = evaluate(f"{opcode} %out, %in0, %in1;", [x, y], "f4")
    np.testing.assert_allclose(got, x / y, **bounds("f32 few roundings"))


def test_copysign_takes_the_sign_of_the_first() -> None:
    x, y = np.array([-1, 2, -0.0], np.float32), np.array([5, -6, 7], np.float32)
    got = evaluate("copysign.f32 %out, %in0, %in1;", [x, y], "f4")
    np.testing.assert_array_equal(got, [-5, 6, -7])


def test_constants_of_every_form() -> None:
    x = np.array([1.5], np.float32)
    got = evaluate("add.rn.f32 %out, %in0, 0f40000000;", [x], "f4")
    assert got.tolist() == [3.5]
    got = evaluate("add.rn.f64 %out, %in0, 0d4000000000000000;", [x.astype(np.float64)], "f8")
    assert got.tolist() == [3.5]


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_mixed_precision_widens_before_it_rounds(name: str) -> None:
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((2, 64)).astype(np.float32)
    c = rng.standard_normal(64).astype(np.float32)
    if name == "f16":
        narrow = [v.astype(np.float16) for v in (a, b)]
        x, y = (v.astype(np.float32) for v in narrow)
    else:
        narrow = [(v.view(np.uint32) >> 16).astype(np.uint16) for v in (a, b)]
        x, y = ((v.astype(np.uint32) << 16).view(np.float32) for v in narrow)
    got = evaluate(f"sub.rn.f32.{name} %out, %in0, %in1;", [narrow[0], c], "f4")
    np.testing.assert_array_equal(got, x - c)
    got = evaluate(f"fma.rn.f32.{name} %out, %in0, %in1, %in2;", [*narrow, c], "f4")
    expected = evaluate("fma.rn.f32 %out, %in0, %in1, %in2;", [x, y, c], "f4")
    np.testing.assert_array_equal(got, expected)


def test_a_qualifier_that_is_not_known_is_refused() -> None:
    x = np.zeros(1, np.float32)
    with pytest.raises(PtxFault, match=r"add\.odd\.f32: \.odd is not known"):
        evaluate("add.odd.f32 %out, %in0, %in0;", [x], "f4")


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_directed_rounding_at_the_borders(mode: str) -> None:
    """Overflow stops at the largest number on one side; a cancelled sum is -0 rounding down."""
    largest = np.finfo(np.float32).max
    x = np.array([largest, -largest, 1, 4], np.float32)
    y = np.array([largest, -largest, -1, 0], np.float32)
    got = evaluate(f"add.{mode}.f32 %out, %in0, %in1;", [x, y], "f4")
    assert got[0] == (np.inf if mode == "rp" else largest)
    assert got[1] == (-np.inf if mode == "rm" else -largest)
    assert np.signbit(got[2]) == (mode == "rm")
    roots = evaluate(f"sqrt.{mode}.f32 %out, %in0;", [np.array([2, 4], np.float32)], "f4")
    exact = np.sqrt(np.float64(2))
    assert roots[1] == 2
    assert roots[0] < exact if mode != "rp" else roots[0] > exact
