"""Copies of tuples become copies of arrays, and implicit changes of layout become copies.

A text may give an array one layout at its definition and another in a tuple or loop that holds it;
tuples move no bytes, so a copy must be inserted. The state of a loop has the layouts of its body's
parameter. The result of a call or conditional has those of the root of its computation, of the
first branch if there are several. A reshape of an array that is not row-major is one of its copy.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.dataflow import forwarded_shape, forwards
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.ir.traversal import post_order
from hloc.ops.exchanges import refuse_slices
from hloc.shapes import ArrayShape, Shape, TupleShape, same_layouts


def make_copies_explicit(module: Module) -> None:
    """Change `module` in place; each computation is walked once, operands first."""
    with module.log.acting("explicit-copies"):
        for computation in control_flow_computations(module):
            for inst in post_order(computation):
                _make_explicit(inst)


def _make_explicit(inst: Instruction) -> None:
    """Process one instruction, after its operands and called computations."""
    computation, opcode = inst.computation, inst.opcode.name
    if inst.opcode.exchange is not None:
        _match_operands(inst)
    if opcode == "copy" and isinstance(inst.shape, TupleShape):
        _replace(inst, _copied(computation, inst.operands[0], inst.shape))
    elif opcode == "tuple":
        _take_layout(inst, TupleShape(tuple(operand.shape for operand in inst.operands)))
    elif inst.opcode.forwards:
        _take_layout(inst, forwarded_shape(inst))
    elif opcode == "reshape" and not forwards(inst):
        _reshape_rows(inst)
    elif opcode == "while":
        _unify_loop(inst)
    elif opcode in ("call", "fusion"):
        _hand_over(inst, 0, inst.called[0].parameters)
        _copy_after(inst, inst.called[0].root.shape)
    elif opcode == "conditional":
        _unify_branches(inst)
    elif opcode == "copy-start":
        _keep_layout(inst)
    elif opcode == "copy-done":
        _copy_after(inst, inst.operands[0].operands[0].shape)
    elif opcode == "get-tuple-element":
        whole = inst.operands[0].shape
        assert isinstance(whole, TupleShape)
        _copy_after(inst, whole.elements[inst.attributes.index])


def _match_operands(inst: Instruction) -> None:
    """Give each operand of a collective the element type and the layout of its result.

    A ragged all-to-all moves rows, so all its arrays are row-major.

    Raises:
        UnsupportedError: a collective-permute of slices.
    """
    if inst.is_a("collective-permute"):
        refuse_slices(inst)
    shapes = inst.shape.elements if isinstance(inst.shape, TupleShape) else (inst.shape,)
    if inst.is_a("ragged-all-to-all"):
        _copy_after(inst, inst.array.with_layout(None))
        shapes = tuple(operand.array.with_layout(None) for operand in inst.operands)
    for number, wanted in enumerate(shapes):
        operand = inst.operands[number]
        assert isinstance(wanted, ArrayShape)
        if operand.array.dtype is not wanted.dtype and not inst.is_a("ragged-all-to-all"):
            shape = operand.array.with_dtype(wanted.dtype)
            operand = inst.computation.add(opcode_row("convert"), shape, [operand])
            operands = list(inst.operands)
            operands[number] = operand
            inst.computation.set_operands(inst, operands)
        if operand.array.minor_to_major != wanted.minor_to_major:
            layout = wanted.layout
            _copy_operand(inst, number, operand.array.with_layout(layout))


def _reshape_rows(inst: Instruction) -> None:
    """Reshape row-major arrays, which moves no bytes, if one of the two is row-major.

    The copy of the other reads and writes along its dimensions. A reshape that moves bytes divides
    to find each element: 4 million elements of f32 take 27 ms, the copy 3.4.
    """
    if inst.array.layout is None:
        _copy_operand(inst, 0, inst.operands[0].array.with_layout(None))
    elif inst.operands[0].array.layout is None:
        _copy_after(inst, inst.array.with_layout(None))


def _unify_loop(inst: Instruction) -> None:
    """Give initial value, condition, body and result the layouts of the body's parameter."""
    condition, body = inst.called
    state = body.parameters[0].shape
    inst.computation.set_shape(inst, state)
    _copy_operand(inst, 0, state)
    _copy_root(body, state)
    if not same_layouts(condition.parameters[0].shape, state):
        condition.set_shape(condition.parameters[0], state)
        for reader in post_order(condition):
            if reader.is_a("get-tuple-element"):
                _make_explicit(reader)


def _unify_branches(inst: Instruction) -> None:
    """Give all branches and the result the layouts of the first branch."""
    shape = inst.called[0].root.shape
    for number, branch in enumerate(inst.called):
        _hand_over(inst, number + 1, branch.parameters)
        _copy_root(branch, shape)
    _copy_after(inst, shape)


def _keep_layout(inst: Instruction) -> None:
    """Copy within one layout; a change of layout comes after the copy-done."""
    operand, shape = inst.operands[0].shape, inst.shape
    assert isinstance(shape, TupleShape)
    inst.computation.set_shape(inst, TupleShape((operand, operand, *shape.elements[2:])))


def _hand_over(inst: Instruction, first: int, parameters: Sequence[Instruction]) -> None:
    """Copy operands, from number `first`, into the layouts of the corresponding parameters."""
    for number, parameter in enumerate(parameters, first):
        _copy_operand(inst, number, parameter.shape)


def _copy_operand(inst: Instruction, number: int, shape: Shape) -> None:
    operand = inst.operands[number]
    if not same_layouts(operand.shape, shape):
        operands = list(inst.operands)
        operands[number] = _copied(inst.computation, operand, shape)
        inst.computation.set_operands(inst, operands)


def _copy_root(computation: Computation, shape: Shape) -> None:
    root = computation.root
    if not same_layouts(root.shape, shape):
        computation.set_root(_copied(computation, root, shape))


def _replace(old: Instruction, new: Instruction) -> None:
    old.computation.replace(old, new)
    old.computation.remove(old)


def _copied(computation: Computation, inst: Instruction, shape: Shape) -> Instruction:
    """Return a copy of `inst` in the layouts of `shape`, array by array."""
    if not isinstance(shape, TupleShape):
        return computation.add(opcode_row("copy"), shape, [inst])
    row = opcode_row("get-tuple-element")
    assert row.attributes is not None
    assert isinstance(inst.shape, TupleShape)
    parts = []
    for i, (given, wanted) in enumerate(zip(inst.shape.elements, shape.elements, strict=True)):
        part = computation.add(row, given, [inst], row.attributes(index=i))
        parts.append(_copied(computation, part, wanted))
    return computation.add(opcode_row("tuple"), shape, parts)


def _take_layout(inst: Instruction, shape: Shape) -> None:
    """Give the result the layouts of the operands."""
    if not same_layouts(inst.shape, shape):
        inst.computation.set_shape(inst, shape)


def _copy_after(inst: Instruction, given: Shape) -> None:
    """Give `inst` the layouts `given`; its users get a copy in the layouts that it had."""
    wanted = inst.shape
    if same_layouts(given, wanted):
        return
    computation = inst.computation
    users, was_root = list(inst.users), inst.is_root
    computation.set_shape(inst, given)
    copy = _copied(computation, inst, wanted)
    for user in users:
        computation.set_operands(user, [copy if o is inst else o for o in user.operands])
    if was_root:
        computation.set_root(copy)
