"""Asynchronous halves: async-start, async-update, async-done, copy-start, copy-done.

`X-start` in the text is an `async-start` that calls a computation of parameters and the one
instruction X. One device runs the whole of it at the start.
"""

from __future__ import annotations

import numpy as np

from hloc.dtypes import U32
from hloc.ir.attributes import attr
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import (
    CalledRole,
    CallFunction,
    HostValue,
    Operands,
    ShapeRequest,
    define,
)
from hloc.lazy_dataclass import dataclass
from hloc.ops.checks import (
    array_operand,
    check_compatible,
    check_parameters,
    declared_tuple,
    require,
)
from hloc.ops.shared import first_operand, zeros_of
from hloc.shapes import ArrayShape, Shape, TupleShape


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncStartAttributes:
    async_execution_thread: str = attr("string", default="main")


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStartAttributes:
    cross_program_prefetch_index: int | None = attr("int", default=None)


def infer_async_start(request: ShapeRequest) -> Shape:
    """Check `((operands), result, contexts...)` against the called computation."""
    declared = declared_tuple("async-start", request, 2)
    result = check_parameters("async-start", request.called[0], request.operands)
    check_compatible(
        "async-start", "element 0 of the result", declared.elements[0], TupleShape(request.operands)
    )
    check_compatible("async-start", "element 1 of the result", declared.elements[1], result)
    return declared


def infer_async_update(request: ShapeRequest) -> Shape:
    """Return the operand's shape, that of the start."""
    return _started("async-update", request)


def infer_async_done(request: ShapeRequest) -> Shape:
    """Return element 1 of the operand, the result of the wrapped instruction."""
    return _started("async-done", request).elements[1]


def _started(name: str, request: ShapeRequest) -> TupleShape:
    (shape,) = request.operands
    if not isinstance(shape, TupleShape) or len(shape.elements) < 2:
        require(
            False, f"{name}: operand 0 must be an async-start, but is {shape.text_without_layout}"
        )
    assert isinstance(shape, TupleShape)
    return shape


def infer_copy_start(request: ShapeRequest) -> Shape:
    """Check `(destination, source, u32[])`; destination and source are as the operand."""
    operand = array_operand("copy-start", request, 0)
    declared = declared_tuple("copy-start", request, 3)
    check_compatible("copy-start", "the result", declared, TupleShape((operand, operand, _CONTEXT)))
    return declared


def infer_copy_done(request: ShapeRequest) -> Shape:
    """Return element 0 of the operand, the destination."""
    return _started("copy-done", request).elements[0]


_CONTEXT = ArrayShape(U32)


def _evaluate_async_start(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    assert isinstance(inst.shape, TupleShape)
    contexts = tuple(zeros_of(shape) for shape in inst.shape.elements[2:])
    return (tuple(operands), call(inst.called[0], *operands), *contexts)


def _evaluate_async_done(_inst: Instruction, operands: Operands, _call: CallFunction) -> HostValue:
    return operands[0][1]


def _evaluate_copy_start(_inst: Instruction, operands: Operands, _call: CallFunction) -> HostValue:
    return operands[0], operands[0], np.uint32(0)


def _evaluate_copy_done(_inst: Instruction, operands: Operands, _call: CallFunction) -> HostValue:
    return operands[0][0]


ASYNC_START = define(
    name="async-start",
    reads="async-start(a, ...) starts calls(a, ...): ((operands), result, contexts...)",
    arity=None,
    infer=infer_async_start,
    shape_required=True,
    attributes=AsyncStartAttributes,
    calls=(CalledRole("calls"),),
    evaluate=_evaluate_async_start,
    control_flow=True,
    ended_by=("async-update", "async-done"),
)

ASYNC_UPDATE = define(
    name="async-update",
    reads="async-update(s) is s, a step of a started computation",
    arity=1,
    infer=infer_async_update,
    shape_required=True,
    evaluate=first_operand,
    forwards=True,
    ended_by=("async-update", "async-done"),
)

ASYNC_DONE = define(
    name="async-done",
    reads="async-done(s) is the result of the computation that s started",
    arity=1,
    infer=infer_async_done,
    shape_required=True,
    evaluate=_evaluate_async_done,
    nop=True,
)

COPY_START = define(
    name="copy-start",
    reads="copy-start(x) starts a copy of x: (destination, source, context)",
    arity=1,
    infer=infer_copy_start,
    shape_required=True,
    attributes=CopyStartAttributes,
    evaluate=_evaluate_copy_start,
    ended_by=("copy-done",),
)

COPY_DONE = define(
    name="copy-done",
    reads="copy-done(s) is the copy that s started",
    arity=1,
    infer=infer_copy_done,
    shape_required=True,
    evaluate=_evaluate_copy_done,
    nop=True,
)
