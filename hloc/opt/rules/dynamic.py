"""Laws of dynamic-slice and dynamic-update-slice: whole arrays, known places, empty updates."""

from __future__ import annotations

from hloc.ir.attributes import SliceDimension
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.opt.make import make
from hloc.opt.pattern import Found, P
from hloc.opt.rule import Rule
from hloc.opt.values import splat_value


def _takes_everything(inst: Instruction, _found: Found) -> bool:
    return inst.shape == inst.operands[0].shape


def _writes_everything(inst: Instruction, _found: Found) -> bool:
    return inst.shape == inst.operands[1].shape


def _starts(inst: Instruction) -> tuple[int, ...] | None:
    """Return the start of each dimension, clamped as HLO says, if all are constants."""
    indices = inst.operands[1:]
    if len(indices) != inst.array.rank or not all(i.array.is_scalar for i in indices):
        return None  # the old form with one vector of starts
    starts: list[int] = []
    source = inst.operands[0].array.dims
    for index, whole, size in zip(indices, source, inst.array.dims, strict=True):
        value = splat_value(index)
        if whole == size:
            starts.append(0)
        elif value is None:
            return None
        else:
            starts.append(min(max(int(value), 0), whole - size))
    return tuple(starts)


def _known_starts(inst: Instruction, _found: Found) -> bool:
    return _starts(inst) is not None


def _static_slice(computation: Computation, inst: Instruction, _found: Found) -> Instruction:
    starts = _starts(inst)
    assert starts is not None
    parts = tuple(
        SliceDimension(start, start + size)
        for start, size in zip(starts, inst.array.dims, strict=True)
    )
    return make(computation, "slice", inst.shape, inst.operands[0], slice=parts)


def _writes_nothing(inst: Instruction, _found: Found) -> bool:
    return inst.operands[1].array.elements == 0


DYNAMIC = (
    Rule(
        "dynamic-slice-everything",
        P("dynamic-slice"),
        lambda _computation, inst, _found: inst.operands[0],
        when=_takes_everything,
    ),
    Rule("dynamic-slice-constant", P("dynamic-slice"), _static_slice, when=_known_starts),
    Rule(
        "dynamic-update-slice-everything",
        P("dynamic-update-slice"),
        lambda _computation, inst, _found: inst.operands[1],
        when=_writes_everything,
    ),
    Rule(
        "dynamic-update-slice-nothing",
        P("dynamic-update-slice"),
        lambda _computation, inst, _found: inst.operands[0],
        when=_writes_nothing,
    ),
)
