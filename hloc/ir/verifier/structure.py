"""Rules beyond shapes: start and done pairs, channels, callers of fusions, devices, aliases."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from hloc.errors import Diagnostic
from hloc.ir.attribute_fields import attribute_fields
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import OPCODES, Opcode
from hloc.ir.operand_alias import operand_aliases
from hloc.ir.verifier.async_chains import check_continued, check_link
from hloc.ir.verifier.devices import collective_fault, sharding_fault
from hloc.ir.verifier.faults import braced, fault, part_at

_RULES = ("channel_id", "replica_groups", "output_to_operand_aliasing")


def check_structure(computation: Computation) -> list[Diagnostic]:
    """Return the faults of `computation`, whose instructions passed the checks on their own."""
    found = list(_check_fusion_callers(computation))
    for inst in computation.instructions:
        name, second_halves = inst.opcode.name, inst.opcode.ended_by
        first_halves = _started_by(name)
        if name.startswith("async-"):
            if second_halves:
                found += check_link(inst)
            if first_halves:
                found += check_continued(inst)
        elif second_halves:
            found += _check_started(inst, second_halves)
        elif first_halves:
            found += _check_ended(inst, first_halves)
        if inst.common.sharding is not None and name != "outfeed":  # its sharding is of its data
            message = sharding_fault(inst.common.sharding, inst.shape)
            if message:
                found.append(fault("HLOC0319", message, inst))
        if _has_rules(inst.opcode):
            found += _check_attributes(inst)
    return found


def _check_attributes(inst: Instruction) -> Iterator[Diagnostic]:
    attributes = inst.attributes
    channel = getattr(attributes, "channel_id", None)
    if channel is not None:
        yield from _check_channel(inst, channel)
    if inst.opcode.exchange is not None:
        message = collective_fault(inst)
        if message:
            yield fault("HLOC0318", message, inst)
    yield from _check_aliasing(inst)


@cache
def _has_rules(row: Opcode) -> bool:
    """Tell whether `row` has an attribute that `_check_attributes` checks."""
    return any(field.field in _RULES for field in attribute_fields(row.attributes))


def _check_channel(inst: Instruction, channel: int) -> Iterator[Diagnostic]:
    """Check a channel: collectives may share one; a transfer and its done have the same."""
    if channel < 0:
        yield fault("HLOC0330", f"has channel_id {channel}, which is negative", inst)
    if not inst.is_a("send-done", "recv-done"):
        return
    start = inst.operands[0]
    if not start.is_a("send", "recv"):
        return  # it was started before a loop, or in the previous iteration
    for name in ("channel_id", "is_host_transfer"):
        own, other = getattr(inst.attributes, name), getattr(start.attributes, name)
        if own != other:
            yield fault(
                "HLOC0317", f"has {name}={own}, but '{start.name}', which it ends, {other}", inst
            )


@cache
def _started_by(name: str) -> tuple[str, ...]:
    """Return the opcodes that opcode `name` ends.

    None for send-done and recv-done, which may also take theirs from a loop's tuple.
    """
    return tuple(row.name for row in OPCODES.values() if name in row.ended_by)


def _check_fusion_callers(computation: Computation) -> Iterator[Diagnostic]:
    """Check that a fused computation is called by fusions only."""
    callers = list(computation.callers)
    if not computation.is_fusion:
        return
    for caller in callers:
        if caller.opcode.name != "fusion":
            yield fault(
                "HLOC0325", f"calls '{computation.name}', which belongs to a fusion", caller
            )


def _check_started(inst: Instruction, halves: tuple[str, ...]) -> Iterator[Diagnostic]:
    wanted = " or ".join(halves)
    wrong = [user for user in inst.users if user.opcode.name not in halves]
    if wrong:
        yield fault("HLOC0316", f"is used by '{wrong[0].name}', which is no {wanted}", inst)
    elif len(inst.users) > 1:
        second = list(inst.users)[1]
        yield fault("HLOC0316", f"is ended a second time by '{second.name}'", inst)
    elif inst.is_root and not inst.users:
        return  # a computation may return a started operation to its caller
    elif not inst.users:
        yield fault("HLOC0329", f"is never ended by {wanted}", inst)


def _check_ended(inst: Instruction, halves: tuple[str, ...]) -> Iterator[Diagnostic]:
    operand = inst.operands[0]
    if operand.opcode.name not in halves:
        yield fault(
            "HLOC0316",
            f"ends '{operand.name}', which is {operand.opcode.name} and not {' or '.join(halves)}",
            inst,
        )


def _check_aliasing(inst: Instruction) -> Iterator[Diagnostic]:
    """Check `{{0}: (0, {}), {1}: (1, {0})}`: both sides exist and nothing is named twice."""
    outputs: set[tuple[int, ...]] = set()
    for alias in operand_aliases(inst):
        output, number = alias.output, alias.operand
        if output in outputs:
            yield fault("HLOC0326", f"aliases output {braced(output)} twice", inst)
        outputs.add(output)
        result = part_at(inst.shape, output)
        operand = part_at(inst.operands[number].shape, alias.index) if _has(inst, number) else None
        if result is None:
            yield fault("HLOC0326", f"aliases output {braced(output)}, which is not there", inst)
        elif operand is None:
            where = f"operand {number} at {braced(alias.index)}"
            yield fault("HLOC0326", f"aliases {where}, which is not there", inst)
        elif result.size_bytes != operand.size_bytes:
            yield fault(
                "HLOC0332",
                f"aliases {result.text_without_layout} with {operand.text_without_layout}, "
                "which has another size",
                inst,
            )


def _has(inst: Instruction, number: int) -> bool:
    return 0 <= number < len(inst.operands)
