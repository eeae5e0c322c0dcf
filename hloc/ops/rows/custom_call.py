"""custom-call: attributes, shape rule and row; `custom_call_targets.py` defines the targets."""

from __future__ import annotations

from hloc.errors import UnsupportedError
from hloc.ir.attribute_fields import attr
from hloc.ir.attributes import ConvolutionDimensions, RawText, Window
from hloc.ir.factors import FactorDraft
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
from hloc.ops.checks import check_compatible, declared_shape, require
from hloc.ops.contraction import precisions
from hloc.ops.custom_calls.custom_call_targets import refusal_of, target_of
from hloc.shapes import ArrayShape, Shape, leaves

PADDING_TYPES = ("PADDING_INVALID", "PADDING_SAME", "PADDING_VALID")
SCHEDULES = ("SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST")
API_VERSIONS = (
    "API_VERSION_ORIGINAL",
    "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED",
    "API_VERSION_TYPED_FFI",
)

LINALG_PREFIX = "hloc_linalg_"
"""Prefix of targets with kernels of hloc's own (`codegen/kernels/linalg`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomCallAttributes:
    window: Window | None = attr("window", default=None)
    dim_labels: ConvolutionDimensions | None = attr("dim_labels", default=None)
    feature_group_count: int = attr("int", default=1)
    batch_group_count: int = attr("int", default=1)
    operand_precision: tuple[str, ...] = precisions()
    padding_type: str = attr("enum", default="PADDING_INVALID", choices=PADDING_TYPES)
    custom_call_target: str = attr("string")
    operand_layout_constraints: tuple[Shape, ...] | None = attr("shape_list", default=None)
    custom_call_has_side_effect: bool = attr("bool", default=False)
    literal: RawText | None = attr("raw", default=None)
    output_to_operand_aliasing: RawText | None = attr("raw", default=None)
    schedule: str = attr("enum", default="SCHEDULE_NONE", choices=SCHEDULES)
    api_version: str = attr("enum", default="API_VERSION_ORIGINAL", choices=API_VERSIONS)


def is_linalg(inst: Instruction) -> bool:
    """True for custom calls that have a kernel of hloc's own."""
    return inst.is_a("custom-call") and inst.attributes.custom_call_target.startswith(LINALG_PREFIX)


def infer_custom_call(request: ShapeRequest) -> Shape:
    """Return the declared shape; each layout constraint must match its operand."""
    constraints = request.attributes.operand_layout_constraints
    if constraints is not None:
        require(
            len(constraints) == len(request.operands),
            f"custom-call: {len(request.operands)} operands, "
            f"but {len(constraints)} operand_layout_constraints",
        )
        for index, (shape, operand) in enumerate(zip(constraints, request.operands, strict=True)):
            check_compatible("custom-call", f"layout constraint {index}", shape, operand)
    return declared_shape("custom-call", request)


def _evaluate_custom_call(inst: Instruction, operands: Operands, _call: CallFunction) -> HostValue:
    target = target_of(inst)
    if target is None:
        raise UnsupportedError(f"{inst.name}: {refusal_of(inst)}", inst.span)
    return target.evaluate(inst, operands)


def batch_dims(inst: Instruction) -> int:
    """Return the number of leading batch dimensions that a custom call declares.

    JAX writes `frontend_attributes={num_batch_dims="1"}` on its calls of LAPACK.
    """
    text = dict(inst.common.frontend_attributes).get("num_batch_dims", "").strip('"')
    return int(text) if text.isdecimal() and len(text) < 3 else 0


def _factors(draft: FactorDraft, inst: Instruction) -> None:
    """Link the batch dimensions, in equal parts: a library may fail on padding."""
    shapes = [operand.array for operand in inst.operands]
    shapes += [shape for _, shape in leaves(inst.shape) if isinstance(shape, ArrayShape)]
    for dim in range(min([batch_dims(inst), *(shape.rank for shape in shapes)])):
        if len({shape.dims[dim] for shape in shapes}) > 1:
            return
        factor = draft.factor(shapes[0].dims[dim])
        draft.even.add(factor)
        for side in (*draft.operands, *draft.results):
            side[dim] = factor


CUSTOM_CALL = define(
    reads="custom-call(a, ...) is what the library function custom_call_target does",
    infer=infer_custom_call,
    shape_required=True,
    attributes=CustomCallAttributes,
    calls=(CalledRole("called_computations", many=True, optional=True, aliases=("to_apply",)),),
    evaluate=_evaluate_custom_call,
    factors=_factors,
)
