"""The last changes to a module before scheduling and buffer assignment, at every level.

A module that the target cannot run is refused here, with one error that lists all instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from hloc.analysis.call_graph import control_flow_computations, has_opcode
from hloc.analysis.dataflow import forwarded_shape
from hloc.codegen.lower.collectives import order_transfers, replace_collectives_of_one
from hloc.codegen.lower.explicit_copies import make_copies_explicit
from hloc.errors import Diagnostic, HloError, UnsupportedError
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.ir.traversal import live_computations
from hloc.literal import Literal, literal_of
from hloc.opt.calls.flatten_call_graph import FlattenCallGraph
from hloc.opt.copy_insertion import CopyInsertion
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import run_pass
from hloc.options import CompileOptions
from hloc.shapes import UNBOUNDED, ArrayShape, Shape, TupleShape, leaves, same_layouts

_MAX_EXAMPLES = 3

ReasonFunction = Callable[[Instruction], str]
"""Why the target cannot run an instruction, "" if it can."""


def lower(module: Module, options: CompileOptions) -> None:
    """Bring an optimised module into the form that buffer assignment expects, in place.

    Raises:
        HloError: constants are elided in the text and `fill_constants` is `error`, or copies of
            shared computations would make the module too large.
        UnsupportedError: an array changes its layout where nothing moves bytes.
    """
    _fill_constants(module, options.fill_constants)
    _replace_device_numbers(module)
    make_copies_explicit(module)
    replace_collectives_of_one(module)
    order_transfers(module)
    context = PassContext()
    run_pass(FlattenCallGraph(), module, context)
    run_pass(CopyInsertion(), module, context)
    refuse_layout_changes(module)


def refuse_unsupported(module: Module, reason_of: ReasonFunction) -> None:
    """Raise one `UnsupportedError` that lists all unsupported instructions by opcode and reason.

    Args:
        module: all of it is checked before any code is generated.
        reason_of: the target's reason for one instruction, `Opcode.refusal` included.
    """
    found: dict[tuple[str, str], list[Instruction]] = {}
    for computation in control_flow_computations(module):
        for inst in computation.instructions:
            reason = _shape_reason(inst) or reason_of(inst)
            if reason:
                found.setdefault((inst.opcode.name, reason), []).append(inst)
    _raise_refusals(found)


def refuse_layout_changes(module: Module) -> None:
    """Raise `UnsupportedError` where an array has two layouts without a copy in between."""
    found: dict[tuple[str, str], list[Instruction]] = {}
    for computation in control_flow_computations(module):
        for inst in computation.instructions:
            for wanted, given in _handed_on(inst):
                if not same_layouts(wanted, given):
                    reason = f"an array changes its layout on the way from {given} to {wanted}"
                    found.setdefault((inst.opcode.name, reason), []).append(inst)
    _raise_refusals(found)


def _raise_refusals(found: Mapping[tuple[str, str], list[Instruction]]) -> None:
    if found:
        raise UnsupportedError(
            Diagnostic(_refusal_text(opcode, reason, instructions), instructions[0].span)
            for (opcode, reason), instructions in found.items()
        )


def _refusal_text(opcode: str, reason: str, instructions: list[Instruction]) -> str:
    names = ", ".join(inst.name for inst in instructions[:_MAX_EXAMPLES])
    more = ", ..." if len(instructions) > _MAX_EXAMPLES else ""
    times = f"{len(instructions)} times " if len(instructions) > 1 else ""
    return f"{opcode} ({times}{names}{more}) cannot run on this target: {reason}"


def _shape_reason(inst: Instruction) -> str:
    is_array = isinstance(inst.shape, ArrayShape)
    for leaf in (inst.shape,) if is_array else [leaf for _, leaf in leaves(inst.shape)]:
        if isinstance(leaf, ArrayShape) and (leaf.dynamic or UNBOUNDED in leaf.dims):
            return f"dynamic sizes such as {leaf.text_without_layout} are not supported"
    return ""


def _handed_on(inst: Instruction) -> Iterator[tuple[Shape, Shape]]:
    """Yield pairs of shapes that must describe the same bytes."""
    operands, opcode = [operand.shape for operand in inst.operands], inst.opcode.name
    if opcode == "tuple":
        yield inst.shape, TupleShape(tuple(operands))
    elif inst.opcode.forwards:
        yield inst.shape, forwarded_shape(inst)
    elif opcode == "copy-start" and isinstance(inst.shape, TupleShape):
        yield from ((element, operands[0]) for element in inst.shape.elements[:2])
    elif opcode == "get-tuple-element" and isinstance(operands[0], TupleShape):
        yield inst.shape, operands[0].elements[inst.attributes.index]
    elif opcode == "call":
        yield inst.shape, inst.called[0].root.shape
        parameters = (parameter.shape for parameter in inst.called[0].parameters)
        yield from zip(parameters, operands, strict=True)
    elif opcode == "while":
        condition, body = inst.called
        for shape in (condition.parameters[0].shape, body.parameters[0].shape, body.root.shape):
            yield shape, inst.shape
        yield inst.shape, operands[0]
    elif opcode == "conditional":
        for branch, operand in zip(inst.called, operands[1:], strict=True):
            yield branch.parameters[0].shape, operand
            yield inst.shape, branch.root.shape


def _fill_constants(module: Module, how: str) -> None:
    """Replace elided values of constants by zeros, or raise HloError, as `how` says."""
    if "constant" not in module.opcodes:
        return
    for computation in live_computations(module):
        for inst in computation.instructions:
            if not inst.is_a("constant") or not inst.attributes.literal.is_elided:
                continue
            if how == "error":
                raise HloError(
                    f"constant {inst.name} has no values: the text elides them with {{...}}",
                    inst.span,
                    notes=(
                        '--fill-constants=zeros (Python: fill_constants="zeros") puts zeros there',
                    ),
                )
            row = opcode_row("constant")
            assert row.attributes is not None
            with module.log.acting("fill-constants"):
                computation.set_attributes(
                    inst, row.attributes(literal=_zeros(inst.attributes.literal))
                )


def _zeros(literal: Literal) -> Literal:
    if isinstance(literal.value, tuple):
        parts = tuple(_zeros(part) if part.is_elided else part for part in literal.value)
        return Literal(literal.shape, parts)
    shape = literal.shape
    assert isinstance(shape, ArrayShape)
    zero = np.zeros((), shape.dtype.numpy)
    return Literal(shape, np.broadcast_to(zero, shape.dims))


def _replace_device_numbers(module: Module) -> None:
    """Replace `partition-id` by zero if there is one partition, and `replica-id` likewise."""
    config = module.config
    counts = {"partition-id": config.num_partitions, "replica-id": config.replica_count}
    names = [name for name, count in counts.items() if count == 1]
    if not has_opcode(module, *names):
        return
    for computation in control_flow_computations(module):
        for inst in computation.instructions:
            if inst.is_a(*names):
                with module.log.acting("device-numbers"):
                    row = opcode_row("constant")
                    assert row.attributes is not None
                    zero = literal_of(np.zeros((), inst.array.dtype.numpy), inst.array.dtype)
                    constant = computation.add(
                        row, inst.shape, attributes=row.attributes(literal=zero)
                    )
                    computation.replace(inst, constant)
                    computation.remove(inst)
