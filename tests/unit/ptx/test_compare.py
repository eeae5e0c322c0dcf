"""Comparisons and selections, NaN and both predicates included."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.unit.ptx.ptx_running import Array, evaluate

NAN = float("nan")
X = np.array([1, 2, 2, NAN, 1, NAN, -0.0, np.inf], np.float32)
Y = np.array([2, 1, 2, 1, NAN, NAN, 0.0, np.inf], np.float32)
ORDERED: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def unordered(x: Array, y: Array) -> Array:
    return np.asarray(np.isnan(x) | np.isnan(y))


def compared(opcode: str, x: Array, y: Array) -> Array:
    body = f"setp.{opcode} %p0, %in0, %in1; selp.u32 %out, 1, 0, %p0;"
    return evaluate(body, [x, y], "u4").astype(bool)


@pytest.mark.parametrize("name", ORDERED)
@pytest.mark.parametrize("type_name", ["f32", "f64", "f16", "bf16"])
def test_ordered_is_false_for_nan_and_unordered_true(name: str, type_name: str) -> None:
    dtypes = {"f32": np.float32, "f64": np.float64, "f16": np.float16}
    if type_name == "bf16":
        x, y = ((v.view(np.uint32) >> 16).astype(np.uint16) for v in (X, Y))
    else:
        x, y = X.astype(dtypes[type_name]), Y.astype(dtypes[type_name])
    plain = ORDERED[name](X, Y)
    np.testing.assert_array_equal(compared(f"{name}.{type_name}", x, y), plain & ~unordered(X, Y))
    np.testing.assert_array_equal(compared(f"{name}u.{type_name}", x, y), plain | unordered(X, Y))


def test_number_tests() -> None:
    np.testing.assert_array_equal(compared("nan.f32", X, Y), unordered(X, Y))
    np.testing.assert_array_equal(compared("num.f32", X, Y), ~unordered(X, Y))
    for kind, function in (
        ("finite", np.isfinite),
        ("infinite", np.isinf),
        ("notanumber", np.isnan),
    ):
        got = evaluate(f"testp.{kind}.f32 %p0, %in0; selp.u32 %out, 1, 0, %p0;", [X], "u4")
        np.testing.assert_array_equal(got.astype(bool), function(X))


@pytest.mark.parametrize("name", [*ORDERED, "lo", "ls", "hi", "hs"])
def test_integers_by_sign(name: str) -> None:
    x = np.array([0, 1, 0xFFFFFFFF, 0x80000000, 5], np.uint32)
    y = np.array([0, 2, 1, 0x7FFFFFFF, 5], np.uint32)
    aliases = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
    function = ORDERED[aliases.get(name, name)]
    np.testing.assert_array_equal(compared(f"{name}.u32", x, y), function(x, y))
    if name in ORDERED:
        signed = function(x.view(np.int32), y.view(np.int32))
        np.testing.assert_array_equal(compared(f"{name}.s32", x, y), signed)


@pytest.mark.parametrize("combine", ["and", "or", "xor"])
def test_second_predicate_is_the_complement(combine: str) -> None:
    function = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}[combine]
    x = np.array([1, 2, 1, 2], np.int32)
    y = np.array([1, 1, 1, 1], np.int32)
    c = np.array([1, 1, 0, 0], np.int32)
    body = (
        "setp.ne.s32 %p2, %in2, 0;\n"
        f"setp.eq.{combine}.s32 %p0|%p1, %in0, %in1, !%p2;\n"
        "selp.u32 %r0, 1, 0, %p0; selp.u32 %r1, 2, 0, %p1; or.b32 %out, %r0, %r1;"
    )
    got = evaluate(body, [x, y, c], "u4")
    first, second = function(x == y, c == 0), function(x != y, c == 0)
    np.testing.assert_array_equal(got, first * 1 + second * 2)


def test_set_gives_ones_or_one() -> None:
    got = evaluate("set.lt.u32.f32 %out, %in0, %in1;", [X, Y], "u4")
    np.testing.assert_array_equal(got, np.where(X < Y, 0xFFFFFFFF, 0))
    got = evaluate("set.lt.f32.f32 %out, %in0, %in1;", [X, Y], "f4")
    np.testing.assert_array_equal(got, np.where(X < Y, 1.0, 0.0))


def test_slct_selects_by_sign() -> None:
    a, b = np.arange(4, dtype=np.int32), np.arange(4, dtype=np.int32) + 10
    got = evaluate(
        "slct.s32.s32 %out, %in0, %in1, %in2;", [a, b, np.array([1, -1, 0, -5], np.int32)], "i4"
    )
    assert got.tolist() == [0, 11, 2, 13]
    c = np.array([NAN, -0.0, -1, 1], np.float32)
    got = evaluate("slct.s32.f32 %out, %in0, %in1, %in2;", [a, b, c], "i4")
    assert got.tolist() == [10, 1, 12, 3]


def test_predicate_logic() -> None:
    x = np.array([0, 1, 2, 3], np.uint32)
    body = (
        "and.b32 %r0, %in0, 1; setp.ne.u32 %p0, %r0, 0; and.b32 %r0, %in0, 2;\n"
        "setp.ne.u32 %p1, %r0, 0; xor.pred %p2, %p0, %p1; not.pred %p3, %p2; mov.pred %p4, %p3;\n"
        "mov.u32 %out, 5; @!%p4 mov.u32 %out, 7;"
    )
    assert evaluate(body, [x], "u4").tolist() == [5, 7, 7, 5]


def test_packed_comparison_has_a_predicate_per_half() -> None:
    x = np.array([[1, 2], [3, np.nan]], np.float16).view(np.uint32).reshape(-1)
    y = np.array([[2, 1], [1, 1]], np.float16).view(np.uint32).reshape(-1)
    body = (
        "setp.lt.f16x2 %p0|%p1, %in0, %in1; selp.u32 %out, 1, 0, %p0; @%p1 add.u32 %out, %out, 2;"
    )
    assert evaluate(body, [x, y], "u4").tolist() == [1, 0]
