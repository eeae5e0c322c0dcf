"""NaNs of functions in bf16: all of them are NaNs after rounding, which does not look for them."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

import hloc
from hloc.codegen.llvm.target import target_for
from tests.unit.codegen.harness import emit, evaluate, kernel_text, module_text, parse_text
from tests.unit.codegen.processors import PROCESSOR

FUNCTIONS = (
    "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "tanh", "tan",
    "sine", "cosine", "sqrt", "rsqrt", "cbrt", "erf",
)  # fmt: skip
KIND = "bf16[65536]"


@PROCESSOR
@pytest.mark.parametrize("name", FUNCTIONS)
def test_nan_of_every_number(name: str, cpu: str) -> None:
    text = module_text([KIND], f"{KIND} {name}(p0)")
    x = np.arange(1 << 16, dtype=np.uint16).view(bfloat16)
    (found,) = hloc.compile(text, cpu=cpu)(x)
    wanted = np.asarray(evaluate(parse_text(text).entry, [x]))
    np.testing.assert_array_equal(
        np.isnan(found.astype(np.float32)), np.isnan(wanted.astype(np.float32))
    )


@PROCESSOR
def test_nan_of_quotients_by_one_number(cpu: str) -> None:
    kind = "bf16[256,2048]"
    text = f"""HloModule m

max {{
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT r = bf16[] maximum(a, b)
}}

ENTRY e {{
  x = {kind} parameter(0)
  c = bf16[] constant(-inf)
  m = bf16[256] reduce(x, c), dimensions={{1}}, to_apply=max
  b = {kind} broadcast(m), dimensions={{0}}
  ROOT r = {kind} divide(x, b)
}}
"""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 16, (256, 2048)).astype(np.uint16)
    quiet = np.where((bits & 0x7FFF) > 0x7F80, bits | 0x40, bits)
    x = quiet.view(bfloat16)
    x[8:] = np.where(np.isnan(x[8:].astype(np.float32)), bfloat16(0), x[8:])
    x[16:, ::2] = np.minimum(x[16:, ::2], bfloat16(0))
    (found,) = hloc.compile(text, cpu=cpu)(x)
    wanted = np.asarray(evaluate(parse_text(text).entry, [x]))
    np.testing.assert_array_equal(
        np.isnan(found.astype(np.float32)), np.isnan(wanted.astype(np.float32))
    )


def test_rounding_does_not_look_for_nan() -> None:
    root = parse_text(module_text([KIND], f"{KIND} exponential(p0)")).entry.root
    assert "fcmp uno" not in kernel_text(emit(root, target=target_for(cpu="x86-64-v3")))
