"""Merge dots that share an operand into one dot of the concatenated others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import live_computations, post_order
from hloc.lazy_dataclass import dataclass
from hloc.ops.builder import Builder
from hloc.opt.contraction.dot_numbers import Side, dot_of, sides
from hloc.opt.expander import is_static
from hloc.opt.pass_base import PassContext, RewritingPass

Key: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True)
class DotMerger(RewritingPass):
    """Merge dots that share an operand: `x * a` and `x * b` are slices of `x * [a, b]`.

    Every element is the same sum as before. Merges dots with equal dimension numbers and
    element types whose other operands have one free dimension and at most `max_bytes` each. They
    are equally deep in the graph, so none depends on another. The operands are concatenated, which
    pays off for small ones. Cost: O(instructions). Source: XLA's pass of
    this name.
    """

    max_bytes: int = 1 << 25

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Merge in every computation."""
        for computation in live_computations(module):
            if computation.is_fusion:
                continue
            for shared in (0, 1):
                for group in self._groups(computation, shared, context):
                    if context.spent:
                        return
                    context.at = group[0]
                    with context.rewriting(module, self.name):
                        _merge(group, shared)

    def _groups(
        self, computation: Computation, shared: int, context: PassContext
    ) -> Iterator[list[Instruction]]:
        """Return dots that share operand number `shared`, two or more in a group."""
        order = post_order(computation)
        if sum(inst.is_a("dot") for inst in order) < 2:
            return iter(())
        groups: dict[Key, list[Instruction]] = {}
        depths: dict[Instruction, int] = {}
        for inst in order:
            above = (*inst.operands, *inst.control_predecessors)
            depths[inst] = 1 + max((depths[i] for i in above), default=0)
            if inst.is_a("dot") and _can_merge(inst, shared):
                other = inst.operands[1 - shared]
                if other.array.size_bytes <= self.max_bytes:
                    groups.setdefault((*_key(inst, shared), depths[inst]), []).append(inst)
                else:
                    text = f"{other.name} has {other.array.size_bytes} bytes"
                    context.remark("missed", self.name, inst, text)
        return (group for group in groups.values() if len(group) > 1)


def _can_merge(inst: Instruction, shared: int) -> bool:
    other = sides(inst)[1 - shared]
    return (
        is_static(inst)
        and bool(inst.users or inst.is_root)
        and len(other.free) == 1
        and inst.operands[0] is not inst.operands[1]
    )


def _key(inst: Instruction, shared: int) -> Key:
    """Return the key that dots of one group share."""
    other = sides(inst)[1 - shared]
    dims = tuple(0 if d in other.free else n for d, n in enumerate(other.operand.array.dims))
    return (
        inst.operands[shared],
        inst.attributes,
        inst.array.dtype,
        other.operand.array.dtype,
        dims,
    )


def _merge(group: list[Instruction], shared: int) -> None:
    """Replace dots with the same operand number `shared` by slices of one dot."""
    first = group[0]
    computation, b = first.computation, Builder(first.computation)
    both = sides(first)
    (dim,) = both[1 - shared].free
    others = [inst.operands[1 - shared] for inst in group]
    joined = Side(b.concatenate(others, dim), both[1 - shared].batch, both[1 - shared].contracting)
    lhs, rhs = (both[0], joined) if shared == 0 else (joined, both[1])
    merged = dot_of(b, first, lhs, rhs)
    # The one free dimension of the other operand: first after the batch on the left, else last.
    place = len(lhs.batch) if shared == 1 else merged.array.rank - 1
    start = 0
    for inst, other in zip(group, others, strict=True):
        limit = start + other.array.dims[dim]
        starts, limits = [0] * merged.array.rank, list(merged.array.dims)
        starts[place], limits[place] = start, limit
        part = b.slice(merged, starts, limits)
        computation.replace(inst, part if part.shape == inst.shape else _copied(b, part, inst))
        start = limit


def _copied(b: Builder, part: Instruction, inst: Instruction) -> Instruction:
    return b.instruction("copy", (part,), shape=inst.shape)
