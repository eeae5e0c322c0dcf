"""One elementwise operation as a computation, for all opcodes and types with a meaning to Z3."""

from hloc.dtypes import DTYPES, PRED, DType
from hloc.ir.computation import Computation
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.ops.builder import Builder
from hloc.prove.meanings.integers import INTEGERS
from hloc.prove.meanings.predicates import PREDICATES
from hloc.prove.meanings.table import MAX_POWER_BITS
from hloc.shapes import ArrayShape

INTEGER_TYPES = tuple(d for d in DTYPES.values() if d.is_integer)
DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")


def has_meaning(name: str, dtype: DType) -> bool:
    """Return False where HLO has no such operation, or no solver decides it."""
    if name in ("abs", "sign"):
        return dtype.is_signed
    return name != "power" or dtype.bits <= MAX_POWER_BITS


INTEGER_CASES = [
    *[(name, dtype) for name in INTEGERS for dtype in INTEGER_TYPES if has_meaning(name, dtype)],
    *[(name, PRED) for name in PREDICATES],
    *[(f"compare {direction}", d) for direction in DIRECTIONS for d in (PRED, *INTEGER_TYPES)],
    *[("select", dtype) for dtype in (PRED, *INTEGER_TYPES)],
]
"""Opcode (with its direction, `compare LT`) and type of the operands."""


def computation_of(name: str, dtype: DType) -> Computation:
    """Return the operation on scalar parameters."""
    computation = Module("m").add_computation("e")
    b = Builder(computation)
    name, _, direction = name.partition(" ")
    kinds = [dtype] * (opcode_row(name).arity or 0)
    if name == "select":
        kinds[0] = PRED
    operands = [b.parameter(n, ArrayShape(kind)) for n, kind in enumerate(kinds)]
    if name == "compare":
        computation.set_root(b.compare(operands[0], operands[1], direction))
    else:
        computation.set_root(b.instruction(name, operands))
    return computation
