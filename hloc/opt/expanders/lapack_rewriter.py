"""Replace LAPACK calls by opcodes."""

from __future__ import annotations

from hloc.ir.instruction import Instruction
from hloc.ir.registered_targets import registered_targets
from hloc.ops.custom_calls.lapack import lapack_attributes
from hloc.opt.expander import Expander, is_static
from hloc.opt.make import make
from hloc.shapes import ArrayShape

_TARGETS = frozenset(f"lapack_{kind}trsm_ffi" for kind in "sdcz")
_TRANSPOSES = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}


class LapackRewriter(Expander):
    """Replace the custom calls `lapack_*trsm_ffi` by `triangular-solve`.

    The two differ only for singular matrices, where both divide by zero. The opcode has a kernel; a
    custom call goes through the host, which copies all operands. Cost: O(instructions). Source: the
    documentation of LAPACK's `strsm`.
    """

    acts_on = frozenset({"custom-call"})

    def when(self, inst: Instruction) -> bool:
        target = inst.attributes.custom_call_target
        if target not in _TARGETS - registered_targets() or len(inst.operands) != 2:
            return False
        shapes = [inst.shape, *(operand.shape for operand in inst.operands)]
        if not all(isinstance(shape, ArrayShape) and shape.rank >= 2 for shape in shapes):
            return False
        a = lapack_attributes(inst)
        known = a.get("uplo", "L") in ("L", "U") and a.get("trans_x", "N") in _TRANSPOSES
        matrix, right = (operand.array for operand in inst.operands)
        size = right.dims[-2 if a.get("side", "L") == "L" else -1]
        fits = right.dims == inst.array.dims and matrix.dims == (*right.dims[:-2], size, size)
        return (
            known and fits and matrix.dtype is right.dtype is inst.array.dtype and is_static(inst)
        )

    def expand(self, inst: Instruction) -> Instruction:
        a = lapack_attributes(inst)
        return make(
            inst.computation,
            "triangular-solve",
            inst.shape,
            *inst.operands,
            left_side=a.get("side", "L") == "L",
            lower=a.get("uplo", "L") == "L",
            unit_diagonal=a.get("diag", "N") == "U",
            transpose_a=_TRANSPOSES[a.get("trans_x", "N")],
        )
