"""Elementwise opcodes of the table, in every element type they take, one per kernel."""

from __future__ import annotations

import numpy as np
import pytest

import hloc.ops  # noqa: F401  (fills the table)
from hloc.errors import HloError
from hloc.ops import OPCODES
from tests.tolerance import bounds_of
from tests.unit.codegen.harness import (
    Array,
    check_root,
    module_text,
    parse_text,
    random_array,
)

TYPES = ["f32", "f64", "bf16", "f16", "f8e4m3fn", "s32", "s8", "u16", "s4", "s64", "pred", "c64"]
OPCODES_TO_TRY = sorted(
    name for name, row in OPCODES.items() if row.elemental is not None and row.arity in (1, 2)
)
ATTRIBUTES = {
    "reduce-precision": ", exponent_bits=5, mantissa_bits=10",
    "compare": ", direction=LE",
}
RESULTS = ["{0}", "pred", "f32", "f64", "c64", "c128", "u8"]


def _legal_text(opcode: str, dtype: str, arity: int) -> str | None:
    """Return a module with the first result type that the row takes, or None."""
    names = ", ".join(f"p{i}" for i in range(arity))
    for result in RESULTS:
        root = f"{result.format(dtype)}[5,7] {opcode}({names}){ATTRIBUTES.get(opcode, '')}"
        text = module_text([f"{dtype}[5,7]"] * arity, root)
        try:
            parse_text(text)
        except HloError:
            continue
        return text
    return None


@pytest.mark.parametrize("opcode", OPCODES_TO_TRY)
def test_every_type(opcode: str) -> None:
    arity = OPCODES[opcode].arity
    assert arity is not None
    tried = 0
    for dtype in TYPES:
        text = _legal_text(opcode, dtype, arity)
        if text is None or opcode in ("copy-start", "stochastic-convert"):
            continue
        tried += 1
        entry = parse_text(text).entry
        rng = np.random.default_rng(7)
        arrays: list[Array] = [random_array(p.array, rng) for p in entry.parameters]
        with np.errstate(all="ignore"):
            check_root(text, arrays, level=1, **bounds_of("elementwise", dtype))
    assert tried or opcode in ("copy-start", "stochastic-convert"), opcode


@pytest.mark.parametrize("size", [1, 16])
@pytest.mark.parametrize("opcode", ["minimum", "maximum"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_extremes_of_zeros_and_nan(opcode: str, dtype: str, size: int) -> None:
    """Of two zeros -0 is the smaller one; NaN is the result wherever it stands."""
    values = np.array([0.0, -0.0, np.nan, -1.0], np.float32 if dtype == "f32" else np.float64)
    pairs = np.array([(x, y) for x in values for y in values])
    text = module_text([f"{dtype}[{size}]"] * 2, f"{dtype}[{size}] {opcode}(p0, p1)")
    negative = np.any if opcode == "minimum" else np.all
    for part in np.split(pairs, len(pairs) // size):
        (found,) = check_root(text, [part[:, 0].copy(), part[:, 1].copy()], rtol=0, atol=0)
        zeros = (part == 0).all(axis=1)
        signs = negative(np.signbit(part[zeros]), axis=1)
        np.testing.assert_array_equal(np.signbit(found[zeros]), signs)
