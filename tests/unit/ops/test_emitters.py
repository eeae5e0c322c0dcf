"""Emitter and evaluator of every elementwise row agree, on every element type, also at the edges.

They are written on their own: the evaluator with NumPy, the emitter against `ScalarBuilder`, which
here computes with NumPy too but checks the conditions that machine instructions have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hloc.dtypes import DTYPES, DType, component_of
from hloc.errors import HloError
from hloc.ops import OPCODES
from hloc.shapes import ArrayShape, array_shape
from tests.unit.ops.rows import emit, evaluate, instruction, shape_of

SIZE = 96
NO_ZERO = "f8e8m0fnu"  # has no zero, which imag and masked results need
TYPES = [d for d in DTYPES.values() if not d.is_special and d.name != NO_ZERO]
SPECIAL_FLOATS = [
    *(float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0),
    *(0.5, 1.5, 2.5, -0.5, 1e-40, 1e30, 3.0, -2.0, 0.25),
]
CANCELS = ("power",)  # of complex numbers


def sample(dtype: DType, seed: int) -> np.ndarray:
    """Return values of `dtype`, many of them special."""
    rng = np.random.default_rng(seed)
    if dtype.is_pred:
        return rng.integers(0, 2, SIZE).astype(bool)
    if dtype.is_integer:
        low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
        high = low + (1 << dtype.bits) - 1
        edges = [low, high, 0, *(v for v in (1, -1, 2, dtype.bits) if low <= v <= high)]
        small = rng.integers(max(low, -9), min(high, 9), SIZE // 2, endpoint=True)
        wide = np.int64 if dtype.is_signed else np.uint64
        large = rng.integers(low, high, SIZE, dtype=wide, endpoint=True)
        chosen = np.array([*edges, *small.tolist(), *large.tolist()][:SIZE], dtype=object)
        rng.shuffle(chosen)
        return np.asarray(chosen.astype(dtype.numpy))
    values = rng.standard_normal(SIZE) * 10.0 ** rng.integers(-3, 4, SIZE)
    if dtype.is_complex:
        parts = np.clip(values, -5, 5) + 1j * rng.standard_normal(SIZE)
        return np.asarray(parts.astype(dtype.numpy))
    values[: 2 * len(SPECIAL_FLOATS)] = SPECIAL_FLOATS * 2
    with np.errstate(all="ignore"):
        return rng.permutation(values).astype(dtype.numpy)


def assert_agree(emitted: np.ndarray, evaluated: np.ndarray, dtype: DType, ulps: float) -> None:
    """Equal, or equal within `ulps` for floats; NaN where NaN."""
    if not (dtype.is_float or dtype.is_complex):
        np.testing.assert_array_equal(emitted, evaluated)
        return
    wide = np.complex128 if dtype.is_complex else np.float64
    a, b = emitted.astype(wide), evaluated.astype(wide)
    rtol = ulps * 2.0 ** -component_of(dtype).mantissa_bits
    with np.errstate(all="ignore"):
        close = np.abs(a - b) <= rtol * np.maximum(np.abs(b), 1e-6)
        wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)) | close)
    assert not wrong.any(), (a[wrong][:4], b[wrong][:4])


def cases() -> list[tuple[str, dict[str, Any]]]:
    """Return every elementwise row with an emitter, with some attributes."""
    found: list[tuple[str, dict[str, Any]]] = []
    for name, row in sorted(OPCODES.items()):
        if row.elemental is None or not row.elementwise or row.calls:
            continue
        if name == "compare":
            found += [(name, {"direction": d}) for d in ("EQ", "NE", "LT", "GE")]
            found += [(name, {"direction": d, "type": "TOTALORDER"}) for d in ("LT", "EQ", "GE")]
        elif name == "reduce-precision":
            sizes = [(5, 10), (8, 0), (2, 1), (8, 7)]
            found += [(name, {"exponent_bits": e, "mantissa_bits": m}) for e, m in sizes]
        elif name not in ("convert", "stochastic-convert"):
            found.append((name, {}))
    return found


def legal(name: str, shapes: list[ArrayShape], attributes: dict[str, Any]) -> ArrayShape | None:
    """Return the result shape, None if the row refuses these types."""
    try:
        declared = shapes[0] if name == "reduce-precision" else None
        inferred = instruction(name, shapes, attributes or None, declared).array
        instruction(name, shapes, attributes or None, inferred)
    except HloError:
        return None
    return inferred


@pytest.mark.parametrize(("name", "attributes"), cases(), ids=str)
def test_emitter_and_evaluator_agree(name: str, attributes: dict[str, Any]) -> None:
    arity = OPCODES[name].arity
    assert arity is not None
    checked = 0
    for dtype in TYPES:
        operands = [sample(dtype, seed) for seed in range(arity)]
        if name == "select":
            operands[0] = sample(DTYPES["pred"], 0)
        shape = legal(name, [shape_of(x) for x in operands], attributes)
        if shape is None:
            continue
        ulps = 2.0 if not dtype.is_complex else 1e5 if name in CANCELS else 64.0
        emitted = emit(name, *operands, shape=shape, **attributes)
        evaluated = evaluate(name, *operands, shape=shape, **attributes)
        assert_agree(emitted, evaluated, shape.dtype, ulps)
        scalars = [x[0:1].reshape(()) for x in operands]
        one = ArrayShape(shape.dtype)
        assert_agree(evaluate(name, *scalars, shape=one, **attributes), evaluated[0], one.dtype, 1)
        checked += 1
    assert checked, f"{name} takes no type at all"


@settings(max_examples=60)
@given(
    name=st.sampled_from(["divide", "remainder", "power", "shift-left", "shift-right-arithmetic"]),
    dtype=st.sampled_from(["s4", "u4", "s8", "u8", "s32", "u32", "s64", "u64"]),
    x=st.integers(0, 2**64 - 1),
    y=st.integers(0, 2**64 - 1) | st.integers(0, 70),
)
def test_integer_guards_against_exact_arithmetic(name: str, dtype: str, x: int, y: int) -> None:
    d = DTYPES[dtype]
    x, y = wrapped(x, d), wrapped(y, d)
    expected = wrapped(exact(name, x, y, d), d)
    operands = [np.array(v, dtype=object).astype(d.numpy) for v in (x, y)]
    assert int(evaluate(name, *operands)) == expected
    assert int(emit(name, *operands)) == expected


def wrapped(value: int, dtype: DType) -> int:
    """Return `value` in two's complement of the type."""
    low = value & ((1 << dtype.bits) - 1)
    return low - (1 << dtype.bits) if dtype.is_signed and low >> (dtype.bits - 1) else low


