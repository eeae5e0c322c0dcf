"""The builder: shapes come from the rows, users and callers are kept by the computation."""

from __future__ import annotations

import numpy as np
import pytest

import hloc.ops
from hloc.dtypes import F32, S32
from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.ops.builder import Builder
from hloc.shapes import array_shape


def builder() -> Builder:
    return Builder(Module("m").add_computation("c"))


def test_every_constructor_infers_its_shape() -> None:
    b = builder()
    x = b.parameter(0, array_shape("f32", 2, 3))
    one = b.constant(1, F32)
    wide = b.broadcast(one, (2, 3))
    total = b.add(x, wide)
    made = [
        total,
        b.subtract(x, wide),
        b.select(b.compare(x, wide, "LT"), x, b.negate(wide)),
        b.convert(x, S32),
        b.reshape(x, (6,)),
        b.transpose(x, (1, 0)),
        b.slice(x, (0, 1), (2, 3)),
        b.concatenate([x, x], 1),
        b.pad(x, one, (0, 1), (0, -1)),
        b.iota(S32, (4, 2), 1),
        b.clamp(one, x, one),
        b.dynamic_slice(x, [b.constant(0, S32), b.constant(1, S32)], (1, 1)),
        b.constant(np.ones((2, 2), np.float32)),
    ]
    assert [str(inst.shape) for inst in made] == [
        *("f32[2,3]{1,0}",) * 3,
        "s32[2,3]{1,0}",
        "f32[6]{0}",
        "f32[3,2]{1,0}",
        "f32[2,2]{1,0}",
        "f32[2,6]{1,0}",
        "f32[2,3]{1,0}",
        "s32[4,2]{1,0}",
        "f32[2,3]{1,0}",
        "f32[1,1]{1,0}",
        "f32[2,2]{1,0}",
    ]
    assert total in x.users
    assert total in wide.users


def test_convert_to_the_same_type_adds_nothing() -> None:
    b = builder()
    x = b.parameter(0, array_shape("f32", 2))
    assert b.convert(x, F32) is x


def test_a_broken_rule_is_the_rows_error_and_adds_nothing() -> None:
    b = builder()
    x = b.parameter(0, array_shape("f32", 2))
    y = b.parameter(1, array_shape("f32", 3))
    with pytest.raises(HloError, match=r"operand 1 has shape f32\[3\]"):
        b.add(x, y)
    assert len(b.computation) == 2


def test_structure_and_called_computations() -> None:
    module = Module("m")
    scalar = Builder(module.add_computation("sum"))
    a, c = (scalar.parameter(i, array_shape("f32")) for i in range(2))
    scalar.computation.set_root(scalar.add(a, c))
    b = Builder(module.add_computation("main"))
    x = b.parameter(0, array_shape("f32", 2, 3))
    total = b.reduce([x], [b.constant(0, F32)], (1,), scalar.computation)
    assert str(total.shape) == "f32[2]{0}"
    assert total in scalar.computation.callers
    pair = b.tuple([x, total])
    assert b.get_tuple_element(pair, 1).shape == total.shape
    product = b.dot(x, b.transpose(x, (1, 0)), lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))
    assert str(product.shape) == "f32[2,2]{1,0}"


def test_every_row_names_itself_and_its_law() -> None:
    for name, row in hloc.ops.OPCODES.items():
        assert row.name == name
        assert row.reads, name
        assert row.elemental is None or row.evaluate is not None, name
        assert not row.elementwise or row.arity is not None or row.calls, name
