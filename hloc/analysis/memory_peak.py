"""The peak of live bytes while a computation runs in a given order.

An estimate without addresses: every array is live from the instruction that defines it to the
last one that reads it, as if memory had no fragmentation. The scheduler and rematerialization use
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hloc.analysis.dataflow import Dataflow, Position, forwards, nonempty_leaves
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ShapeIndex

ReuseFunction = Callable[[Instruction, int, ShapeIndex], bool]
"""True if leaf `index` of an instruction's result may reuse the memory of operand `number`."""


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """What the instructions of one computation define and read; the same for every order.

    Attributes:
        sizes: bytes of each array that counts, by the position that first holds it.
        makes: the arrays that an instruction defines.
        reads: the arrays that an instruction reads, each once, with the number of the operand, -1
            if there are several.
        inner: bytes that called computations and kernels need for themselves.
    """

    sizes: Mapping[Position, int]
    makes: Mapping[Instruction, tuple[Position, ...]]
    reads: Mapping[Instruction, Mapping[Position, int]]
    inner: Mapping[Instruction, int]


@dataclass(frozen=True, slots=True)
class Peak:
    """The peak: live bytes, and the place in the order where they are reached."""

    size_bytes: int
    at: int


def no_reuse(inst: Instruction, number: int, index: ShapeIndex) -> bool:
    """A `ReuseFunction`: every result has its own memory."""
    return False


def no_scratch(inst: Instruction) -> int:
    """No instruction needs scratch memory."""
    return 0


def memory_facts(
    computation: Computation,
    dataflow: Dataflow,
    peaks: Mapping[Computation, int],
    scratch_bytes: Callable[[Instruction], int] = no_scratch,
) -> MemoryFacts:
    """Return the facts of `computation`.

    Constants and parameters are not counted, nor are the arrays of the root: outputs, the state
    of a loop and the result of a conditional have separate memory.

    Args:
        computation: a control-flow computation.
        dataflow: the dataflow of its module.
        peaks: the peak of each called computation, in bytes.
        scratch_bytes: scratch bytes that an instruction needs while it runs.
    """
    root = computation.root
    elsewhere = {dataflow.source(root, index) for index, _ in nonempty_leaves(root.shape)}
    sizes: dict[Position, int] = {}
    makes: dict[Instruction, tuple[Position, ...]] = {}
    inner: dict[Instruction, int] = {}
    for inst in computation.instructions:
        if inst.opcode.nop or forwards(inst):
            continue
        for index, shape in nonempty_leaves(inst.shape):
            at = (inst, index)
            if at not in elsewhere and dataflow.source(inst, index) == at:
                sizes[at] = shape.size_bytes
                makes[inst] = (*makes.get(inst, ()), at)
        need = max((peaks[c] for c in inst.called if dataflow.caller(c) is inst), default=0)
        need += scratch_bytes(inst)
        if need:
            inner[inst] = need
    reads = {inst: _reads(inst, dataflow, sizes) for inst in computation.instructions}
    return MemoryFacts(sizes, makes, reads, inner)


def _reads(
    inst: Instruction, dataflow: Dataflow, sizes: Mapping[Position, int]
) -> dict[Position, int]:
    found: dict[Position, int] = {}
    if inst.opcode.nop or forwards(inst):
        return found  # a read of the bytes is a read of the source
    for number, operand in enumerate(inst.operands):
        for index, _ in nonempty_leaves(operand.shape):
            source = dataflow.source(operand, index)
            if source in sizes:
                found[source] = number if source not in found else -1
    return found


def peak_of(
    order: Sequence[Instruction], facts: MemoryFacts, reuse: ReuseFunction = no_reuse
) -> Peak:
    """Return the peak of `order`. Cost: O(leaves of all operands)."""
    last = {position: i for i, inst in enumerate(order) for position in facts.reads[inst]}
    alive = 0
    worst = Peak(0, 0)
    for i, inst in enumerate(order):
        dying = {p: number for p, number in facts.reads[inst].items() if last[p] == i}
        defined = facts.makes.get(inst, ())
        for position in defined:
            taken = _taken_over(position, dying, facts.sizes, reuse)
            if taken is None:
                alive += facts.sizes[position]
            else:
                del dying[taken]
        need = alive + facts.inner.get(inst, 0)
        if need > worst.size_bytes:
            worst = Peak(need, i)
        alive -= sum(facts.sizes[position] for position in dying)
        alive -= sum(facts.sizes[position] for position in defined if position not in last)
    return worst


def _taken_over(
    defined: Position,
    dying: Mapping[Position, int],
    sizes: Mapping[Position, int],
    reuse: ReuseFunction,
) -> Position | None:
    """Return the dying array whose memory the array `defined` reuses."""
    inst, index = defined
    for position, number in dying.items():
        fits = number >= 0 and sizes[position] == sizes[defined]
        # The state of a loop stays where it is.
        if fits and (inst.is_a("while") or reuse(inst, number, index)):
            return position
    return None
