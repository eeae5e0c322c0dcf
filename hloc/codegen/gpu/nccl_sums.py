"""Decides which reductions NCCL may compute; NCCL's types and operations for those of HLO."""

from __future__ import annotations

from hloc.dtypes import DType

TYPES = {
    "s8": 0, "u8": 1, "pred": 1, "s32": 2, "u32": 3, "s64": 4, "u64": 5, "f16": 6, "f32": 7,
    "f64": 8, "bf16": 9,
}  # fmt: skip
"""`ncclDataType_t` by element type. Source: `nccl.h`."""

OPERATIONS = {"add": 0, "multiply": 1, "maximum": 2, "minimum": 3}
"""`ncclRedOp_t` by opcode of the reducer."""

_OF_PRED = {"or": 2, "and": 3, "maximum": 2, "minimum": 3}
_ANY_ORDER = ("add", "multiply")


def nccl_operation(dtype: DType, reducer: str, members: int, *, fast: bool) -> int | None:
    """Return the operation by which NCCL may reduce arrays, None if hloc must reduce them.

    NCCL may if the order cannot change the bits: integers, and two members of f32 or f64. Its
    minimum and maximum of floats ignore NaN; it rounds bf16 and f16 at other steps.

    Args:
        dtype: of the arrays.
        reducer: opcode of the reducer, "" if it is not one instruction.
        members: of the largest group.
        fast: the bits of float sums may differ.
    """
    if dtype.name not in TYPES:
        return None
    if dtype.is_pred:
        return _OF_PRED.get(reducer)
    if dtype.is_integer:
        return OPERATIONS.get(reducer)
    is_exact = members == 2 and dtype.name in ("f32", "f64")
    return OPERATIONS[reducer] if reducer in _ANY_ORDER and (is_exact or fast) else None
