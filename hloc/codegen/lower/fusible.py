"""Decides which fusions can be one kernel and should be.

An imported fusion may contain anything; one that no emitter supports, or that would recompute its
producers many times, is defused (`fusion_splitter`).
"""

from __future__ import annotations

from hloc.codegen.elements import reductions, remap, selected_functions
from hloc.codegen.elements.elemental import MAX_NESTING, has_rule
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import post_order
from hloc.ops.folding import works_per_element
from hloc.opt.fusion.columns import reduces_of
from hloc.shapes import ArrayShape, array_leaves

RULE_MODULES = (reductions, remap, selected_functions)
"""The modules that register element rules; named here so that they are imported."""

MAX_EVALUATIONS = 4000
"""Most elements of fused instructions that may be computed per element of the result."""

MAX_CONSTANT_BYTES = 1 << 16
"""Largest array constant that is embedded in a kernel."""

STRUCTURAL = frozenset({
    "cholesky", "concatenate", "convolution", "dot", "dynamic-update-slice", "fft", "reduce",
    "reduce-window", "rng-bit-generator", "scatter", "select-and-scatter", "triangular-solve",
})  # fmt: skip
"""Opcodes that have loops of their own as the root of a kernel; sorts read arrays only."""

_CONTROL_FLOW = frozenset(("conditional", "while"))
"""Opcodes whose rules handle scalars in called computations, not arrays in fusions."""


def is_beyond(
    inst: Instruction,
    by_rows: bool,
    core: Instruction | None = None,
) -> bool:
    """True if fusion `inst` cannot be one kernel, or would recompute too much.

    Args:
        inst: a fusion.
        by_rows: the emitter works row by row, so that each reduction is computed once per row.
        core: the instruction that the emitter computes if that is not the root; the root then
            reads its result.
    """
    (body,) = inst.called
    root = core or body.root
    largest = max((leaf.elements for leaf in array_leaves(inst.shape)), default=0)
    reduces = reduces_of(inst)
    for member in body.instructions:
        if member is root and member.opcode.name in STRUCTURAL:
            continue
        repeats = not by_rows and member not in reduces and _repeats_work(member, largest)
        if repeats or not _is_producer(member):
            return True
    return _evaluations(body) > MAX_EVALUATIONS


def _is_producer(inst: Instruction, depth: int = 0) -> bool:
    """True if the element generator can emit elements of `inst`."""
    name = inst.opcode.name
    if name in _CONTROL_FLOW:
        return False
    if name in ("fusion", "call"):
        members = inst.called[0].instructions
        return depth < MAX_NESTING and all(_is_producer(m, depth + 1) for m in members)
    if name == "constant":
        return isinstance(inst.shape, ArrayShape) and (
            inst.shape.size_bytes <= MAX_CONSTANT_BYTES
            or inst.attributes.literal.uniform is not None
        )
    if name == "bitcast":
        return (
            inst.array.dtype.storage_bytes == inst.operands[0].array.dtype.storage_bytes
            and inst.array.dtype.is_complex == inst.operands[0].array.dtype.is_complex
        )
    return has_rule(inst)


def _repeats_work(inst: Instruction, largest: int) -> bool:
    """True for a reduction that would be recomputed for many elements of the result."""
    if inst.opcode.name not in ("reduce", "reduce-window"):
        return False
    elements = array_leaves(inst.shape)[0].elements
    return largest > 2 * elements and inst.operands[0].array.elements > 16 * elements


def _evaluations(body: Computation) -> int:
    """Estimate how many elements the fusion computes per element of its result.

    Elementwise users of one instruction share an element; other users need one each.
    """
    counts: dict[Instruction, int] = {body.root: 1}
    total = 0
    for inst in reversed(post_order(body)):
        same = other = 0
        for user in inst.users:
            count = counts.get(user, 0)
            if works_per_element(user) or user.opcode.nop:
                same = max(same, count)
            else:
                other += count * user.operands.count(inst)
        counts[inst] = max(counts.get(inst, 0), min(same + other, MAX_EVALUATIONS + 1))
        if not inst.opcode.nop:
            total += counts[inst]
    return total
