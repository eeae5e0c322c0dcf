"""Kernels that are timed for a roofline: equal ones once, all others."""

from collections.abc import Callable

import pytest

import hloc
from hloc.ir.instruction import Instruction
from hloc.pictures.roofline import Kernel
from hloc.report import roofline_kernels

TEXT = """HloModule m
ENTRY e {
  x = f32[8,16] parameter(0)
  y = f32[8,32] parameter(1)
  w = f32[16,8] parameter(2)
  v = f32[32,8] parameter(3)
  a = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[8,8] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[8,8], f32[8,8], f32[8,8]) tuple(a, b, c)
}
"""


def test_products_of_other_depths_are_timed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have the same result, but not the same operands."""
    timed: list[str] = []

    def seconds(inst: Instruction, warn: Callable[[str], object]) -> float:
        timed.append(inst.name)
        return float(inst.operands[0].array.dims[1])

    monkeypatch.setattr(roofline_kernels, "_seconds", seconds)
    dots = [i for i in hloc.parse(TEXT).entry.instructions if i.is_a("dot")]
    found = [(inst, Kernel(inst.name, "dot", 1, 1, 1.0, False)) for inst in dots]
    measured = roofline_kernels.measured_kernels(found, print)
    assert timed == ["a", "b"]
    assert [(kernel.name, kernel.seconds) for _, kernel in measured] == [
        ("a", 16.0),
        ("b", 32.0),
        ("c", 16.0),
    ]
