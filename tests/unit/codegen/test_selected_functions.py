"""Functions that are shorter where a select drops most of their results, with the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from hloc.dtypes import DTYPES
from hloc.ir.instruction import Instruction
from tests.unit.codegen.harness import emit, kernel_text, parse_text, run_instruction


def _fusion(dtype: str, direction: str, bound: float, result: str = "chosen") -> Instruction:
    """Return a fusion of `chosen = select(|x| < bound, -erf(x), x)`."""
    shape = f"{dtype}[4096]"
    results = {"chosen": shape, "(chosen, erf)": f"({shape}, {shape})"}
    roots = {"chosen": "copy(chosen)", "(chosen, erf)": "tuple(chosen, erf)"}
    text = f"""
HloModule test

fused {{
  x = {shape} parameter(0)
  bound = {shape} broadcast({dtype}[] constant({bound})), dimensions={{}}
  near = pred[4096] compare({shape} abs(x), bound), direction={direction}
  erf = {shape} erf(x)
  chosen = {shape} select(near, {shape} negate(erf), x)
  ROOT r = {results[result]} {roots[result]}
}}

ENTRY e {{
  x = {shape} parameter(0)
  ROOT f = {results[result]} fusion(x), kind=kLoop, calls=fused
}}
"""
    root: Instruction = parse_text(text).entry.root
    return root


@pytest.mark.parametrize(
    ("dtype", "direction", "bound", "is_short"),
    [
        ("f32", "LT", 0.70710677, True),
        ("f32", "LE", 0.99, True),
        ("f32", "LT", 1.5, False),
        ("f32", "GT", 0.5, False),
        ("f64", "LT", 0.7071067811865476, True),
        ("f64", "LT", 0.9, False),
        ("f16", "LT", 0.5, False),
    ],
)
def test_erf_below_a_bound(dtype: str, direction: str, bound: float, is_short: bool) -> None:
    guarded = _fusion(dtype, direction, bound)
    whole = _fusion(dtype, direction, bound, "(chosen, erf)")
    steps = [kernel_text(emit(inst)).count("fma") for inst in (guarded, whole)]
    assert (steps[0] < 0.6 * steps[1]) is is_short
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, bound, -bound, 1.0, -1.0]
    x = np.concatenate([special, np.linspace(-2, 2, 4096 - len(special))])
    x = x.astype(DTYPES[dtype].numpy)
    found, expected = (run_instruction(inst, [x])[0] for inst in (guarded, whole))
    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))
