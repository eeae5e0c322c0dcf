"""Costs of instructions: the numbers of the mathematics, fusions read only their operands."""

import pytest

import hloc
from hloc.analysis.cost import Cost, module_cost

HEAD = "HloModule m\n\nsum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
HEAD += "  ROOT s = f32[] add(a, b)\n}\n\n"


def cost_of(body: str, extra: str = "") -> Cost:
    lines = "".join(f"  {line.strip()}\n" for line in body.split(";"))
    return module_cost(hloc.parse(HEAD + extra + "ENTRY e {\n" + lines + "}\n"))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = f32[8] parameter(0); ROOT r = f32[8] add(x, x)", Cost(8, 0, 32, 32)),
        ("x = f32[8] parameter(0); ROOT r = f32[8] tanh(x)", Cost(0, 8, 32, 32)),
        (
            "x = f32[2,3] parameter(0); y = f32[3,4] parameter(1); ROOT r = f32[2,4] dot(x, y), "
            "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            Cost(48, 0, 72, 32),
        ),
        (
            "x = f32[8,4] parameter(0); z = f32[] constant(0); ROOT r = f32[8] reduce(x, z), "
            "dimensions={1}, to_apply=sum",
            Cost(32, 0, 132, 32),
        ),
        (
            "x = c64[3,8] parameter(0); ROOT r = c64[3,8] fft(x), fft_type=FFT, fft_length={8}",
            Cost(360, 0, 192, 192),
        ),
        (
            "x = f32[3,8] parameter(0); ROOT r = c64[3,5] fft(x), fft_type=RFFT, fft_length={8}",
            Cost(225, 0, 96, 120),
        ),
        ("x = f32[1000] parameter(0); ROOT r = f32[2] slice(x), slice={[0:2]}", Cost(0, 0, 8, 8)),
    ],
)
def test_cost(body: str, expected: Cost) -> None:
    assert cost_of(body) == expected


def test_a_fusion_reads_its_operands_only() -> None:
    inside = "f {\n  a = f32[8] parameter(0)\n  n = f32[8] negate(a)\n"
    inside += "  ROOT s = f32[8] sine(n)\n}\n\n"
    body = "x = f32[8] parameter(0); ROOT r = f32[8] fusion(x), kind=kLoop, calls=f"
    assert cost_of(body, inside) == Cost(8, 8, 32, 32)
