"""dot, ragged-dot, scaled-dot, convolution: shapes, wrapping, dilation, groups."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hloc.errors import HloError
from tests.tolerance import bounds
from tests.unit.ops.programs import f32, run, s32

RNG = np.random.default_rng(1)


def test_dot_orders_batch_then_free_dimensions() -> None:
    x = RNG.standard_normal((2, 4, 3)).astype(np.float32)
    y = RNG.standard_normal((5, 3, 4)).astype(np.float32)
    (result,) = run(
        "x = f32[2,4,3] parameter(0) y = f32[5,3,4] parameter(1) ROOT d = dot(x, y), "
        "lhs_batch_dims={1}, rhs_batch_dims={2}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        x,
        y,
    )
    np.testing.assert_allclose(result, np.einsum("mbk,nkb->bmn", x, y), **bounds("f32 short sum"))


@pytest.mark.parametrize(("dtype", "expected"), [("s8", 32), ("s32", 20000)])
def test_dot_of_small_integers_wraps_in_the_result_type(dtype: str, expected: int) -> None:
    x = np.full((1, 2), 100, np.int8)
    (result,) = run(
        f"x = s8[1,2] parameter(0) y = s8[2,1] parameter(1) ROOT d = {dtype}[1,1] dot(x, y), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        x,
        x.T,
    )
    assert result[0, 0] == expected


def test_dot_of_s32_wraps_beyond_53_bits() -> None:
    x = s32([[2**31 - 1, 2**31 - 1, 12345]])
    (result,) = run(
        "x = s32[1,3] parameter(0) ROOT d = dot(x, x), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        x,
    )
    exact = sum(int(v) ** 2 for v in x[0])
    assert result[0, 0] == (exact + 2**31) % 2**32 - 2**31


def test_dot_of_bf16_accumulates_wider() -> None:
    ones = np.ones((1, 1024), ml_dtypes.bfloat16)
    (result,) = run(
        "x = bf16[1,1024] parameter(0) ROOT d = dot(x, x), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        ones,
    )
    assert float(result[0, 0]) == 1024


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            "lhs_contracting_dims={1}, rhs_contracting_dims={1}",
            r"contracting dimension 1 of f32\[2,3",
        ),
        ("lhs_contracting_dims={1}, rhs_contracting_dims={}", "lhs has 1 contracting"),
        ("lhs_contracting_dims={5}, rhs_contracting_dims={0}", "lhs dimension 5 is out of range"),
        ("lhs_batch_dims={1}, lhs_contracting_dims={1}, rhs_contracting_dims={0}", "twice"),
    ],
)
def test_a_dot_that_does_not_fit_is_refused(attributes: str, message: str) -> None:
    with pytest.raises(HloError, match=message):
        run(f"x = f32[2,3] parameter(0) y = f32[3,4] parameter(1) ROOT d = dot(x, y), {attributes}")


def test_ragged_dot_uses_the_part_of_each_group() -> None:
    x = RNG.standard_normal((5, 3)).astype(np.float32)
    y = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    (result,) = run(
        "x = f32[5,3] parameter(0) y = f32[2,3,4] parameter(1) g = s32[2] parameter(2) "
        "ROOT d = ragged-dot(x, y, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}, rhs_group_dims={0}",
        x,
        y,
        s32([2, 2]),
    )
    expected = np.concatenate([x[:2] @ y[0], x[2:4] @ y[1], np.zeros((1, 4))])
    np.testing.assert_allclose(result, expected, **bounds("f32 short sum"))


def test_ragged_dot_over_a_contracting_dimension_gives_one_matrix_per_group() -> None:
    x = RNG.standard_normal((3, 5)).astype(np.float32)
    y = RNG.standard_normal((5, 2)).astype(np.float32)
    (result,) = run(
        "x = f32[3,5] parameter(0) y = f32[5,2] parameter(1) g = s32[2] parameter(2) "
        "ROOT d = ragged-dot(x, y, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        "lhs_ragged_dims={1}",
        x,
        y,
        s32([1, 3]),
    )
    expected = np.stack([x[:, :1] @ y[:1], x[:, 1:4] @ y[1:4]])
    np.testing.assert_allclose(result, expected, **bounds("f32 short sum"))


def test_scaled_dot_repeats_scales_over_blocks() -> None:
    (result,) = run(
        "x = f32[1,4] parameter(0) y = f32[4,1] parameter(1) a = f32[1,2] parameter(2) "
        "b = f32[] parameter(3) ROOT d = f32[1,1] scaled-dot(x, y, a, b), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        f32([[1, 2, 3, 4]]),
        f32([[1], [1], [1], [1]]),
        f32([[10, 100]]),
        f32(2),
    )
    assert result[0, 0] == 2 * (10 * 3 + 100 * 7)


def naive_convolution(
    x: Any, k: Any, stride: int, low: int, high: int, base: int, dilation: int, reverse: bool
) -> list[float]:
    """Return a convolution of two vectors, written as the reference says."""
    size = (len(x) - 1) * base + 1 + low + high - ((len(k) - 1) * dilation + 1)
    out = []
    for o in range(size // stride + 1 if size >= 0 else 0):
        total = 0.0
        for w in range(len(k)):
            at = o * stride - low + w * dilation
            if at % base == 0 and 0 <= at // base < len(x):
                total += x[at // base] * k[len(k) - 1 - w if reverse else w]
        out.append(total)
    return out


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", [(0, 0), (2, 1), (-1, 2)])
@pytest.mark.parametrize("base", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kernel", [1, 3, 6])
def test_convolution_agrees_with_the_definition(
    stride: int, padding: tuple[int, int], base: int, dilation: int, reverse: bool, kernel: int
) -> None:
    x, k = f32(RNG.integers(-4, 5, 7)), f32(RNG.integers(-4, 5, kernel))
    low, high = padding
    expected = naive_convolution(x, k, stride, low, high, base, dilation, reverse)
    (result,) = run(
        f"x = f32[1,1,7] parameter(0) k = f32[1,1,{kernel}] parameter(1) ROOT c = "
        f"convolution(x, k), window={{size={kernel} stride={stride} pad={low}_{high} "
        f"lhs_dilate={base} rhs_dilate={dilation} rhs_reversal={int(reverse)}}}, "
        "dim_labels=bf0_oi0->bf0",
        x[None, None],
        k[None, None],
    )
    assert result.reshape(-1).tolist() == expected


def test_feature_groups_see_only_their_features() -> None:
    x = f32([[[1.0], [10.0]]])
    (result,) = run(
        "x = f32[1,2,1] parameter(0) k = f32[4,1,1] parameter(1) ROOT c = convolution(x, k), "
        "window={size=1}, dim_labels=bf0_oi0->bf0, feature_group_count=2",
        x,
        f32([[[1]], [[2]], [[3]], [[4]]]),
    )
    assert result.reshape(-1).tolist() == [1, 2, 30, 40]


def test_batch_groups_go_to_their_output_features() -> None:
    (result,) = run(
        "x = f32[2,1,1] parameter(0) k = f32[4,1,1] parameter(1) ROOT c = convolution(x, k), "
        "window={size=1}, dim_labels=bf0_oi0->bf0, batch_group_count=2",
        f32([[[1]], [[10]]]),
        f32([[[1]], [[2]], [[3]], [[4]]]),
    )
    assert result.reshape(-1).tolist() == [1, 2, 30, 40]


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("window={size=2}, dim_labels=bf0_oi0->bf0", "window has size 2, but dimension 2"),
        ("window={size=3}, dim_labels=bf0_io0->bf0", "3 input features do not match 2"),
        ("window={size=3}, dim_labels=bf0_oi0->bf0, feature_group_count=0", "at least 1"),
        ("window={size=3 stride=0}, dim_labels=bf0_oi0->bf0", "stride 0"),
        ("window={size=3x3}, dim_labels=bf01_oi01->bf01", "operand 0 must have rank 4"),
    ],
)
def test_a_convolution_that_does_not_fit_is_refused(rest: str, message: str) -> None:
    with pytest.raises(HloError, match=message):
        run(
            "x = f32[1,3,8] parameter(0) k = f32[2,3,3] parameter(1) "
            f"ROOT c = convolution(x, k), {rest}"
        )


def test_mixed_types_take_the_more_precise_one() -> None:
    (result,) = run(
        "x = s4[1,2] parameter(0) y = bf16[2,1] parameter(1) ROOT d = dot(x, y), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        np.array([[-8, 7]], ml_dtypes.int4),
        np.array([[0.5], [2]], ml_dtypes.bfloat16),
    )
    assert result.dtype == ml_dtypes.bfloat16
    assert float(result[0, 0]) == 10


@pytest.mark.parametrize(("window", "positions"), [("size=1", 7), ("size=7", 1)])
def test_a_convolution_without_input_features_is_zero(window: str, positions: int) -> None:
    (result,) = run(
        f"x = f32[2,7,0] parameter(0) y = f32[{8 - positions},0,3] parameter(1) "
        f"ROOT c = convolution(x, y), window={{{window}}}, dim_labels=b0f_0io->b0f",
        np.empty((2, 7, 0), np.float32),
        np.empty((8 - positions, 0, 3), np.float32),
    )
    np.testing.assert_array_equal(result, np.zeros((2, positions, 3), np.float32))
