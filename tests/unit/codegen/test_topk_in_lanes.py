"""The first elements of short rows: a row in each lane of a vector."""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc.codegen.cpu.cpu_plan import CpuPlan
from hloc.codegen.cpu.kernel import plan_kernel
from hloc.codegen.llvm.target import target_for
from tests.unit.codegen.harness import check_root, module_text, parse_text, random_arrays

AVX2 = target_for("x86_64", "haswell")


def topk(rows: str, size: int, count: int, dtype: str = "f32", largest: bool = True) -> str:
    kept = f"[{rows},{count}]"
    order = f"k={count}, largest={str(largest).lower()}"
    return module_text([f"{dtype}[{rows},{size}]"], f"({dtype}{kept}, s32{kept}) topk(p0), {order}")


def has_rows_in_lanes(text: str) -> bool:
    planned = plan_kernel(parse_text(text).entry.root)
    assert planned is not None
    assert isinstance(planned.plan, CpuPlan)
    return planned.plan.rows_in_lanes(AVX2) is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (topk("40", 8, 2), True),
        (topk("8", 8, 2), False),  # no more rows than lanes
        (topk("2,40", 8, 2), True),
        (topk("40", 64, 8), True),
        (topk("40", 64, 9), False),
        (topk("40", 4096, 4), True),
        (topk("40", 257, 5), False),
        (topk("40", 4097, 1), False),
        (topk("40", 8, 2, "bf16"), True),
        (topk("40", 8, 2, "f64"), False),
        (topk("40", 8, 2, "u32"), False),
    ],
)
def test_few_elements_are_found_in_lanes(text: str, expected: bool) -> None:
    assert has_rows_in_lanes(text) == expected


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize(("rows", "size"), [("37", 2), ("40", 9), ("3,21", 33)])
@pytest.mark.parametrize("count", [1, 2, 5, 8])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "s32"])
def test_elements_and_places(rows: str, size: int, count: int, dtype: str, pieces: int) -> None:
    """Of equal elements the first comes first; random integers have many."""
    for largest in (True, False):
        text = topk(rows, size, min(count, size), dtype, largest)
        check_root(text, random_arrays(text), pieces=pieces, rtol=0, atol=0)


@pytest.mark.parametrize("largest", [True, False])
def test_numbers_in_their_total_order(largest: bool) -> None:
    """NaNs of both signs, infinities, zeros of both signs, subnormals."""
    numbers = np.array(
        [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1.0, 1.0], np.float32
    )
    rng = np.random.default_rng(0)
    rows = numbers[rng.integers(0, len(numbers), (64, 6))]
    rows[0] = np.uint32(0xFFFFFFFF).view(np.float32)  # the very first or last number
    rows[1, :3] = np.uint32(0x7FFFFFFF).view(np.float32)
    text = topk("64", 6, 4, largest=largest)
    assert has_rows_in_lanes(text)
    values, places = hloc.compile(text)(rows)
    wanted, at = hloc.evaluate(text, rows)
    np.testing.assert_array_equal(values.view(np.uint32), wanted.view(np.uint32))
    np.testing.assert_array_equal(places, at)


@pytest.mark.parametrize("threads", [1, 3])
def test_long_rows_in_a_program(threads: int) -> None:
    """Scratch memory is reserved for the routine, which is not called."""
    text = topk("40", 4000, 2)
    (rows,) = random_arrays(text)
    values, places = hloc.compile(text, threads=threads)(rows)
    np.testing.assert_array_equal(places, np.argsort(-rows, axis=1, kind="stable")[:, :2])
    np.testing.assert_array_equal(values, np.take_along_axis(rows, places, axis=1))
