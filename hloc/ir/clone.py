"""Copies of modules and computations; inlining and outlining."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from hloc.ir.attributes import NO_COMMON, CommonAttributes
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.ir.traversal import post_order
from hloc.shapes import Shape, TupleShape


def clone_module(module: Module, uids: Mapping[int, int] | None = None) -> Module:
    """Return a copy that shares frozen data only: same uids and names, a fresh change log.

    `uids`, if given, maps every old uid to the uid in the copy.
    """
    copy = Module(module.name, module.config, module.stack_frames, module.source)
    if uids is None:
        copy.family = module.family
    copy.instruction_names = module.instruction_names.copy()
    copy.computation_names = module.computation_names.copy()
    computations: dict[Computation, Computation] = {}
    for old in module.computations:
        uid = old.uid if uids is None else uids[old.uid]
        computations[old] = copy.adopt_computation(
            Computation(uid, old.name, copy, old.execution_thread)
        )
    highest = 0
    for old, new in computations.items():
        instructions: dict[Instruction, Instruction] = {}
        for inst in _operands_first(old):
            uid = inst.uid if uids is None else uids[inst.uid]
            instructions[inst] = Instruction(
                uid,
                inst.name,
                inst.opcode,
                inst.shape,
                tuple(instructions[o] for o in inst.operands),
                inst.attributes,
                tuple(computations[c] for c in inst.called),
                new,
                inst.common,
                tuple(instructions[p] for p in inst.control_predecessors),
                (),
                inst.span,
            )
            highest = max(highest, uid)
        for inst in old.instructions:
            new.adopt(instructions[inst])
        new.set_root(instructions[old.root])
        highest = max(highest, new.uid)
    copy.reserve_uids(highest)
    copy.set_entry(computations[module.entry])
    copy.log.recording = True
    return copy


def _operands_first(computation: Computation) -> Sequence[Instruction]:
    """Return the instructions in stored order if that is topological, else in post order."""
    seen: set[Instruction] = set()
    for inst in computation.instructions:
        if any(o not in seen for o in inst.operands) or any(
            p not in seen for p in inst.control_predecessors
        ):
            return post_order(computation)
        seen.add(inst)
    return computation.instructions


def copy_instructions(
    source: Computation,
    into: Computation,
    values: Mapping[Instruction, Instruction],
    *,
    suffix: str = "",
    caller: CommonAttributes = NO_COMMON,
) -> dict[Instruction, Instruction]:
    """Copy the instructions of `source` that `values` does not already map into `into`.

    Called computations are shared. Copies without a source line get that of
    `caller`. Returns the map from old to new instructions, `values` included.
    """
    found = dict(values)
    for inst in post_order(source):
        if inst not in found:
            operands = [found[o] for o in inst.operands]
            predecessors = [found[p] for p in inst.control_predecessors]
            found[inst] = into.add_copy(
                inst,
                operands,
                name=inst.name + suffix,
                common=inst.common.placed_at(caller),
                control_predecessors=predecessors,
            )
    return found


def clone_computation(computation: Computation) -> Computation:
    """Add a copy of `computation` to its module; called computations are shared."""
    copy = computation.module.add_computation(
        computation.name + ".clone", execution_thread=computation.execution_thread
    )
    found = copy_instructions(computation, copy, {})
    copy.set_root(found[computation.root])
    return copy


def inline(
    call: Instruction, known: Mapping[Instruction, Instruction] | None = None
) -> Mapping[Instruction, Instruction]:
    """Replace `call` (a `call` or `fusion`) by a copy of the computation it calls.

    Elements of a tuple that it returns are replaced by their values; the value itself gets the
    sharding of `call`. `call` is removed.

    Args:
        call: the instruction.
        known: instructions of the called computation that need no copy, and what stands for them.

    Returns:
        All instructions of the called computation, and what stands for them.
    """
    (body,) = call.called
    computation = call.computation
    values = dict(known or ()) | dict(zip(body.parameters, call.operands, strict=True))
    found = copy_instructions(body, computation, values, caller=call.common)
    result = found[body.root]
    if body.root.opcode.name == "tuple":
        _replace_elements(call, [found[element] for element in body.root.operands])
    sharding = call.common.sharding
    if sharding is not None and result.common.sharding is None and result not in call.operands:
        computation.set_common(result, replace(result.common, sharding=sharding))
    for predecessor_user in computation.controlled:
        if call in predecessor_user.control_predecessors:
            computation.set_control_predecessors(
                predecessor_user,
                [result if p is call else p for p in predecessor_user.control_predecessors],
            )
    computation.replace(call, result)
    computation.remove(call)
    return found


def _replace_elements(call: Instruction, elements: Sequence[Instruction]) -> None:
    """Replace what reads single elements of the tuple that `call` returns."""
    computation = call.computation
    pinned = computation.awaited
    for user in tuple(call.users):
        if user.opcode.name != "get-tuple-element" or user in pinned:
            continue
        if not user.control_predecessors:
            computation.replace(user, elements[user.attributes.index])
            computation.remove(user)


def outline(
    computation: Computation,
    members: Sequence[Instruction],
    outputs: Sequence[Instruction],
    *,
    name: str,
) -> tuple[Computation, tuple[Instruction, ...]]:
    """Add a computation that holds copies of `members` and returns `outputs`.

    Args:
        computation: where the members live; it is not changed.
        members: instructions, operands before users.
        outputs: the members whose values are returned, as a tuple if there is more than one.
        name: name of the new computation.

    Returns:
        The new computation and the outside instructions that become its operands, in the order of
        its parameters.
    """
    body = computation.module.add_computation(name)
    found = Inside(body)
    for inst in members:
        found[inst] = body.add_copy(inst, [found[operand] for operand in inst.operands])
    if len(outputs) == 1:
        body.set_root(found[outputs[0]])
    else:
        shape: Shape = TupleShape(tuple(o.shape for o in outputs))
        body.set_root(body.add(opcode_row("tuple"), shape, [found[o] for o in outputs]))
    return body, tuple(found.operands)


class Inside(dict[Instruction, Instruction]):
    """What stands in `body` for the instructions outside; a new operand gets a parameter.

    Attributes:
        operands: the instructions outside that parameters stand for, in their order.
    """

    def __init__(self, body: Computation) -> None:
        self.body = body
        self.operands: list[Instruction] = []

    def __missing__(self, operand: Instruction) -> Instruction:
        parameter = self[operand] = add_parameter(self.body, operand.shape, len(self.operands))
        self.operands.append(operand)
        return parameter


def add_parameter(body: Computation, shape: Shape, number: int) -> Instruction:
    """Add parameter `number` to an outlined computation, called `param_N`."""
    attributes = _parameter_attributes(number)
    return body.add(opcode_row("parameter"), shape, (), attributes, name=f"param_{number}")


@lru_cache(256)
def _parameter_attributes(number: int) -> Any:
    """Return the attributes of parameter `number`, which all fusions share."""
    row = opcode_row("parameter")
    assert row.attributes is not None
    return row.attributes(number=number)


def common_of(inst: Instruction) -> CommonAttributes:
    """Return only the metadata of `inst`, for an instruction that replaces it."""
    if inst.common.metadata is None:
        return NO_COMMON
    return NO_COMMON.with_metadata(inst.common.metadata)
