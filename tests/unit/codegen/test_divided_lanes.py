"""Dimensions along lanes that a reshape divides: positions are computed in vectors."""

from __future__ import annotations

import pytest

from hloc.codegen.llvm.target import target_for
from tests.unit.codegen.harness import check_root, emit, parse_text, random_arrays
from tests.unit.codegen.processors import PROCESSOR
from tests.unit.codegen.test_lane_gathers import fused


def check(text: str, cpu: str, pieces: int = 1, *, in_lanes: bool = True) -> None:
    machine = target_for(cpu=cpu)
    code = emit(parse_text(text).entry.root, target=machine).text
    assert (" x float>" in code or " x double>" in code) is in_lanes
    check_root(text, random_arrays(text), target=machine, pieces=pieces)


def scaled(rows: int, points: int, scales: int, dtype: str, last: list[str]) -> list[str]:
    """Return the lines of a row of points times scales as one dimension, and then `last`."""
    shape, flat = f"{dtype}[{rows},{points},{scales}]", f"{dtype}[{rows},{points * scales}]"
    return [
        f"a = {shape} broadcast(p0), dimensions={{0,1}}",
        f"b = {shape} broadcast(p1), dimensions={{2}}",
        f"c = {shape} multiply(a, b)",
        f"r = {flat} reshape(c)",
        *last,
    ]


@PROCESSOR
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize(("points", "scales"), [(3, 8), (5, 7), (16, 4), (2, 33)])
def test_points_times_scales_in_one_row(
    cpu: str, dtype: str, pieces: int, points: int, scales: int
) -> None:
    """Rows that are whole vectors, or end with a part of one; powers of two and others."""
    row = f"{dtype}[9,{points * scales}]"
    both = f"{dtype}[9,{2 * points * scales + 3}]"
    last = [
        f"s = {row} sine(r)",
        f"t = {row} cosine(r)",
        f"u = {both} concatenate(s, t, p2), dimensions={{1}}",
    ]
    parameters = [f"{dtype}[9,{points}]", f"{dtype}[{scales}]", f"{dtype}[9,3]"]
    text = fused(parameters, scaled(9, points, scales, dtype, last), both)
    # Functions of f64 have vectors only with fused multiply-add.
    check(text, cpu, pieces, in_lanes=(cpu, dtype) != ("x86-64", "f64"))


@PROCESSOR
def test_transposes_between_reshapes(cpu: str) -> None:
    lines = [
        "a = f32[8,5,20] reshape(p0)",
        "b = f32[8,20,5] transpose(a), dimensions={0,2,1}",
        "c = f32[8,100] reshape(b)",
        "d = f32[8,100] tanh(c)",
    ]
    check(fused(["f32[8,100]"], lines, "f32[8,100]"), cpu)


@PROCESSOR
def test_without_functions_scalars_take_less_time(cpu: str) -> None:
    last = ["s = f32[9,35] add(r, p2)"]
    lines = scaled(9, 5, 7, "f32", last)
    check(fused(["f32[9,5]", "f32[7]", "f32[9,35]"], lines, "f32[9,35]"), cpu, in_lanes=False)


def test_positions_in_a_large_array_have_64_bits() -> None:
    """Nothing of that size is run: its positions do not fit in 32 bits."""
    shape = "f32[65536,65536]"
    lines = [
        "a = f32[65536,8192,8] broadcast(p0), dimensions={0,1}",
        "b = f32[65536,8192,8] exponential(a)",
        f"c = {shape} reshape(b)",
        "z = f32[] constant(0)",
        "d = f32[65536] reduce(c, z), dimensions={1}, to_apply=add",
    ]
    add = "add {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = f32[] add(x, y)\n}"
    text = fused(["f32[65536,8192]"], lines, "f32[65536]").replace(
        "\n\nfused", f"\n\n{add}\n\nfused"
    )
    assert emit(parse_text(text).entry.root).text
