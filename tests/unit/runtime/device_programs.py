"""Programs of several devices, their arguments, and their check against the evaluator."""

# One line per instruction, however long.
# ruff: noqa: E501

from __future__ import annotations

from typing import Any

import numpy as np

import hloc
from hloc.dtypes import DType
from hloc.evaluator import evaluate_devices

DEVICES = 6
"""As 2 replicas of 3 partitions."""


def arguments(*shapes: tuple[DType, tuple[int, ...]], devices: int = DEVICES) -> list[list[Any]]:
    """Return random arrays per parameter and device, NaN and infinities among the floats."""
    rng = np.random.default_rng(3)
    result = []
    for dtype, dims in shapes:
        parts = []
        for _ in range(devices):
            values = rng.integers(-3, 4, dims).astype(np.float64)
            if dtype.is_float or dtype.is_complex:
                values = values + rng.random(dims).round(2)
                values[rng.random(dims) < 0.06] = np.nan
            if dtype.is_unsigned:
                values = np.abs(values)
            with np.errstate(all="ignore"):
                parts.append((values > 0 if dtype.is_pred else values).astype(dtype.numpy))
        result.append(parts)
    return result


def check(text: str, args: list[list[Any]], *, levels: tuple[int, ...] = (0, 2)) -> list[list[Any]]:
    """Compare compiled runs with the evaluator, bit for bit but for the bits of NaN."""
    expected = evaluate_devices(hloc.parse(text), args)
    for level in levels:
        results = hloc.compile(text, opt_level=level).run_devices(args)
        assert len(results) == len(expected)
        for leaf, wanted in zip(results, expected, strict=True):
            for device, (one, other) in enumerate(zip(leaf, wanted, strict=True)):
                assert one.dtype == other.dtype
                assert one.shape == other.shape
                assert _same(one, other), f"-O{level}, device {device}:\n{one}\n{other}"
    return expected


def _same(one: Any, other: Any) -> bool:
    if one.tobytes() == other.tobytes():
        return True
    if one.dtype.kind in "c":
        return _same(one.real, other.real) and _same(one.imag, other.imag)
    wide = one.astype(np.float64), other.astype(np.float64)
    return bool(np.array_equal(*wide, equal_nan=True))


def module_text(
    entry: str, called: str = "", header: str = "replica_count=2, num_partitions=3"
) -> str:
    """Return the text of a module."""
    return f"HloModule m, {header}\n{called}ENTRY e {{\n{entry}\n}}\n"


def reducer(dtype: DType, opcode: str) -> str:
    return f"f {{ p = {dtype}[] parameter(0) q = {dtype}[] parameter(1) ROOT r = {dtype}[] {opcode}(p, q) }}\n"


LOOP = """
sum { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }
below { t = (s32[], s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] get-tuple-element(t), index=1
  ROOT c = pred[] compare(i, n), direction=LT }
body { t = (s32[], s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] get-tuple-element(t), index=1
  x = f32[2] get-tuple-element(t), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[2] all-reduce(x), channel_id=1, use_global_device_ids=true, replica_groups=%s, to_apply=sum
  ROOT r = (s32[], s32[], f32[2]) tuple(j, n, y) }
"""
LOOP_ENTRY = """
  a = f32[2] parameter(0)
  n = s32[] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], s32[], f32[2]) tuple(zero, n, a)
  w = (s32[], s32[], f32[2]) while(t), condition=below, body=body
  ROOT r = f32[2] get-tuple-element(w), index=2
"""


def loop_arguments(counts: list[int]) -> list[list[Any]]:
    values = [np.array([device, 1], np.float32) for device in range(len(counts))]
    return [values, [np.array(n, np.int32) for n in counts]]


SUM2 = "sum { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }\n"
ALL = "channel_id=1, use_global_device_ids=true, replica_groups={{0,1}}"
PIPELINE = """body { t = (s32[], f32[2], token[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  v = f32[2] get-tuple-element(t), index=1
  k = token[] get-tuple-element(t), index=2
  r = (f32[2], u32[], token[]) recv(k), channel_id=1, PAIRS
  s = (f32[2], u32[], token[]) send(v, k), channel_id=1, PAIRS
  d = (f32[2], token[]) recv-done(r), channel_id=1, PAIRS
  x = f32[2] get-tuple-element(d), index=0
  e = token[] send-done(s), channel_id=1, PAIRS
  ROOT u = (s32[], f32[2], token[]) tuple(j, x, e) }
below { t = (s32[], f32[2], token[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(2)
  ROOT c = pred[] compare(i, n), direction=LT }
"""
PIPELINE_ENTRY = """
  a = f32[2] parameter(0)
  z = s32[] constant(0)
  k = token[] after-all()
  t = (s32[], f32[2], token[]) tuple(z, a, k)
  w = (s32[], f32[2], token[]) while(t), condition=below, body=body
  ROOT r = f32[2] get-tuple-element(w), index=1
"""


def transfers(text: str, pairs: str) -> str:
    return text.replace(
        "PAIRS", f"frontend_attributes={{_xla_send_recv_source_target_pairs={pairs}}}"
    )


CHAIN = """
  a = f32[3] parameter(0)
  k = token[] after-all()
  r = (f32[3], u32[], token[]) recv(k), channel_id=1, PAIRS
  d = (f32[3], token[]) recv-done(r), channel_id=1, PAIRS
  x = f32[3] get-tuple-element(d), index=0
  y = f32[3] add(x, a)
  s = (f32[3], u32[], token[]) send(y, k), channel_id=1, PAIRS
  e = token[] send-done(s), channel_id=1, PAIRS
  ROOT c = f32[3] copy(y)
"""
NEVER_RECEIVED = """
  a = f32[3] parameter(0)
  k = token[] after-all()
  s = (f32[3], u32[], token[]) send(a, k), channel_id=1, PAIRS
  e = token[] send-done(s), channel_id=1, PAIRS
  b = f32[3] negate(a)
  late = (f32[3], u32[], token[]) send(b, e), channel_id=1, PAIRS
  r = (f32[3], u32[], token[]) recv(k), channel_id=1, PAIRS
  d = (f32[3], token[]) recv-done(r), channel_id=1, PAIRS
  f = token[] send-done(late), channel_id=1, PAIRS
  ROOT x = f32[3] get-tuple-element(d), index=0
"""
