"""Decides which reductions MPI may compute; MPI's types and operations for those of HLO."""

from __future__ import annotations

from hloc.codegen.plan.exchange import Pieces
from hloc.dtypes import dtype_named
from hloc.runtime.communicator.mpi.calls import Handle

_NARROW = [f"{sign}{bits}" for sign in "su" for bits in (8, 16)]
_WIDE = [f"{sign}{bits}" for sign in "su" for bits in (32, 64)]
_TYPES = {
    **{f"s{bits}": f"INT{bits}_T" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"UINT{bits}_T" for bits in (8, 16, 32, 64)},
    "pred": "UINT8_T",
    "f32": "FLOAT",
    "f64": "DOUBLE",
    "c64": "C_FLOAT_COMPLEX",
    "c128": "C_DOUBLE_COMPLEX",
}
"""MPI's types, by their names in mpi4py."""

_LOGICAL = {"and": "BAND", "or": "BOR", "xor": "BXOR"}
_ORDERED = {"minimum": "MIN", "maximum": "MAX", **_LOGICAL}
_OPS = {
    **{narrow: _ORDERED for narrow in _NARROW},
    **{wide: {"add": "SUM", "multiply": "PROD", **_ORDERED} for wide in _WIDE},
    "pred": {**_LOGICAL, "minimum": "BAND", "maximum": "BOR"},
    "f32": {"add": "SUM", "multiply": "PROD"},
    "f64": {"add": "SUM", "multiply": "PROD"},
    "c64": {"add": "SUM"},
    "c128": {"add": "SUM"},
}
"""MPI's operations by element type and reducer.

Its minimum and maximum of floats lose NaN. Its sums of 8 and 16 bits may not wrap around: Open
MPI 5 saturates them where it has vector instructions.
"""


def native_sum(
    pieces: Pieces, reducer: str, members: int, *, fast: bool, most_bytes: int
) -> tuple[int, Handle, Handle] | None:
    """Return count, type and operation if MPI may reduce an array, else None.

    It may if the order of the sum does not change the bits: for integers, and for two members.

    Args:
        pieces: the array.
        reducer: opcode of the reducer, "" if it is not one instruction.
        members: of the group.
        fast: the bits of float sums may differ.
        most_bytes: of one message.
    """
    dtype = dtype_named(pieces.dtype)
    op = _OPS.get(pieces.dtype, {}).get(reducer)
    count = pieces.size_bytes // dtype.storage_bytes
    is_exact = dtype.is_integer or dtype.is_pred or members == 2
    if op is None or pieces.size_bytes > most_bytes or not (is_exact or fast):
        return None
    return count, Handle("type", _TYPES[pieces.dtype]), Handle("op", op)
