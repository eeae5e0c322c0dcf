"""Deep and wide modules compile and run: nothing recurses over operands or grows with the square.

The limits are several times what an idle machine needs, and far below what quadratic work takes.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

import hloc

pytestmark = pytest.mark.slow

MAX_SECONDS = 60.0
"""Processor time for one module."""


def chain(length: int) -> str:
    lines = ["  p = f32[16] parameter(0)", "  v0 = f32[16] negate(p)"]
    for i in range(1, length):
        root = "ROOT " if i == length - 1 else ""
        lines.append(f"  {root}v{i} = f32[16] {'add' if i % 2 else 'subtract'}(v{i - 1}, p)")
    return "HloModule chain\n\nENTRY e {\n" + "\n".join(lines) + "\n}\n"


def columns(width: int, depth: int) -> str:
    """A tuple of `width` arrays, each of which goes through `depth` instructions of its own."""
    shape = "(" + ", ".join(["f32[4]"] * width) + ")"
    lines = [f"  p = {shape} parameter(0)"]
    for i in range(width):
        lines.append(f"  x{i} = f32[4] get-tuple-element(p), index={i}")
        before = f"x{i}"
        for j in range(depth):
            opcode = ("negate", "abs", "floor")[j % 3]
            lines.append(f"  y{i}_{j} = f32[4] {opcode}({before})")
            before = f"y{i}_{j}"
    results = ", ".join(f"y{i}_{depth - 1}" for i in range(width))
    lines.append(f"  ROOT t = {shape} tuple({results})")
    return "HloModule columns\n\nENTRY e {\n" + "\n".join(lines) + "\n}\n"


def nested_loops(depth: int) -> str:
    """Loops inside loops; each runs its body once, the innermost doubles the array."""
    state = "(s32[], f32[4])"
    parts = ["HloModule nested"]
    for level in range(depth + 1):
        inner = "  y = f32[4] add(x, x)\n"
        if level:
            inner = (
                f"  z = s32[] constant(0)\n  t = {state} tuple(z, x)\n"
                f"  w = {state} while(t), condition=more{level}, body=step{level - 1}\n"
                "  y = f32[4] get-tuple-element(w), index=1\n"
            )
            parts.append(
                f"more{level} {{\n  p = {state} parameter(0)\n"
                "  i = s32[] get-tuple-element(p), index=0\n  n = s32[] constant(1)\n"
                "  ROOT r = pred[] compare(i, n), direction=LT\n}"
            )
        parts.append(
            f"step{level} {{\n  p = {state} parameter(0)\n"
            "  i = s32[] get-tuple-element(p), index=0\n"
            "  x = f32[4] get-tuple-element(p), index=1\n"
            f"{inner}  one = s32[] constant(1)\n  j = s32[] add(i, one)\n"
            f"  ROOT r = {state} tuple(j, y)\n}}"
        )
    parts.append(
        "ENTRY e {\n  x = f32[4] parameter(0)\n  z = s32[] constant(0)\n"
        f"  t = {state} tuple(z, x)\n"
        f"  w = {state} call(t), to_apply=step{depth}\n"
        "  ROOT y = f32[4] get-tuple-element(w), index=1\n}\n"
    )
    return "\n\n".join(parts)


def fusions(count: int) -> str:
    """Many fusions that no kernel takes, so that all of them are taken apart."""
    lines = ["  p = f32[2,2] parameter(0)"]
    bodies = []
    for i in range(count):
        bodies.append(
            f"body{i} {{\n  x = f32[2,2] parameter(0)\n"
            "  d = f32[2,2] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
            "  c = f32[2,2] clamp(x, d, x)\n"
            "  ROOT r = f32[2,2] add(c, x)\n}"
        )
        before = f"v{i - 1}" if i else "p"
        root = "ROOT " if i == count - 1 else ""
        lines.append(f"  {root}v{i} = f32[2,2] fusion({before}), kind=kCustom, calls=body{i}")
    entry = "ENTRY e {\n" + "\n".join(lines) + "\n}\n"
    return "\n\n".join(["HloModule fusions", *bodies, entry])


def run(text: str, level: int, *arguments: np.ndarray) -> list[np.ndarray]:
    start = time.process_time()
    results = hloc.compile(text, opt_level=level)(*arguments)
    assert time.process_time() - start < MAX_SECONDS
    return results


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("length", [3700, 20_000])
def test_long_chain(length: int, level: int) -> None:
    x = np.arange(16, dtype=np.float32)
    (found,) = run(chain(length), level, x)
    np.testing.assert_array_equal(found, np.zeros_like(x))


@pytest.mark.parametrize("level", [0, 2])
def test_tuple_of_a_thousand_arrays(level: int) -> None:
    inputs = [np.full(4, i + 0.5, np.float32) for i in range(1000)]
    found = run(columns(1000, 20), level, *inputs)
    assert len(found) == 1000
    for i, array in enumerate(found):
        np.testing.assert_array_equal(np.abs(array), np.full(4, float(np.abs(array[0]))))
        assert abs(abs(float(array[0])) - (i + 0.5)) <= 0.5


@pytest.mark.parametrize("level", [0, 2])
def test_hundred_nested_loops(level: int) -> None:
    (found,) = run(nested_loops(100), level, np.ones(4, np.float32))
    np.testing.assert_array_equal(found, np.full(4, 2.0))


def test_two_thousand_fusions_are_taken_apart() -> None:
    x = np.zeros((2, 2), np.float32)
    (found,) = run(fusions(2000), 0, x)
    np.testing.assert_array_equal(found, x)
