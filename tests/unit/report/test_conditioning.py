"""Whether a difference is rounding: what made it, its condition, and how far roundings go."""

from typing import Any

import numpy as np
import pytest

import hloc
from hloc.report.compare import Bounds, compare, steps_apart, ulps_apart
from hloc.report.conditioning import Conditioning, conditioning, conditioning_of
from hloc.report.conditioning_text import conditioning_data, conditioning_lines

Array = np.ndarray[Any, np.dtype[Any]]

SUM = """HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY e {
  x = f32[3,64] parameter(0)
  zero = f32[] constant(0)
  ROOT sum = f32[3] reduce(x, zero), dimensions={1}, to_apply=add
}
"""


def unary(line: str) -> str:
    return f"HloModule m\n\nENTRY e {{\n  x = f32[2] parameter(0)\n  {line}\n}}\n"


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


def made(text: str, inputs: list[Array], factor: Any = 1.0) -> list[Conditioning]:
    """Return what made the results of the evaluator, of which one is off by `factor`."""
    module = hloc.parse(text)
    want = hloc.evaluate(module, *inputs)
    return conditioning(module, inputs, [(w * factor).astype(w.dtype) for w in want], want)


def cancelling() -> Array:
    """Return three rows of addends; those of the second cancel to about 1e-6."""
    x = np.random.default_rng(0).random((3, 64), np.float32)
    x[1, 32:] = -x[1, :32]
    x[1, 0] += np.float32(1e-6)
    return x


def test_the_condition_of_a_sum_is_that_of_its_addends() -> None:
    x = cancelling()
    (found,) = made(SUM, [x], np.array([1, 1.01, 1]))
    exact = x[1].astype(np.float64)
    assert found.distance.index == (1,)
    assert (found.instruction, found.opcode) == ("sum", "reduce")
    assert found.condition == pytest.approx(np.abs(exact).sum() / abs(exact.sum()))
    assert found.is_rounding


def test_an_error_of_a_well_conditioned_sum_is_not_rounding() -> None:
    """The cancelling row is further off in ulp; the one that nothing explains is named."""
    (found,) = made(SUM, [cancelling()], np.array([1, 1.01, 1.0001]))
    assert found.distance.index == (2,)
    assert found.condition == pytest.approx(1.0)
    assert not found.is_rounding


@pytest.mark.parametrize(
    ("line", "x", "condition"),
    [
        ("ROOT r = f32[2] cosine(x)", 1.5707, 1.5707 * np.tan(1.5707)),
        ("ROOT r = f32[2] log(x)", 1.0001, 1 / np.log(1.0001)),
        ("ROOT r = f32[2] exponential(x)", 20.0, 20.0),
        ("ROOT r = f32[2] sqrt(x)", 5.0, 0.5),
        ("ROOT r = f32[2] multiply(x, x)", 3.3, 2.0),
    ],
)
def test_the_condition_of_an_elementwise_function(line: str, x: float, condition: float) -> None:
    (found,) = made(unary(line), [f32(x, 2.0)], np.array([1 + 1e-6, 1]))
    assert found.condition == pytest.approx(condition, rel=1e-2)  # x is rounded to f32


def test_the_condition_of_a_dot_counts_the_products() -> None:
    text = unary(
        "y = f32[2] parameter(1)\n  ROOT d = f32[] dot(x, y), "
        "lhs_contracting_dims={0}, rhs_contracting_dims={0}"
    )
    (found,) = made(text, [f32(3, 1), f32(1, -2.5)])
    assert found.condition == pytest.approx(5.5 / 0.5)


def test_roundings_before_the_last_instruction_count() -> None:
    """A product has condition 2; what made its operand cancels all digits."""
    text = unary("e = f32[2] exponential(x)\n  l = f32[2] log(e)\n  s = f32[2] subtract(l, x)\n"
                 "  ROOT r = f32[2] multiply(s, x)")  # fmt: skip
    (found,) = made(text, [f32(0.1, 0.7)], np.array([1.5, 1]))
    assert found.opcode == "multiply"
    assert found.spread > 1e5
    assert found.is_rounding


def test_the_maker_is_found_behind_tuples_and_reshapes() -> None:
    text = unary("s = f32[2] sine(x)\n  y = f32[2,1] reshape(s)\n"
                 "  ROOT r = (f32[2], f32[2,1]) tuple(x, y)")  # fmt: skip
    first, second = made(text, [f32(3.14159, 1.0)])
    assert first.opcode == "parameter"
    assert (second.instruction, second.distance.place) == ("s", "out1[0,0]")


def test_a_number_that_became_nan_is_not_rounding() -> None:
    (found,) = made(unary("ROOT r = f32[2] sqrt(x)"), [f32(4, 9)], np.array([np.nan, 1]))
    assert not found.is_rounding
    assert "a number and none" in conditioning_lines([found])[0]
    assert conditioning_data([found])[0]["ulp"] == "inf"


def test_small_differences_and_integers_are_not_explained() -> None:
    module = hloc.parse(unary("ROOT r = f32[2] negate(x)"))
    x, want = [f32(1, 2)], [f32(-1, -2)]
    same = compare(want, want, Bounds())
    assert conditioning_of(same, module, x, want, want) == []
    text = "HloModule m\n\nENTRY e {\n  ROOT x = s32[2] parameter(0)\n}\n"
    numbers = [np.array([1, 2], np.int32)]
    assert conditioning(hloc.parse(text), numbers, numbers, numbers) == []


def test_lines_and_data_say_the_same() -> None:
    (found,) = made(SUM, [cancelling()], np.array([1, 1, 1.0001]))
    (line,), (data,) = conditioning_lines([found]), conditioning_data([found])
    assert line.startswith(f"  out0[2]: {data['is']} and {data['expected']}, ")
    assert "made by reduce %sum, condition 1, roundings move it by" in line
    assert line.endswith(": more than rounding")
    assert data["rounding"] is False


def test_steps_are_those_of_the_wanted_element() -> None:
    one = np.nextafter(np.float32(1), np.float32(2))
    pair = f32(one, np.inf, np.nan, np.nan), f32(1, 1, np.nan, 1)
    for measure in (steps_apart, ulps_apart):
        np.testing.assert_array_equal(measure(*pair), [1, np.inf, 0, np.inf])


def test_an_ulp_is_no_less_than_one_of_a_thousandth_of_the_largest() -> None:
    """All that is told is told in ulp: the line of an output, and the largest error above it."""
    got, want = f32(1, 0.75 * 2**-20), f32(1, 2**-20)
    np.testing.assert_array_equal(ulps_apart(got, want), [0, 2**11])
    np.testing.assert_array_equal(steps_apart(got, want), [0, 2**21])
    assert compare([got], [want], Bounds()).max_ulp == 2**11
    text = unary("ROOT r = f32[2] negate(x)")
    (found,) = conditioning(hloc.parse(text), [-want], [got], [want])
    assert (found.distance.ulp, found.distance.steps) == (2**11, 2**21)
    assert found.spread_ulp == found.spread * 2**-10
    assert conditioning_data([found])[0]["ulp"] == 2**11