def exact(name: str, x: int, y: int, dtype: DType) -> int:
    """Return the result in unbounded integers, by the law of the row."""
    if name == "divide":
        return -1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    if name == "remainder":
        return x if y == 0 else abs(x) % abs(y) * (-1 if x < 0 else 1)
    if name == "power":
        if y >= 0:
            return pow(x, y, 1 << dtype.bits)
        return {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)
    amount = y % (1 << dtype.bits)
    if name == "shift-left":
        return x << amount if amount < dtype.bits else 0
    signed = wrapped(x, DTYPES[f"s{dtype.bits}"])
    return signed >> min(amount, dtype.bits - 1)


def test_bitcast_convert_of_one_width_has_an_emitter() -> None:
    for source, target in (("f32", "s32"), ("u16", "bf16"), ("s8", "f8e5m2"), ("u4", "s4")):
        x = sample(DTYPES[source], 1)
        shape = array_shape(target, SIZE)
        emitted = emit("bitcast-convert", x, shape=shape)
        evaluated = evaluate("bitcast-convert", x, shape=shape)
        assert emitted.tobytes() == evaluated.tobytes()


@pytest.mark.parametrize(("name", "attributes"), cases(), ids=str)
def test_rows_of_scalars_evaluate_whole_arrays(name: str, attributes: dict[str, Any]) -> None:
    # Reducers are computations on scalars; the evaluator runs them on all elements at once.
    row = OPCODES[name]
    assert row.evaluate is not None
    for dtype in (DTYPES[n] for n in ("f32", "bf16", "s32", "s4", "pred", "c64")):
        operands = [sample(dtype, seed) for seed in range(row.arity or 0)]
        if name == "select":
            operands[0] = sample(DTYPES["pred"], 0)
        scalars = [ArrayShape(shape_of(x).dtype) for x in operands]
        shape = legal(name, scalars, attributes)
        if shape is None:
            continue
        inst = instruction(name, scalars, attributes or None, shape)
        at_once = row.evaluate(inst, tuple(operands), lambda *_: None)
        whole = ArrayShape(shape.dtype, (SIZE,))
        expected = evaluate(name, *operands, shape=whole, **attributes)
        assert at_once.tobytes() == expected.tobytes()
