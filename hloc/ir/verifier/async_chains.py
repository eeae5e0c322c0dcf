"""Verify chains of async-start, async-update and async-done.

Source: `CheckAsyncOpOperands` and `VerifyAsynchronousInstructionPairs` in XLA's `hlo_verifier.cc`.
"""

from __future__ import annotations

from collections.abc import Iterator

from hloc.errors import Diagnostic
from hloc.ir.async_chain import LINKS, async_start_of, producer_of
from hloc.ir.instruction import Instruction
from hloc.ir.verifier.faults import fault
from hloc.shapes import TupleShape, compatible

_USERS = frozenset(
    (
        "async-update", "async-done", "tuple", "get-tuple-element", "while", "call", "conditional",
        "opt-barrier", "domain", "copy", "custom-call",
    )
)  # fmt: skip


def check_link(inst: Instruction) -> Iterator[Diagnostic]:
    """Check the users of an async-start or async-update: one ends it, none computes with it."""
    for user in inst.users:
        wrong = user.opcode.name not in _USERS
        if wrong or (user.is_a("async-update", "async-done") and inst in user.operands[1:]):
            yield fault(
                "HLOC0316", f"is used by '{user.name}', which is no async-update or async-done",
                inst,
            )  # fmt: skip
            return
    ends = [user for user in inst.users if user.is_a("async-update", "async-done")]
    if len(ends) > 1:
        yield fault("HLOC0316", f"is ended a second time by '{ends[1].name}'", inst)
    elif not inst.users and not inst.is_root:
        yield fault("HLOC0329", "is never ended by async-update or async-done", inst)


def check_continued(inst: Instruction) -> Iterator[Diagnostic]:
    """Check that an async-update or async-done continues a chain, and a done a complete one."""
    before, start = producer_of(inst.operands[0]), async_start_of(inst)
    if before is None or start is None:
        operand = inst.operands[0]
        yield fault(
            "HLOC0316",
            f"ends '{operand.name}', which is {operand.opcode.name} and not {' or '.join(LINKS)}",
            inst,
        )
        return
    if not inst.is_a("async-done"):
        return
    computation, shape = start.called[0], before.shape
    assert isinstance(shape, TupleShape)
    parameters = TupleShape(tuple(p.shape for p in computation.parameters))
    if not compatible(shape.elements[0], parameters):
        yield fault(
            "HLOC0316",
            f"ends '{before.name}', which has operands {shape.elements[0].text_without_layout}, "
            f"but '{computation.name}' takes {parameters.text_without_layout}",
            inst,
        )
    elif not compatible(inst.shape, computation.root.shape):
        yield fault(
            "HLOC0316",
            f"has shape {inst.shape.text_without_layout}, but '{computation.name}', which it ends, "
            f"gives {computation.root.shape.text_without_layout}",
            inst,
        )
