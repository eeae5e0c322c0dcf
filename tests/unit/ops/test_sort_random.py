"""sort by any comparator, topk by total order, random bits as XLA gives them.

Random vectors were measured with XLA (system reference, 4.3).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hloc.errors import HloError, UnsupportedError
from hloc.ops.ordering import stable_order, total_order_key
from tests.unit.ops.programs import f32, run

PAIR = (
    "{ a = f32[] parameter(0) b = f32[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3) "
)
SORT = (
    "x = f32[{0}] parameter(0) n = s32[{0}] iota(), iota_dimension=0 "
    "ROOT s = sort(x, n), dimensions={{0}}, is_stable=true, to_apply=f"
)
COMPARATORS = {
    "less": "ROOT r = pred[] compare(a, b), direction=LT }",
    "greater by swapped operands": "ROOT r = pred[] compare(b, a), direction=LT }",
    "less, ties by larger index": (
        "p = pred[] compare(a, b), direction=LT q = pred[] compare(b, a), direction=LT "
        "e = pred[] compare(p, q), direction=EQ k = pred[] compare(i, j), direction=GT "
        "ROOT r = pred[] select(e, k, p) }"
    ),
    "less, ties by larger index, with or": (
        "p = pred[] compare(a, b), direction=LT e = pred[] compare(a, b), direction=EQ "
        "k = pred[] compare(i, j), direction=GT h = pred[] and(e, k) ROOT r = pred[] or(p, h) }"
    ),
    "by square": (
        "x = f32[] multiply(a, a) y = f32[] multiply(b, b) "
        "ROOT r = pred[] compare(x, y), direction=GT }"
    ),
    "not one of keys": (
        "z = f32[] constant(2) p = pred[] compare(a, z), direction=LT "
        "q = pred[] compare(b, z), direction=LT s = pred[] compare(p, q), direction=EQ "
        "l = pred[] compare(a, b), direction=LT ROOT r = pred[] select(s, l, p) }"
    ),
}
KEYS: dict[str, Callable[[int, int], tuple[Any, ...]]] = {
    "less": lambda x, n: (x,),
    "greater by swapped operands": lambda x, n: (-x,),
    "less, ties by larger index": lambda x, n: (x, -n),
    "less, ties by larger index, with or": lambda x, n: (x, -n),
    "by square": lambda x, n: (-x * x,),
    "not one of keys": lambda x, n: (x >= 2, x),
}


@pytest.mark.parametrize("name", COMPARATORS)
@settings(max_examples=15, deadline=None)
@given(values=st.lists(st.integers(-3, 5), min_size=1, max_size=40))
def test_sort_is_stable_for_any_comparator(name: str, values: list[int]) -> None:
    numbers, order = run(
        SORT.format(len(values)), f32(values), called=f"f {PAIR}{COMPARATORS[name]}"
    )
    expected = sorted(range(len(values)), key=lambda n: KEYS[name](values[n], n))
    assert order.tolist() == expected
    assert numbers.tolist() == [values[n] for n in expected]


def test_sort_by_total_order_places_nan_and_zeros() -> None:
    called = f"f {PAIR}ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER }}"
    x = f32([np.nan, 0.0, -0.0, -np.nan, np.inf, -np.inf])
    _, order = run(SORT.format(6), x, called=called)
    assert order.tolist() == [3, 5, 2, 1, 4, 0]


def test_sort_with_nan_and_a_comparator_that_is_no_order_keeps_all_elements() -> None:
    x = f32([2, 1, np.nan, 1, 2, 0, -0.0, 0])
    numbers, order = run(SORT.format(8), x, called=f"f {PAIR}{COMPARATORS['less']}")
    assert sorted(order.tolist()) == list(range(8))
    np.testing.assert_array_equal(numbers, x[order])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=40),
    st.integers(0, 2**64 - 1),
)
def test_merging_by_a_random_relation_gives_a_permutation(values: list[int], bits: int) -> None:
    relation = np.array([(bits >> n) & 1 for n in range(64)], bool).reshape(8, 8)
    column = np.array([values])
    order = stable_order((column,), lambda a, b: relation[a[0], b[0]])
    assert sorted(order[0].tolist()) == list(range(len(values)))


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=2, max_size=2))
def test_total_order_agrees_with_less_than(pair: list[float]) -> None:
    x, y = f32(pair)
    a, b = total_order_key(f32(pair))
    if x < y:
        assert a < b
    if x == y == 0:
        assert (a < b) == (np.signbit(x) > np.signbit(y))


@pytest.mark.parametrize(
    ("largest", "values", "indices"),
    [("true", ["nan", "5", "5"], [4, 1, 2]), ("false", ["-0", "0", "1"], [5, 6, 3])],
)
def test_topk_takes_nan_as_largest_and_ties_by_index(
    largest: str, values: list[str], indices: list[int]
) -> None:
    x = f32([2, 5, 5, 1, np.nan, -0.0, 0, 5])
    found, order = run(f"x = f32[8] parameter(0) ROOT t = topk(x), k=3, largest={largest}", x)
    assert order.tolist() == indices
    np.testing.assert_array_equal(found, f32([float(v) for v in values]))


BITS = [
    ("rng_three_fry", [1, 2], "u32[5]", [1, 5],
     [43444564, 2150618427, 3979645651, 3745730563, 1672743891]),
    ("rng_three_fry", [1, 2], "u64[3]", [1, 5],
     [9236835810183407956, 16087790271692313299, 18212823393184779219]),
    ("rng_three_fry", [1, 2], "u16[4]", [1, 4], [59732, 54587, 37587, 20483]),
    ("rng_three_fry", [1, 2], "u8[4]", [1, 4], [84, 59, 211, 3]),
    ("rng_philox", [1, 2], "u32[5]", [1, 4],
     [2100602697, 2847456232, 2074354647, 800269529, 1828267006]),
    ("rng_default", [1, 2], "u64[3]", [1, 4],
     [12229731395331991369, 3437131457114678231, 13465615291114923006]),
    ("rng_philox", [1, 2], "u16[4]", [1, 3], [42825, 48104, 9175, 9433]),
    ("rng_philox", [1, 2, 3], "u32[5]", [1, 4, 3],
     [4031113034, 1366700262, 495645701, 3051723414, 89414891]),
    ("rng_philox", [1, 2, 3], "u64[3]", [1, 4, 3],
     [5869932932755744586, 13107052260063114245, 8234580641674714347]),
    ("rng_philox", [1, 2, 3], "u8[4]", [1, 3, 3], [74, 230, 5, 150]),
]  # fmt: skip


@pytest.mark.parametrize(("algorithm", "state", "shape", "after", "bits"), BITS)
def test_random_bits_are_those_of_xla(
    algorithm: str, state: list[int], shape: str, after: list[int], bits: list[int]
) -> None:
    n = len(state)
    new, found = run(
        f"s = u64[{n}] parameter(0) ROOT r = (u64[{n}], {shape}) rng-bit-generator(s), "
        f"algorithm={algorithm}",
        np.array(state, np.uint64),
    )
    assert new.tolist() == after
    assert found.tolist() == bits


def test_philox_carries_into_the_high_word() -> None:
    new, _ = run(
        "s = u64[3] parameter(0) ROOT r = (u64[3], u32[8]) rng-bit-generator(s), "
        "algorithm=rng_philox",
        np.array([1, 2**64 - 1, 5], np.uint64),
    )
    assert new.tolist() == [1, 1, 6]


def test_random_bits_of_a_scalar_and_an_odd_matrix_have_their_shapes() -> None:
    for shape in ("u32[]", "u64[]", "u32[3,5]", "f32[2,2]"):
        for algorithm in ("rng_three_fry", "rng_philox"):
            _, bits = run(
                f"s = u64[2] parameter(0) ROOT r = (u64[2], {shape}) rng-bit-generator(s), "
                f"algorithm={algorithm}",
                np.array([1, 2], np.uint64),
            )
            assert bits.shape == {"u32[3,5]": (3, 5), "f32[2,2]": (2, 2)}.get(shape, ())


def test_random_bits_may_be_asked_for_without_the_state() -> None:
    algorithm, state, shape, _, bits = BITS[0]
    (found,) = run(
        f"s = u64[2] parameter(0) ROOT r = {shape} rng-bit-generator(s), algorithm={algorithm}",
        np.array(state, np.uint64),
    )
    assert found.tolist() == bits


def test_a_state_of_another_shape_is_unsupported() -> None:
    with pytest.raises(UnsupportedError, match=r"must be u64\[2\], but is u32\[4\]"):
        run(
            "s = u32[4] parameter(0) ROOT r = (u32[4], u32[5]) rng-bit-generator(s), "
            "algorithm=rng_three_fry",
            np.zeros(4, np.uint32),
        )


def test_rng_stays_in_its_range() -> None:
    (floats,) = run(
        "a = f32[] constant(2) b = f32[] constant(3) "
        "ROOT r = f32[1000] rng(a, b), distribution=rng_uniform"
    )
    assert ((floats >= 2) & (floats < 3)).all()
    assert floats.std() > 0.2
    (integers,) = run(
        "a = s32[] constant(-1) b = s32[] constant(2) "
        "ROOT r = s32[100] rng(a, b), distribution=rng_uniform"
    )
    assert set(integers.tolist()) == {-1, 0, 1}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("s = sort(x), dimensions={1}, to_apply=f", "dimension 1 is out of range"),
        ("s = sort(x, x), dimensions={0}, to_apply=f", "takes 2 parameters, but 4 arguments"),
        ("s = sort(x), dimensions={0}, to_apply=g", r"result of g .* f32\[\].* pred\[\]"),
        ("t = topk(x), k=9", "k is 9, but the last dimension"),
    ],
)
def test_a_wrong_order_is_refused(entry: str, message: str) -> None:
    called = (
        "f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = compare(a, b), direction=LT }\n"
        "g { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = add(a, b) }"
    )
    with pytest.raises(HloError, match=message):
        run(f"x = f32[4] parameter(0) ROOT {entry}", f32(range(4)), called=called)
