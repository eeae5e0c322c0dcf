"""Extract a part of a module: one instruction and what it needs, as a new module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hloc.errors import HloError
from hloc.ir.attributes import ModuleConfig
from hloc.ir.clone import copy_instructions
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.ir.traversal import all_instructions, post_order_from, reachable_computations

_SPREADS = ("broadcast", "reshape", "bitcast", "convert")


def find_instruction(module: Module, name: str) -> Instruction:
    """Return the instruction called `name`, with or without `%`; `computation/name` is exact.

    Raises:
        HloError: there is none; the nearest names are in the notes.
    """
    home, _, wanted = name.removeprefix("%").rpartition("/")
    for inst in all_instructions(module):
        if inst.name == wanted.removeprefix("%") and home in ("", inst.computation.name):
            return inst
    from difflib import get_close_matches

    known = [inst.name for inst in all_instructions(module)]
    near = get_close_matches(wanted, known, 3, 0.6)
    notes = (f"did you mean {', '.join(near)}?",) if near else ()
    raise HloError(f"module {module.name} has no instruction named {name!r}", notes=notes)


def extract(
    inst: Instruction, height: int | None = None, also: Sequence[Instruction] = ()
) -> Module:
    """Return a module whose entry computes `inst`.

    Args:
        inst: it becomes the root; its module is not changed.
        height: levels of operands that are included, all by default; 0 is `inst` alone. Operands
            beyond them become parameters, except constants and what depends on constants only;
            parameters of the original stay parameters.
        also: other instructions of its computation to include, with all that they need.

    Returns:
        A verified module: names are kept, parameters are numbered by first use, called computations
        are included, and the header keeps the fields that do not refer to parameters and results.
    """
    old = inst.computation.module
    module = Module(old.name, without_signature(old.config), old.stack_frames, old.source)
    computations: dict[Computation, Computation] = {}
    members = _members(inst, height) | set(post_order_from(also))
    order = _needed((inst, *also), members)
    callees = (called for member in order if member in members for called in member.called)
    for called in reachable_computations(*dict.fromkeys(callees)):
        copy = module.add_computation(called.name, execution_thread=called.execution_thread)
        found = copy_instructions(called, copy, {})
        for new in copy.instructions:
            copy.set_called(new, [computations[c] for c in new.called])
        copy.set_root(found[called.root])
        computations[called] = copy
    entry = module.add_computation(inst.computation.name)
    values: dict[Instruction, Instruction] = {}
    parameters = 0
    for old_inst in order:
        if old_inst in members and old_inst.opcode.name != "parameter":
            values[old_inst] = _copy(old_inst, entry, values, computations)
        else:
            values[old_inst] = _parameter(old_inst, entry, parameters)
            parameters += 1
    entry.set_root(values[inst])
    module.set_entry(entry)
    module.log.recording = True
    return module


def without_signature(config: ModuleConfig) -> ModuleConfig:
    """Return the header without fields that refer to parameters and results of the old entry."""
    return replace(
        config,
        is_scheduled=False,
        entry_layout=None,
        aliases=(),
        buffer_donors=(),
        alias_passthrough_params=False,
        propagate_sharding_to_parameters=(False,),
        propagate_sharding_to_output=(False,),
        origin_recovery_table=None,
        debug_attributes=None,
    )


def _members(inst: Instruction, height: int | None) -> set[Instruction]:
    """Return the instructions within `height` levels of operands, and constants beyond them."""
    if height is None:
        return set(post_order_from([inst]))
    members = {inst}
    level = [inst]
    for _ in range(height):
        level = [o for member in level for o in member.operands if o not in members]
        members.update(level)
    starts = [o for member in members for o in _starts(member) if o not in members]
    while starts:
        members.update(starts)
        starts = [o for start in starts for o in _starts(start) if o not in members]
    waiting = list(members)
    while waiting:
        tuples = [o for o in waiting.pop().operands if o.is_a("tuple") and o not in members]
        members.update(tuples)
        waiting += tuples
    constants = {o for member in members for o in member.operands if _is_constant(o)}
    return members | {inst for constant in constants for inst in post_order_from([constant])}


def _is_constant(inst: Instruction) -> bool:
    """True for a constant, broadcast or not."""
    while inst.is_a(*_SPREADS) and len(inst.operands) == 1:
        (inst,) = inst.operands
    return inst.is_a("constant", "iota")


def _starts(inst: Instruction) -> tuple[Instruction, ...]:
    """Return the start that `inst` continues: `copy-done` is invalid without its `copy-start`."""
    paired = inst.opcode.name.endswith(("-done", "-update"))
    return inst.operands[:1] if paired else ()


def _needed(roots: Sequence[Instruction], members: set[Instruction]) -> list[Instruction]:
    """Return `members` and their operands, operands first."""
    order: list[Instruction] = []
    seen: set[Instruction] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        here, operands_done = stack.pop()
        if operands_done:
            order.append(here)
        elif here not in seen:
            seen.add(here)
            stack.append((here, True))
            if here in members:
                before = [p for p in here.control_predecessors if p in members]
                stack += [(other, False) for other in reversed((*before, *here.operands))]
    return order


def _copy(
    inst: Instruction,
    entry: Computation,
    values: dict[Instruction, Instruction],
    computations: dict[Computation, Computation],
) -> Instruction:
    return entry.add(
        inst.opcode,
        inst.shape,
        [values[o] for o in inst.operands],
        inst.attributes,
        [computations[c] for c in inst.called],
        name=inst.name,
        common=inst.common,
        control_predecessors=[values[p] for p in inst.control_predecessors if p in values],
        span=inst.span,
    )


def _parameter(inst: Instruction, entry: Computation, number: int) -> Instruction:
    """Add parameter `number` in place of `inst`, with its name."""
    row = opcode_row("parameter")
    assert row.attributes is not None
    return entry.add(
        row, inst.shape, attributes=row.attributes(number=number), name=inst.name, common=replace(
            inst.common, backend_config=None, frontend_attributes=(), statistics=None,
            result_accuracy=None, parameter_replication=(), origin=None,
        ), span=inst.span,
    )  # fmt: skip
