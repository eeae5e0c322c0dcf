"""Rules of XLA's parser for particular opcodes, beyond the opcode's row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hloc.dtypes import PRED, U32
from hloc.errors import HloError
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import Opcode
from hloc.shapes import (
    TOKEN_SHAPE,
    ArrayShape,
    Layout,
    Shape,
    TupleShape,
    compatible,
    row_major,
)
from hloc.source import Span

_EVEN = ("reduce", "reduce-window")
# XLA accepts surplus operands of these opcodes and drops them.
_TAKES_TOO_MANY = ("dot", "ragged-dot", "scaled-dot")


def check_operand_count(
    row: Opcode, operands: tuple[Instruction, ...], called: tuple[Computation, ...], span: Span
) -> None:
    """Raise `HloError` if the number of operands is wrong for `row`."""
    count = len(operands)
    if row.arity is not None and count != row.arity:
        if row.name in _TAKES_TOO_MANY and count > row.arity:
            return
        raise _count_error(f"expects {row.arity} operands, but has {count} operands", row, span)
    if row.name == "convolution" and count < 2:
        raise _count_error(f"expects at least 2 operands, but has {count}", row, span)
    if row.name in _EVEN and (count % 2 or not count):
        raise _count_error(
            f"expects an even number of operands, but has {count} operands", row, span
        )
    if row.name in ("dynamic-slice", "dynamic-update-slice"):
        _check_indices(row, operands, span)
    if row.name == "scatter" and count % 2 == 0:
        raise _count_error(
            f"expects an odd number of operands, but has {count} operands", row, span
        )
    if row.name == "conditional" and count != len(called) + 1:
        raise _count_error(
            f"expects one operand for each of {len(called)} branches behind the first, but has "
            f"{count} operands", row, span,
        )  # fmt: skip


def _check_indices(row: Opcode, operands: tuple[Instruction, ...], span: Span) -> None:
    """Check for one index per dimension of the operand, or a single vector of them."""
    first = 1 if row.name == "dynamic-slice" else 2
    count = len(operands) - first
    if count < 0 or (count == 0 and first == 2):
        raise _count_error(
            f"expects at least {first + 1} operands, but has {len(operands)}", row, span
        )
    shape = operands[0].shape
    index = operands[first].shape if count == 1 else None
    if isinstance(index, ArrayShape) and index.dims:
        return
    if isinstance(shape, ArrayShape) and count != shape.rank:
        raise _count_error(
            f"expects {shape.rank} indices for an operand of shape {shape.text_without_layout}, "
            f"but has {count}", row, span,
        )  # fmt: skip


def _count_error(message: str, row: Opcode, span: Span) -> HloError:
    return HloError(f"{row.name} {message}", span, (), "HLOC0206")


def drop_extra_operands(row: Opcode, operands: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
    """Return the operands XLA keeps."""
    if row.arity is not None and row.name in _TAKES_TOO_MANY:
        return operands[: row.arity]
    return operands


def adjust_attributes(row: Opcode, record: Any, operands: tuple[Instruction, ...]) -> Any:
    """Fill in attributes whose default depends on the operands."""
    if row.name == "outfeed" and record.outfeed_shape is None:
        return replace(record, outfeed_shape=operands[0].shape)
    if row.name == "map" and operands and isinstance(operands[0].shape, ArrayShape):
        return replace(record, dimensions=tuple(range(operands[0].shape.rank)))
    return record


# Opcodes whose `dimensions` has one entry.
_ONE_DIMENSION = frozenset(
    (
        "concatenate", "sort", "scan", "all-gather", "all-gather-start", "get-dimension-size",
        "set-dimension-size",
    )
)  # fmt: skip


SPECIAL_CASES = _ONE_DIMENSION | frozenset(
    (
        "outfeed", "map", "infeed", "recv", "recv-done", "send", "send-done", "constant",
        "custom-call", "all-reduce", "all-reduce-start", "reduce-scatter",
        "collective-permute", "collective-permute-start",
    )
)  # fmt: skip
"""Opcodes that `adjust_attributes`, `check_attributes` or `adjust_shape` handle."""


def check_attributes(
    row: Opcode, record: Any, operands: tuple[Instruction, ...], span: Span
) -> None:
    """Raise `HloError` for attribute values that XLA's parser rejects."""
    if row.name in _ONE_DIMENSION and len(record.dimensions) != 1:
        raise HloError(
            f"{row.name} has one entry in dimensions, not {len(record.dimensions)}",
            span, (), "HLOC0205",
        )  # fmt: skip
    if getattr(record, "use_global_device_ids", False) and record.channel_id is None:
        raise HloError(
            f"{row.name}: use_global_device_ids=true needs a channel_id", span, (), "HLOC0205"
        )
    constraints = getattr(record, "operand_layout_constraints", None)
    if constraints is not None and len(constraints) != len(operands):
        raise HloError(
            f"{row.name} has {len(operands)} operands, but {len(constraints)} "
            "operand_layout_constraints", span, (), "HLOC0205",
        )  # fmt: skip
    for number, (constraint, operand) in enumerate(zip(constraints or (), operands, strict=False)):
        if not compatible(constraint, operand.shape):
            raise HloError(
                f"{row.name}: operand_layout_constraints say {constraint.text_without_layout} for "
                f"operand {number}, whose shape is {operand.shape.text_without_layout}",
                span, (), "HLOC0205",
            )  # fmt: skip
    pairs = getattr(record, "source_target_pairs", ())
    if any(len(pair) != 2 for pair in pairs):
        raise HloError("source_target_pairs are pairs of devices", span, (), "HLOC0205")


