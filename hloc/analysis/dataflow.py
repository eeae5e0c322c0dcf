"""Which instruction defines a value, looking through tuples, calls and loops.

Expects a flattened module: each control-flow computation has one caller. A position is an
array leaf of an instruction's result, `(inst, index)`.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from hloc.analysis.call_graph import control_flow_computations
from hloc.ir.async_chain import async_start_of, is_complete
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.ops.custom_calls.custom_call_targets import target_of
from hloc.shapes import (
    TOKEN_SHAPE,
    ArrayShape,
    Shape,
    ShapeIndex,
    TupleShape,
    data_leaves,
    leaves,
    same_layouts,
)

Position: TypeAlias = tuple[Instruction, ShapeIndex]


@dataclass(frozen=True, slots=True)
class Dataflow:
    """The defining position of every position of one module; stale once the module changes."""

    _callers: dict[Computation, Instruction]
    _invariant: dict[Instruction, frozenset[ShapeIndex]] = field(default_factory=dict)
    _sources: dict[Position, Position] = field(default_factory=dict)

    def caller(self, computation: Computation) -> Instruction | None:
        """Return the instruction that runs `computation`, None for the entry."""
        return self._callers.get(computation)

    def invariant(self, loop: Instruction) -> frozenset[ShapeIndex]:
        """Return the leaves of while `loop` that its body forwards unchanged."""
        return self._invariant[loop]

    def source(self, inst: Instruction, index: ShapeIndex) -> Position:
        """Return the position that defines the value of leaf `index` of `inst`."""
        at = (inst, index)
        path: list[Position] = []
        while (found := self._sources.get(at)) is None:
            path.append(at)
            step = self._forwarded(*at)
            if step is None:
                found = at
                break
            at = step
        for position in path:
            self._sources[position] = found
        return found

    def _forwarded(self, inst: Instruction, index: ShapeIndex) -> Position | None:
        """Return the position that leaf `index` of `inst` forwards, None if its value is new."""
        name = inst.opcode.name
        if name == "parameter":
            return self._argument(inst, index)
        if name == "tuple":
            return inst.operands[index[0]], index[1:]
        if name == "get-tuple-element":
            return inst.operands[0], (inst.attributes.index, *index)
        if name == "call":
            return inst.called[0].root, index
        if name == "while":
            return (inst.operands[0], index) if index in self._invariant.get(inst, ()) else None
        if name == "send" and index[0] == 0:
            return inst.operands[0], index[1:]
        if name == "async-start":
            return _async_start(inst, index)
        if name == "async-done":
            return (inst.operands[0], (1, *index)) if _has_result(inst) else None
        if name == "async-update" and inst.shape != inst.operands[0].shape:
            return None
        if name == "copy-done":
            return inst.operands[0], (0,)
        if name == "copy-start" and index != (2,):
            return inst.operands[0], ()
        if not forwards(inst):
            return None
        if isinstance(inst.shape, TupleShape) and len(_data_operands(inst)) > 1:
            return inst.operands[index[0]], index[1:]
        return inst.operands[0], index

    def _argument(self, parameter: Instruction, index: ShapeIndex) -> Position | None:
        caller = self._callers.get(parameter.computation)
        if caller is None:
            return None
        name = caller.opcode.name
        if name == "while":
            invariant = index in self._invariant.get(caller, ())
            return (caller.operands[0], index) if invariant else None
        if name == "conditional":
            return caller.operands[1 + caller.called.index(parameter.computation)], index
        return caller.operands[parameter.attributes.number], index


def _async_start(inst: Instruction, index: ShapeIndex) -> Position | None:
    if index[0] == 0:
        return inst.operands[index[1]], index[2:]
    ran = index[0] == 1 and is_complete(inst, inst)
    return (inst.called[0].root, index[1:]) if ran else None


def _has_result(done: Instruction) -> bool:
    """True if the start has run, so that the operand of the done has its result."""
    start = async_start_of(done)
    return start is None or is_complete(start, start)


def analyse_dataflow(module: Module) -> Dataflow:
    """Return the dataflow of a flattened `module`, computed again only after a change."""
    return module.derived(_analyse_dataflow)


def _analyse_dataflow(module: Module) -> Dataflow:
    callers: dict[Computation, Instruction] = {}
    order = control_flow_computations(module)
    loops: list[Instruction] = []
    for computation in order:
        for inst in computation.instructions:
            if not inst.opcode.control_flow:
                continue
            for called in inst.called:
                assert callers.setdefault(called, inst) is inst, f"{called} has two callers"
            if inst.opcode.name == "while":
                loops.append(inst)
    dataflow = Dataflow(callers)
    for loop in loops:  # inner loops first
        _find_invariant(dataflow, loop)
    dataflow._sources.clear()
    return dataflow


def _find_invariant(dataflow: Dataflow, loop: Instruction) -> None:
    body = loop.called[1]
    (state,) = body.parameters
    found = [
        index
        for index, _ in leaves(loop.shape)
        if dataflow.source(body.root, index) == (state, index)
    ]
    dataflow._invariant[loop] = frozenset(found)
    if found:
        dataflow._sources.clear()


def nonempty_leaves(shape: Shape) -> list[tuple[ShapeIndex, ArrayShape]]:
    """Return the leaves of `shape` that are arrays with elements, depth first.

    Tokens and arrays without elements are left out: they take no memory.
    """
    if isinstance(shape, ArrayShape):
        return [((), shape)] if shape.size_bytes else []
    return [(index, array) for index, array in data_leaves(shape) if array.size_bytes]


def forwards(inst: Instruction) -> bool:
    """True if the result of `inst` has the bytes of its operand, or is a tuple of all operands."""
    name = inst.opcode.name
    if inst.opcode.forwards:
        return True
    if name == "bitcast":
        return inst.operands[0].array.size_bytes == inst.array.size_bytes
    if name == "reshape":
        return is_row_major(inst.operands[0].array) and is_row_major(inst.array)
    if name == "transpose":
        return _transpose_keeps_bytes(inst)
    if name == "custom-call":
        return is_identity_custom_call(inst)
    return False


def forwarded_shape(inst: Instruction) -> Shape:
    """Return the combined shape of the operands of `inst`, an opcode that forwards."""
    shapes = tuple(operand.shape for operand in _data_operands(inst))
    return shapes[0] if len(shapes) == 1 else TupleShape(shapes)


def _data_operands(inst: Instruction) -> list[Instruction]:
    """Return the operands that are not tokens: the token of an add-dependency only orders."""
    return [o for o in inst.operands if o.shape != TOKEN_SHAPE] or list(inst.operands[:1])


def is_identity_custom_call(inst: Instruction) -> bool:
    """True for a custom call that forwards its operands and keeps their layouts."""
    target = target_of(inst)
    if target is None or not target.is_identity:
        return False
    shapes = tuple(operand.shape for operand in inst.operands)
    return same_layouts(inst.shape, shapes[0] if len(shapes) == 1 else TupleShape(shapes))


def is_row_major(shape: ArrayShape) -> bool:
    """True if the last dimension varies fastest, then the one before; sizes of 1 do not count."""
    order = [dim for dim in shape.minor_to_major if shape.dims[dim] != 1]
    return order == sorted(order, reverse=True)


def _transpose_keeps_bytes(inst: Instruction) -> bool:
    operand, permutation = inst.operands[0].array, inst.attributes.dimensions
    result_order = [permutation[dim] for dim in inst.array.minor_to_major]
    return [dim for dim in result_order if operand.dims[dim] != 1] == [
        dim for dim in operand.minor_to_major if operand.dims[dim] != 1
    ]
