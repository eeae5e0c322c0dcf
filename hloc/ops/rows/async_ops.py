"""Asynchronous halves: async-start, async-update, async-done, copy-start, copy-done.

`X-start` in the text is an `async-start` that calls a computation of parameters and the single
instruction X. A single device runs all of it at the start.
"""

from __future__ import annotations

import numpy as np

from hloc.dtypes import U32
from hloc.ir.async_chain import async_start_of, is_complete, is_prefix
from hloc.ir.attribute_fields import attr
from hloc.ir.attributes import RawText
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
from hloc.ops.array_values import zeros_of
from hloc.ops.checks import (
    array_operand,
    check_compatible,
    declared_tuple,
    require,
)
from hloc.shapes import ArrayShape, Shape, TupleShape


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncStartAttributes:
    async_execution_thread: str = attr("string", default="main")
    output_to_operand_aliasing: RawText | None = attr("raw", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStartAttributes:
    cross_program_prefetch_index: int | None = attr("int", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncUpdateAttributes:
    output_to_operand_aliasing: RawText | None = attr("raw", default=None)


def infer_async_start(request: ShapeRequest) -> Shape:
    """Check `((operands), result, contexts...)` against the called computation.

    Operands may be the first ones only, and the result `()`: updates add the others.
    """
    declared = _link_shape("async-start", request)
    computation = request.called[0]
    check_compatible(
        "async-start", "element 0 of the result", declared.elements[0], TupleShape(request.operands)
    )
    parameters = TupleShape(tuple(p.shape for p in computation.parameters))
    for what, part, whole in (
        ("operands", declared.elements[0], parameters),
        ("result", declared.elements[1], computation.root.shape),
    ):
        require(
            is_prefix(part, whole),
            f"async-start: {what} {part.text_without_layout} do not begin those of computation "
            f"{computation.name}, {whole.text_without_layout}",
        )
    return declared


def infer_async_update(request: ShapeRequest) -> Shape:
    """Check the declared shape: that of operand 0 with the shapes of the other operands added.

    The result may be added, or extended.
    """
    before, declared = _started("async-update", request), _link_shape("async-update", request)
    bound = before.elements[0]
    require(
        isinstance(bound, TupleShape),
        f"async-update: operand 0 has shape {before.text_without_layout}, which is no started one",
    )
    assert isinstance(bound, TupleShape)
    expected = TupleShape((*bound.elements, *request.operands[1:]))
    check_compatible("async-update", "element 0 of the result", declared.elements[0], expected)
    require(
        is_prefix(before.elements[1], declared.elements[1]),
        f"async-update: the result {declared.elements[1].text_without_layout} does not begin with "
        f"that of the operand, {before.elements[1].text_without_layout}",
    )
    return declared


def infer_async_done(request: ShapeRequest) -> Shape:
    """Return element 1 of the operand, or the declared shape of which it is a prefix."""
    found = _started("async-done", request).elements[1]
    declared = request.declared
    return found if declared is None or not is_prefix(found, declared) else declared


def _link_shape(name: str, request: ShapeRequest) -> TupleShape:
    declared = declared_tuple(name, request, 2)
    require(
        isinstance(declared.elements[0], TupleShape),
        f"{name} has a shape of the form ((operands), result, ...), not "
        f"{declared.text_without_layout}",
    )
    return declared


def _started(name: str, request: ShapeRequest) -> TupleShape:
    require(bool(request.operands), f"{name}: expected at least 1 operand, but found 0")
    shape = request.operands[0]
    if not isinstance(shape, TupleShape) or len(shape.elements) < 2:
        require(
            False, f"{name}: operand 0 must be an async-start, but is {shape.text_without_layout}"
        )
    assert isinstance(shape, TupleShape)
    return shape


def infer_copy_start(request: ShapeRequest) -> Shape:
    """Check `(destination, source, u32[])`; destination and source have the operand's shape."""
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
    result, *contexts = map(zeros_of, inst.shape.elements[1:])
    if is_complete(inst, inst):
        result = call(inst.called[0], *operands)
    return (tuple(operands), result, *contexts)


def _evaluate_async_update(inst: Instruction, operands: Operands, _call: CallFunction) -> HostValue:
    """Add operands; a late-bound computation runs at the done, so there is no result yet."""
    before, *more = operands
    if inst.shape == inst.operands[0].shape:
        return before
    assert isinstance(inst.shape, TupleShape)
    return ((*before[0], *more), *map(zeros_of, inst.shape.elements[1:]))


def _evaluate_async_done(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    start = async_start_of(inst)
    if start is None or is_complete(start, start):
        return operands[0][1]
    return call(start.called[0], *operands[0][0])


ASYNC_START = define(
    reads="async-start(a, ...) starts calls(a, ...): ((operands), result, contexts...)",
    infer=infer_async_start,
    shape_required=True,
    attributes=AsyncStartAttributes,
    calls=(CalledRole("calls"),),
    evaluate=_evaluate_async_start,
    control_flow=True,
    ended_by=("async-update", "async-done"),
)

ASYNC_UPDATE = define(
    reads="async-update(s, a, ...) is s, a started computation, with more operands",
    infer=infer_async_update,
    shape_required=True,
    attributes=AsyncUpdateAttributes,
    evaluate=_evaluate_async_update,
    forwards=True,
    ended_by=("async-update", "async-done"),
)

ASYNC_DONE = define(
    reads="async-done(s) is the result of the computation that s started",
    infer=infer_async_done,
    shape_required=True,
    evaluate=_evaluate_async_done,
    nop=True,
)

COPY_START = define(
    reads="copy-start(x) starts a copy of x: (destination, source, context)",
    infer=infer_copy_start,
    shape_required=True,
    attributes=CopyStartAttributes,
    evaluate=lambda _inst, operands, _call: (operands[0], operands[0], np.uint32(0)),
    ended_by=("copy-done",),
)

COPY_DONE = define(
    reads="copy-done(s) is the copy that s started",
    infer=infer_copy_done,
    shape_required=True,
    evaluate=lambda _inst, operands, _call: operands[0][0],
    nop=True,
)
