"""Copies, transposes and converts that a compiler inserted, and what needs each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.dataflow import forwards
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.operand_alias import operand_aliases
from hloc.ir.origin import origin_of
from hloc.ir.traversal import live_computations
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape

OPCODES = ("copy", "transpose", "convert")
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Inserted:
    """An instruction that the program did not contain.

    Attributes:
        kernel: the kernel that contains it, or itself.
        alone: the kernel does nothing else, so it costs memory traffic; otherwise it is part
            of a fusion or a reducer that exists anyway.
        kernel_bytes: bytes that the kernel writes.
        asked_by: the instructions that read it.
        why: what they need, as far as the module shows.
        by: the pass that added it, "" if the dump does not show it.
    """

    opcode: str
    name: str
    shape: str
    size_bytes: int
    kernel: str
    alone: bool
    kernel_bytes: int
    asked_by: tuple[str, ...]
    why: str
    by: str
    source: str


def inserted(
    before: Module, after: Module, by: Mapping[Instruction, str | None]
) -> tuple[Inserted, ...]:
    """Return what `after` has and `before` has not: those that cost a kernel first, largest first.

    Args:
        before: the module before the first pass.
        after: the module after the last one.
        by: the pass that created each instruction of `after`, "" if unknown, None for those of
            the program itself.
    """
    known = {_key(inst) for c in before.computations for inst in c.instructions}
    running = frozenset(control_flow_computations(after))
    rows = []
    for computation in live_computations(after):
        found = [
            inst
            for inst in computation.instructions
            if inst.is_a(*OPCODES) and by.get(inst) is not None and _key(inst) not in known
        ]
        rest = (i for i in computation.instructions if i not in found)
        alone = computation in running or (
            computation.is_fusion and all(i.opcode.nop or forwards(i) for i in rest)
        )
        rows += [_row(inst, by[inst] or "", alone, running) for inst in found]
    return tuple(sorted(rows, key=lambda row: (not row.alone, -row.size_bytes)))


def _key(inst: Instruction) -> tuple[str, str]:
    """Return what a copy of an instruction of the program, as fusion makes them, keeps."""
    kind = f"{inst.opcode.name} {inst.shape.text_without_layout}"
    return kind, inst.op_name or inst.name


def _row(inst: Instruction, by: str, alone: bool, running: frozenset[Computation]) -> Inserted:
    """Return the row of one inserted instruction, `by` a pass.

    It is shown with the kernel that runs it, and with the readers of its result: those of the
    fusion if it is the root of one.
    """
    kernel = result = inst
    while kernel.computation not in running:
        (kernel, *_) = kernel.computation.callers
    while result.is_root and result.computation.is_fusion:
        (result, *_) = result.computation.callers
    applied = result.is_root and result.computation not in running  # the result of a reducer
    readers = list(result.computation.callers if applied else result.users)
    return Inserted(
        inst.opcode.name,
        inst.name,
        inst.shape.text_without_layout,
        inst.shape.size_bytes,
        kernel.name,
        alone,
        kernel.shape.size_bytes,
        tuple(f"{reader.name} ({reader.opcode.name})" for reader in readers[:_NAMED]),
        _why(inst, result),
        by,
        origin_of(inst),
    )


def _why(inst: Instruction, result: Instruction) -> str:
    """Return why `inst` is needed; `result` is the fusion whose result it is, or itself."""
    operand = inst.operands[0]
    if inst.is_a("convert"):
        return f"from {_dtype(operand)} to {_dtype(inst)}"
    if inst.is_a("transpose"):
        dims = ",".join(map(str, inst.attributes.dimensions))
        return f"dimensions in the order {{{dims}}}"
    if isinstance(inst.shape, ArrayShape) and isinstance(operand.shape, ArrayShape):
        here, there = (str(s.layout or "") for s in (inst.shape, operand.shape))
        if here != there:
            return f"layout {there or 'row-major'} becomes {here or 'row-major'}"
    return next(_sharing(result, operand), "its operand is overwritten while it is still read")


def _sharing(result: Instruction, operand: Instruction) -> Iterator[str]:
    """Yield why `result`, a copy of `operand` in the same layout, needs separate memory."""
    computation = result.computation
    entry = computation is computation.module.entry
    at_end = result.is_root or any(user.is_root and user.is_a("tuple") for user in result.users)
    if entry and at_end and operand.is_a("parameter", "constant"):
        yield f"a result may not share memory with the {operand.opcode.name} {operand.name}"
    donated = {alias.parameter for alias in computation.module.config.aliases}
    if entry and operand.is_a("parameter") and operand.attributes.number in donated:
        yield f"a result is written over the donated parameter {operand.name}"
    for user in result.users:
        if any(user.operands[alias.operand] is result for alias in operand_aliases(user)):
            yield f"{user.name} ({user.opcode.name}) writes its result over its operand"
        for loop in (user, *user.users):
            if loop.is_a("while"):
                yield f"the loop {loop.name} changes its state in place"
    if computation.callers and not computation.is_fusion:
        (caller, *_) = computation.callers
        if caller.is_a("while"):
            yield from _moved(result, caller)
            yield f"the loop {caller.name} changes its state in place, and this is read later"
    if at_end:
        yield "each result has memory of its own"


def _moved(result: Instruction, loop: Instruction) -> Iterator[str]:
    """Yield that `result` is an element of the state of `loop` that moves to another element."""
    source = result
    while source.is_a("copy", "bitcast"):
        source = source.operands[0]
    root = result.computation.root
    if not (source.is_a("get-tuple-element") and source.operands[0].is_a("parameter")):
        return
    here = source.attributes.index
    if root.is_a("tuple") and result in root.operands and root.operands[here] is not result:
        there = root.operands.index(result)
        yield f"the loop {loop.name} moves element {here} of its state to element {there}"


def _dtype(inst: Instruction) -> str:
    return str(inst.shape.dtype) if isinstance(inst.shape, ArrayShape) else "a tuple"
