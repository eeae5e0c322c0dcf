"""Index arithmetic: positions that were divided for an array are whole again for its address."""

from __future__ import annotations

from hloc.codegen.builder.index import IndexMath
from hloc.codegen.builder.loops import Body
from hloc.codegen.builder.scalar_builder import LlvmBuilder
from hloc.codegen.builder.values import Value
from hloc.codegen.llvm.target import host_target
from hloc.codegen.llvm.writer import FunctionWriter
from hloc.dtypes import S64

POSITION = Value(S64, "%x")
DIMS = (2, 3, 4)


def _math() -> IndexMath:
    fn = FunctionWriter("f", ["i64 %x"])
    return IndexMath(Body(fn, LlvmBuilder(fn, host_target())))


def test_a_divided_position_is_whole_again() -> None:
    math = _math()
    index = math.delinear(POSITION, DIMS)
    assert math.linear(index, (12, 4, 1)) == POSITION
    assert math.linear(index, (24, 8, 2)) == math.mul(POSITION, 2)
    assert math.linear([0, *index[:2], 0, index[2]], (99, 12, 4, 7, 1)) == POSITION


def test_a_part_of_it_is_whole() -> None:
    math = _math()
    index = math.delinear(POSITION, DIMS)
    pair = math.div(POSITION, 4)
    assert math.linear(index, (30, 10, 1)) == math.add(math.mul(pair, 10), index[2])


def test_it_is_not_whole_with_other_strides_or_in_another_order() -> None:
    math = _math()
    first, second, third = math.delinear(POSITION, DIMS)
    assert math.linear([third, second, first], (6, 2, 1)) != POSITION
    assert math.linear([first, second, math.rem(POSITION, 5)], (12, 4, 1)) != POSITION
