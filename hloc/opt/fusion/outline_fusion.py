"""Outline instructions into a fusion."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.ir.clone import common_of, outline
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import opcode_row
from hloc.opt.make import make


def outline_fusion(
    computation: Computation,
    members: Sequence[Instruction],
    outputs: Sequence[Instruction],
    root: Instruction,
) -> None:
    """Replace `outputs` by a fusion of `members` and remove the dead members.

    Args:
        computation: where the members live.
        members: operands before users.
        outputs: the members whose values leave the fusion.
        root: the member that determines how the kernel runs, by rows if it is a reduce.
    """
    body, operands = outline(computation, members, outputs, name="fused_computation")
    kind = "kInput" if root.opcode.name == "reduce" else "kLoop"
    name = _fusion_name(root, members)
    fusion = add_fusion(computation, body, operands, kind, name, root)
    if len(outputs) == 1:
        computation.replace(outputs[0], fusion)
    else:
        for index, output in enumerate(outputs):
            element = make(computation, "get-tuple-element", output.shape, fusion, index=index)
            computation.replace(output, element)
    remove_dead(members)


def add_fusion(
    computation: Computation,
    body: Computation,
    operands: Sequence[Instruction],
    kind: str,
    name: str,
    replaced: Instruction,
) -> Instruction:
    """Add a fusion of `body` with the metadata of the instruction that it replaces."""
    row = opcode_row("fusion")
    assert row.attributes is not None
    attributes, common = row.attributes(kind=kind), common_of(replaced)
    shape = body.root.shape
    return computation.add(row, shape, operands, attributes, (body,), name=name, common=common)


def remove_dead(members: Sequence[Instruction]) -> None:
    """Remove those of `members`, operands before users, that are no longer used."""
    for member in reversed(members):
        if not member.users and not member.is_root:
            member.computation.remove(member)


def _fusion_name(root: Instruction, members: Sequence[Instruction]) -> str:
    """Return `exponential_reduce_fusion` and the like: the last two opcodes that compute."""
    telling = [m.opcode.name for m in members if m.opcode.name not in ("constant", "broadcast")]
    names = dict.fromkeys([*telling[-2:], root.opcode.name])
    return "_".join(name.replace("-", "_") for name in names) + "_fusion"
