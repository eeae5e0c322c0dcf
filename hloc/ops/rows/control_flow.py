"""Tuples, calls, control flow, tokens: `tuple` to `domain` of the format reference, 12.4-12.7."""

from __future__ import annotations

from hloc.dtypes import PRED, S32
from hloc.errors import HloError
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
from hloc.ops.array_values import first_operand
from hloc.ops.checks import (
    check_compatible,
    check_parameters,
    check_token,
    require,
)
from hloc.ops.shape_rules import as_operand
from hloc.shapes import TOKEN_SHAPE, ArrayShape, Shape, TupleShape, compatible


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTupleElementAttributes:
    index: int = attr("int")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAttributes:
    """`is_composite` is printed after `to_apply`."""

    is_composite: bool = attr("bool", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionAttributes:
    kind: str = attr("enum", choices=("kLoop", "kInput", "kOutput", "kCustom"))
    output_to_operand_aliasing: RawText | None = attr("raw", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainAttributes:
    domain: RawText = attr("raw")


# ---------------------------------------------------------------- shape rules


def infer_tuple(request: ShapeRequest) -> Shape:
    """Return the tuple of the operands' shapes."""
    return TupleShape(request.operands)


def infer_get_tuple_element(request: ShapeRequest) -> Shape:
    """Return element `index` of the operand."""
    (operand,) = request.operands
    index = request.attributes.index
    if not isinstance(operand, TupleShape):
        raise HloError(
            f"get-tuple-element: operand 0 must be a tuple, but is {operand.text_without_layout}"
        )
    require(
        0 <= index < len(operand.elements),
        f"get-tuple-element: index {index} is out of range for a tuple of "
        f"{len(operand.elements)} elements",
    )
    element: Shape = operand.elements[index]
    return element


def infer_call(request: ShapeRequest) -> Shape:
    """Return the shape of the root of the called computation."""
    return check_parameters("call", request.called[0], request.operands)


def infer_fusion(request: ShapeRequest) -> Shape:
    """Return the shape of the root of the fused computation."""
    return check_parameters("fusion", request.called[0], request.operands)


def infer_while(request: ShapeRequest) -> Shape:
    """Return the shape of the initial value, which condition and body must take."""
    (init,) = request.operands
    condition, body = request.called
    result = check_parameters("while", condition, (init,))
    check_compatible("while", f"the result of condition {condition.name}", result, ArrayShape(PRED))
    result = check_parameters("while", body, (init,))
    check_compatible("while", f"the result of body {body.name}", result, init)
    return init


def infer_conditional(request: ShapeRequest) -> Shape:
    """Return the shape that all branches return.

    Operand 0 is a `pred[]` with two branches or an `s32[]` with one or more; operand i + 1 is the
    argument of branch i.
    """
    require(bool(request.operands), "conditional: expected at least 2 operands, but found 0")
    index, *arguments = request.operands
    require(
        any(compatible(index, ArrayShape(dtype)) for dtype in (PRED, S32)),
        f"conditional: operand 0 must be pred[] or s32[], but is {index.text_without_layout}",
    )
    branches = request.called
    if compatible(index, ArrayShape(PRED)):
        require(len(branches) == 2, f"conditional: pred[] picks of 2 branches, not {len(branches)}")
    require(bool(branches), "conditional: needs at least one branch computation")
    require(
        len(arguments) == len(branches),
        f"conditional: {len(branches)} branches need {len(branches) + 1} operands, "
        f"but found {len(arguments) + 1}",
    )
    results = [
        check_parameters("conditional", branch, (argument,))
        for branch, argument in zip(branches, arguments, strict=True)
    ]
    for branch, result in zip(branches, results, strict=True):
        check_compatible("conditional", f"the result of branch {branch.name}", result, results[0])
    return results[0]


def infer_after_all(request: ShapeRequest) -> Shape:
    """Return `token[]`; XLA takes operands of any type, not only tokens."""
    return TOKEN_SHAPE


def infer_add_dependency(request: ShapeRequest) -> Shape:
    """Return the shape of the value; operand 1 is a token."""
    check_token("add-dependency", request, 1)
    return request.operands[0]


# ---------------------------------------------------------------- evaluation


def _evaluate_call(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    return call(inst.called[0], *operands)


def _evaluate_while(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    condition, body = inst.called
    (value,) = operands
    while bool(call(condition, value)):
        value = call(body, value)
    return value


def branch_taken(index: HostValue, branches: int) -> int:
    """Return the branch that `index` selects: true is 0; out of range is the last one."""
    if index.dtype == bool:
        return 0 if index else 1
    return int(index) if 0 <= index < branches else branches - 1


def _evaluate_conditional(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    branch = branch_taken(operands[0], len(inst.called))
    return call(inst.called[branch], operands[1 + branch])


# ---------------------------------------------------------------- rows

TUPLE = define(
    reads="tuple(a, b, ...) is the tuple of its operands",
    infer=infer_tuple,
    evaluate=lambda _inst, operands, _call: tuple(operands),
    nop=True,
)

GET_TUPLE_ELEMENT = define(
    reads="get-tuple-element(t), index=i is element i of t",
    infer=infer_get_tuple_element,
    attributes=GetTupleElementAttributes,
    evaluate=lambda inst, operands, _call: operands[0][inst.attributes.index],
    nop=True,
)

CALL = define(
    reads="call(a, b, ...) is to_apply(a, b, ...)",
    infer=infer_call,
    attributes=CallAttributes,
    calls=(CalledRole("to_apply"),),
    evaluate=_evaluate_call,
    control_flow=True,
)

FUSION = define(
    reads="fusion(a, b, ...) is calls(a, b, ...), computed as one kernel",
    infer=infer_fusion,
    shape_required=True,
    attributes=FusionAttributes,
    calls=(CalledRole("calls"),),
    evaluate=_evaluate_call,
)

WHILE = define(
    reads="while(x): as long as condition(x) holds, x becomes body(x); the last x",
    infer=infer_while,
    calls=(CalledRole("condition"), CalledRole("body")),
    evaluate=_evaluate_while,
    control_flow=True,
)

CONDITIONAL = define(
    reads="conditional(i, a0, a1, ...) is branch i of a_i; out of range takes the last branch",
    infer=infer_conditional,
    calls=(
        CalledRole("true_computation", optional=True),
        CalledRole("false_computation", optional=True),
        CalledRole("branch_computations", many=True, optional=True),
    ),
    evaluate=_evaluate_conditional,
    control_flow=True,
)

OPT_BARRIER = define(
    reads="opt-barrier(x) is x; no pass may move anything across",
    infer=as_operand,
    shape_required=True,
    evaluate=first_operand,
    forwards=True,
)

AFTER_ALL = define(
    reads="after-all(a, ...) is a token that comes after all of them",
    infer=infer_after_all,
    evaluate=lambda _inst, _operands, _call: None,
    nop=True,
)

ADD_DEPENDENCY = define(
    reads="add-dependency(x, token) is x, computed after the token",
    infer=infer_add_dependency,
    evaluate=first_operand,
    forwards=True,
)

DOMAIN = define(
    reads="domain(x) is x; it parts regions of different sharding",
    infer=as_operand,
    attributes=DomainAttributes,
    evaluate=first_operand,
    forwards=True,
)
