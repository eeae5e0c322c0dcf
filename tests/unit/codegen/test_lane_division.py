"""Integer divisions in lanes: exact for all pairs of bytes, and at the edges of longer types."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import hloc
from hloc.codegen.llvm.target import target_for
from tests.unit.codegen.harness import emit, evaluate, kernel_text, module_text, parse_text
from tests.unit.codegen.processors import PROCESSOR

Numbers = np.ndarray[Any, np.dtype[Any]]

TYPES: dict[str, Any] = {
    "s8": np.int8, "u8": np.uint8, "s16": np.int16, "u16": np.uint16, "s32": np.int32,
    "u32": np.uint32,
}  # fmt: skip
SIZE = 1 << 16


def text_of(dtype: str, divisor: str) -> str:
    """Return a module that divides by its second parameter, of shape `divisor`."""
    broadcast = "" if divisor else f"  b = {dtype}[{SIZE}] broadcast(y), dimensions={{}}\n"
    y = "y" if divisor else "b"
    return f"""HloModule m

ENTRY e {{
  x = {dtype}[{SIZE}] parameter(0)
  y = {dtype}[{divisor}] parameter(1)
{broadcast}  q = {dtype}[{SIZE}] divide(x, {y})
  r = {dtype}[{SIZE}] remainder(x, {y})
  ROOT t = ({dtype}[{SIZE}], {dtype}[{SIZE}]) tuple(q, r)
}}
"""


def edges(kind: Any) -> Numbers:
    """Return numbers at which quotients change most, or which have rules of their own."""
    info = np.iinfo(kind)
    numbers = [0, 1, 2, 3, 7, 10, info.max, info.max - 1, info.max // 2, info.max // 2 + 1]
    return np.array([*numbers, info.min, info.min + 1, -1 if info.min else 5], kind)


def numbers(kind: Any, rng: np.random.Generator) -> Numbers:
    """Return `SIZE` numbers of all magnitudes."""
    info = np.iinfo(kind)
    found: Numbers = rng.integers(info.min, info.max, SIZE, kind, endpoint=True)
    found >>= rng.integers(0, info.bits - 1, SIZE).astype(kind)
    return found


def near_multiples(y: Numbers, rng: np.random.Generator) -> Numbers:
    """Return multiples of `y`, and their neighbours: where a quotient changes."""
    info = np.iinfo(y.dtype)
    most = info.max // np.maximum(np.abs(y.astype(np.int64)), 1)
    factor = rng.integers(-most if info.min else 0, most + 1, SIZE)
    near: Numbers = factor * y.astype(np.int64) + rng.integers(-1, 2, SIZE)
    return np.clip(near, info.min, info.max).astype(y.dtype)


@PROCESSOR
@pytest.mark.parametrize("dtype", TYPES)
def test_divisors_of_each_lane(dtype: str, cpu: str) -> None:
    kind = TYPES[dtype]
    rng = np.random.default_rng(0)
    if np.iinfo(kind).bits == 8:
        every = np.arange(256).astype(kind)
        pairs = [(np.repeat(every, 256), np.tile(every, 256))]
    else:
        x, y = numbers(kind, rng), numbers(kind, rng)
        special = edges(kind)
        count = special.size**2
        x[:count], y[:count] = np.repeat(special, special.size), np.tile(special, special.size)
        pairs = [(x, y), (near_multiples(y, rng), y)]
    text = text_of(dtype, str(SIZE))
    executable = hloc.compile(text, cpu=cpu)
    for x, y in pairs:
        found = executable(x, y)
        for result, wanted in zip(found, evaluate(parse_text(text).entry, [x, y]), strict=True):
            np.testing.assert_array_equal(result, wanted)


@PROCESSOR
@pytest.mark.parametrize("dtype", TYPES)
def test_one_divisor_of_all_lanes(dtype: str, cpu: str) -> None:
    kind = TYPES[dtype]
    rng = np.random.default_rng(1)
    text = text_of(dtype, "")
    executable = hloc.compile(text, cpu=cpu)
    for number in [*edges(kind), *numbers(kind, rng)[:20]]:
        y = np.array(number)
        x = near_multiples(np.full(SIZE, number), rng)
        x[: SIZE // 2] = numbers(kind, rng)[: SIZE // 2]
        x[: edges(kind).size] = edges(kind)
        found = executable(x, y)
        for result, wanted in zip(found, evaluate(parse_text(text).entry, [x, y]), strict=True):
            np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("opcode", ["divide", "remainder"])
@pytest.mark.parametrize("dtype", TYPES)
def test_no_lane_is_divided_alone(dtype: str, opcode: str) -> None:
    kind = f"{dtype}[{SIZE}]"
    text = module_text([kind, kind], f"{kind} {opcode}(p0, p1)")
    made = emit(parse_text(text).entry.root, target=target_for(cpu="x86-64-v3"))
    assert not re.search(r" [su](div|rem) <", kernel_text(made))


def test_division_by_a_constant_is_left_to_llvm() -> None:
    kind = f"s32[{SIZE}]"
    text = f"""HloModule m

f {{
  x = {kind} parameter(0)
  c = s32[] constant(7)
  b = {kind} broadcast(c), dimensions={{}}
  ROOT r = {kind} remainder(x, b)
}}

ENTRY e {{
  x = {kind} parameter(0)
  ROOT r = {kind} fusion(x), kind=kLoop, calls=f
}}
"""
    written = kernel_text(emit(parse_text(text).entry.root, target=target_for(cpu="x86-64-v3")))
    assert re.search(r" srem <", written)
    assert "select" not in written  # 7 is neither 0 nor -1
