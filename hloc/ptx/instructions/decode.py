"""Instructions to operations: one decoder per opcode, found in the tables of the families."""

from __future__ import annotations

from hloc.ptx.copies import DECODERS as COPIES
from hloc.ptx.frame import Frame
from hloc.ptx.instructions.atomics import DECODERS as ATOMICS
from hloc.ptx.instructions.bits import DECODERS as BITS
from hloc.ptx.instructions.carry import decode as decode_with_carry
from hloc.ptx.instructions.collectives import DECODERS as COLLECTIVES
from hloc.ptx.instructions.collectives import decode_active_mask
from hloc.ptx.instructions.compare import COMBINATIONS, COMPARISONS
from hloc.ptx.instructions.compare import DECODERS as COMPARE
from hloc.ptx.instructions.conversion import DECODERS as CONVERSION
from hloc.ptx.instructions.floats import DECODERS as FLOATS
from hloc.ptx.instructions.integer import DECODERS as INTEGER
from hloc.ptx.instructions.mbarrier_access import DECODERS as MBARRIER
from hloc.ptx.instructions.memory_access import DECODERS as MEMORY_ACCESS
from hloc.ptx.instructions.moves import DECODERS as MOVES
from hloc.ptx.instructions.tensor import DECODERS as TENSOR
from hloc.ptx.instructions.warpgroup import DECODERS as WARPGROUP
from hloc.ptx.operation import Decoder, Operation, guarded
from hloc.ptx.program import Instruction
from hloc.ptx.value_types import TYPES

PLAIN: dict[str, Decoder] = {
    **MOVES,
    **INTEGER,
    **BITS,
    **COMPARE,
    **CONVERSION,
    **MEMORY_ACCESS,
    **ATOMICS,
    **COPIES,
    **MBARRIER,
}
COLLECTIVE: dict[str, Decoder] = {**COLLECTIVES, **TENSOR, **WARPGROUP}


_ROUNDING = ("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "approx", "full")
_RANGE = ("ftz", "noftz", "sat", "satfinite", "relu", "NaN", "xorsign", "abs")
_FORMS = ("lo", "hi", "wide", "cc", "l", "r", "wrap", "clamp", "shiftamt")
_PERMUTATIONS = ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
_TESTS = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
_QUALIFIERS = {*_ROUNDING, *_RANGE, *_FORMS, *_PERMUTATIONS, *_TESTS, *COMPARISONS, *COMBINATIONS}
_CHECKED = {**INTEGER, **BITS, **COMPARE, **CONVERSION, **FLOATS}


def _check_qualifiers(instruction: Instruction, frame: Frame) -> None:
    """Raise a fault for an unknown qualifier, which may change the result."""
    if instruction.parts[0] not in _CHECKED:
        return
    for part in instruction.parts[1:]:
        if part not in TYPES and part not in _QUALIFIERS:
            raise frame.fault(f"unknown opcode {instruction.opcode}: .{part} is not known")


def decoder_of(instruction: Instruction, frame: Frame) -> Decoder:
    """Return the decoder of an instruction that is neither a jump nor a barrier.

    Raises:
        PtxFault: the opcode is not supported.
    """
    _check_qualifiers(instruction, frame)
    opcode = instruction.parts[0]
    last = TYPES.get(instruction.parts[-1])
    if instruction.opcode == "activemask.b32":
        return decode_active_mask
    if "cc" in instruction.parts or opcode in ("addc", "subc", "madc"):
        return decode_with_carry
    if last is not None and last.is_float and opcode in FLOATS:
        return FLOATS[opcode]
    found = PLAIN.get(opcode) or COLLECTIVE.get(opcode)
    if found is None:
        raise frame.fault(f"unknown opcode {instruction.opcode}")
    return found


def decode_operation(instruction: Instruction, frame: Frame) -> Operation:
    """Return the operation of an instruction, its guard included."""
    operation = decoder_of(instruction, frame)(instruction, frame)
    if instruction.guard is None:
        return operation
    row, negated = guard_of(instruction, frame)
    assert row is not None
    return guarded(operation, row, negated)


def guard_of(instruction: Instruction, frame: Frame) -> tuple[int | None, bool]:
    """Return the row of the guard and whether it is negated; None without a guard."""
    if instruction.guard is None:
        return None, False
    return frame.source(instruction.guard.register, TYPES["pred"]), instruction.guard.negated
