"""Instructions that reduce over a sharded dimension: partial results, then combined."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.dtypes import DType
from hloc.ir.computation import Computation
from hloc.ir.factors import FactorRule
from hloc.ir.instruction import Instruction
from hloc.ops.emit import all_ones
from hloc.opt.spmd.assignment import Assignment
from hloc.opt.spmd.local import local_instruction
from hloc.opt.spmd.region import Region, Value
from hloc.opt.spmd.reshard import reshard
from hloc.opt.spmd.sums import reducer, summed
from hloc.opt.spmd.tiling import Tiling
from hloc.shapes import ArrayShape

_REDUCERS = ("add", "multiply", "minimum", "maximum", "and", "or", "xor")


def is_combinable(inst: Instruction) -> bool:
    """True if parts of the result can be combined by an all-reduce."""
    if inst.is_a("dot", "convolution"):
        return True
    return inst.is_a("reduce") and len(inst.operands) == 2 and reducer_opcode(inst) != ""


def reducer_opcode(inst: Instruction) -> str:
    """Return the opcode that the reducer of `inst` applies to its two parameters, or ""."""
    return opcode_of(inst.called[0])


def opcode_of(computation: Computation) -> str:
    """Return the opcode that a computation applies to its two parameters, or ""."""
    root, parameters = computation.root, computation.parameters
    if root.opcode.name in _REDUCERS and set(root.operands) == set(parameters):
        return root.opcode.name
    return ""


def combined(
    region: Region,
    inst: Instruction,
    operands: Sequence[Value],
    rule: FactorRule,
    assignment: Assignment,
    wanted: Tiling | None,
) -> Value:
    """Compute `inst` on each device's part, and combine the results."""
    assert isinstance(inst.shape, ArrayShape)
    axes, dtype, b = assignment.reduced(rule), inst.array.dtype, region.build
    opcode = reducer_opcode(inst) if inst.is_a("reduce") else "add"
    values = list(operands)
    init = None
    for number, (value, factors) in enumerate(zip(values, rule.operands, strict=True)):
        dims = [dim for dim, factor in enumerate(factors) if factor in rule.reductions]
        fill = b.constant(identity(opcode, value.whole.dtype), value.whole.dtype)
        values[number] = region.masked(value, dims, fill)
    if inst.is_a("reduce"):
        init = values[1].inst
        start = b.constant(identity(opcode, init.array.dtype), init.array.dtype)
        values[1] = region.value(start, values[1].whole, values[1].tiling)
    local = local_instruction(region, inst, [v.inst for v in values], rule, assignment)
    tiling = assignment.tiling(rule.results[0])
    combine = reducer(region, opcode, dtype) if init is None else inst.called[0]
    result = summed(region, local, inst.array, tiling, axes, combine, wanted)
    if init is not None and not _is_identity(init, opcode):
        spread = b.broadcast(init, result.inst.array.dims)
        result = region.value(
            b.instruction(opcode, (spread, result.inst)), inst.array, result.tiling
        )
    return reshard(region, result, wanted) if wanted is not None else result


def identity(opcode: str, dtype: DType) -> float | int | bool:
    """Return the neutral element: 0 of a sum, -inf of a maximum."""
    if opcode in ("minimum", "maximum"):
        if dtype.is_pred:
            return opcode == "minimum"
        sign = 1 if opcode == "minimum" else -1
        return sign * float("inf") if dtype.is_float else _limit(dtype, opcode)
    if opcode == "and":
        return True if dtype.is_pred else all_ones(dtype)
    return int(opcode == "multiply")


def _limit(dtype: DType, opcode: str) -> int:
    low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
    high = (1 << (dtype.bits - dtype.is_signed)) - 1
    return high if opcode == "minimum" else low


def _is_identity(init: Instruction, opcode: str) -> bool:
    if not init.is_a("constant"):
        return False
    value = init.attributes.literal.value
    return value is not None and bool(value == identity(opcode, init.array.dtype))