def adjust_shape(row: Opcode, shape: Shape, operands: tuple[Instruction, ...], span: Span) -> Shape:
    """Return the shape that XLA computes where it ignores the written one."""
    if row.name == "infeed" and not (isinstance(shape, TupleShape) and shape.elements):
        raise HloError("infeed has a tuple shape, (data, token[])", span, (), "HLOC0201")
    if row.name == "recv-done":
        operand = operands[0].shape
        if not isinstance(operand, TupleShape) or not operand.elements:
            raise HloError("recv-done takes a recv", span, (), "HLOC0206")
        return TupleShape((operand.elements[0], TOKEN_SHAPE))
    if row.name == "recv":
        if not isinstance(shape, TupleShape) or not shape.elements:
            raise HloError("recv has a tuple shape, (data, u32[], token[])", span, (), "HLOC0201")
        return TupleShape((shape.elements[0], ArrayShape(U32), TOKEN_SHAPE))
    if row.name == "constant" and isinstance(shape, ArrayShape) and shape.layout is not None:
        return shape.with_layout(_without_element_size(shape.layout))
    if row.name == "send":
        return TupleShape((operands[0].shape, ArrayShape(U32), TOKEN_SHAPE))
    return TOKEN_SHAPE if row.name in ("outfeed", "send-done") else shape


def _without_element_size(layout: Layout) -> Layout | None:
    found = replace(layout, element_bits=0)
    return None if found == row_major(len(found.minor_to_major)) else found


def check_conditional_roles(
    seen: frozenset[str], operands: tuple[Instruction, ...], span: Span
) -> None:
    """Raise `HloError` if a conditional uses the attributes of the other index type."""
    if not operands:
        return
    shape = operands[0].shape
    by_pred = isinstance(shape, ArrayShape) and shape.dtype is PRED
    wrong = ("branch_computations",) if by_pred else ("true_computation", "false_computation")
    wanted = "true_computation and false_computation" if by_pred else "branch_computations"
    if found := [name for name in wrong if name in seen]:
        raise HloError(
            f"unexpected attribute {found[0]}: a conditional on {shape.text_without_layout} names "
            f"its branches with {wanted}", span, (), "HLOC0202",
        )  # fmt: skip
    missing = [name for name in wanted.split(" and ") if name not in seen]
    if missing:
        raise HloError(
            f"conditional: attribute {missing[0]} is expected but not seen", span, (), "HLOC0204"
        )
