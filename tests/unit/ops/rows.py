"""Run one row of the table: make an instruction, infer, evaluate, emit with NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import hloc.ops  # noqa: F401  fills the table
from hloc.dtypes import DTYPES, dtype_of_numpy
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import ShapeRequest, opcode_row
from hloc.ops.builder import Builder
from hloc.shapes import ArrayShape, Shape
from tests.unit.ops.numpy_builder import NumpyBuilder, NumpyValue


def array(dtype: str, values: Any) -> np.ndarray[Any, Any]:
    """Return an array of HLO type `dtype`; strings such as "nan" and "-0" are read as numbers."""
    listed = np.asarray(values, dtype=object)
    target = DTYPES[dtype]
    if target.is_integer or target.is_pred:
        return np.asarray(listed.tolist(), dtype=object).astype(target.numpy)
    return (
        np.asarray([complex(v) if target.is_complex else float(v) for v in listed.ravel()])
        .astype(target.numpy)
        .reshape(listed.shape)
    )


def shape_of(value: np.ndarray[Any, Any]) -> ArrayShape:
    """Return the shape of an array value."""
    dtype = dtype_of_numpy(value.dtype)
    assert dtype is not None
    return ArrayShape(dtype, value.shape)


def instruction(
    name: str,
    operands: Sequence[ArrayShape],
    attributes: dict[str, Any] | None = None,
    shape: Shape | None = None,
) -> Instruction:
    """Return instruction `name` on parameters of the shapes `operands`."""
    computation = Module("m").add_computation("c")
    b = Builder(computation)
    parameters = [b.parameter(i, operand) for i, operand in enumerate(operands)]
    made = None if attributes is None else _attributes(name, attributes)
    return b.instruction(name, parameters, made, shape=shape)


def _attributes(name: str, values: dict[str, Any]) -> Any:
    made = opcode_row(name).attributes
    assert made is not None
    return made(**values)


def infer(name: str, *operands: Shape, declared: Shape | None = None, **attributes: Any) -> Shape:
    """Return what the shape rule of `name` says."""
    row = opcode_row(name)
    made = _attributes(name, attributes) if row.attributes else None
    return row.infer(ShapeRequest(operands, made, (), declared))


def evaluate(
    name: str,
    *operands: np.ndarray[Any, Any],
    shape: Shape | None = None,
    **attributes: Any,
) -> np.ndarray[Any, Any]:
    """Return the evaluator's value of `name` on arrays."""
    inst = instruction(name, [shape_of(x) for x in operands], attributes or None, shape)
    assert inst.opcode.evaluate is not None
    result = inst.opcode.evaluate(inst, operands, _no_call)
    assert isinstance(result, np.ndarray), type(result)
    assert result.dtype == inst.array.dtype.numpy, (result.dtype, inst)
    assert result.shape == inst.array.dims, (result.shape, inst)
    return result


def emit(
    name: str,
    *operands: np.ndarray[Any, Any],
    shape: Shape | None = None,
    **attributes: Any,
) -> np.ndarray[Any, Any]:
    """Return the value that the elemental emitter of `name` computes, with NumPy as the machine."""
    inst = instruction(name, [shape_of(x) for x in operands], attributes or None, shape)
    values = [NumpyValue(shape_of(x).dtype, x) for x in operands]
    assert inst.opcode.elemental is not None
    with np.errstate(all="ignore"):
        result = inst.opcode.elemental(NumpyBuilder(), inst, *values)
    assert result.dtype is inst.array.dtype, (result.dtype, inst)
    return np.broadcast_to(result.value, inst.array.dims)


def _no_call(*_: Any) -> Any:
    raise AssertionError("no computation is called here")
