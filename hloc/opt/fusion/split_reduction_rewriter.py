"""Split reductions of a large array along its outermost dimension, so that threads share them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import ClassVar

from hloc.analysis.call_graph import control_flow_computations
from hloc.ir.clone import inline
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order, post_order_from
from hloc.lazy_dataclass import dataclass
from hloc.ops.builder import Builder
from hloc.opt.fusion.columns import reduces_of
from hloc.opt.fusion.outline_fusion import outline_fusion
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.windows.regrouping import is_regroupable, regrouping_of
from hloc.shapes import ArrayShape, row_major

_MOST_PARTS = 16

_LEAST_SHARE = 16
"""The array has at least this many times as many elements as the results of all parts."""

_FEW_RESULTS = 8
"""With at least this many results before the reduced dimension, threads share those."""


@dataclass(frozen=True)
class SplitReductionRewriter(RewritingPass):
    """Reduce a large array in parts along its outermost dimension, then reduce their results.

    Threads share the results of a reduction; a sum over all elements has one, and sums of columns,
    `f32[4096,1024]` to `f32[1024]`, would let each thread read a piece of every row, which memory
    delivers slowly. Of up to 16 parts each thread takes whole rows in order. Measured on two
    threads: sums of those columns take 0.45 of the time, sums of all elements 0.55; on one thread
    as long as before. Splits arrays of at least `min_bytes`, alone or as a fusion of kind kInput,
    of which it leaves two: what computes the elements in the first, what follows the results in the
    second. Needs an associative reducer (regrouping.py); exact but for the order of sums. Cost:
    O(instructions).
    """

    name: ClassVar[str] = "split-reduction-rewriter"
    acts_on = frozenset({"reduce"})

    min_bytes: int = 1 << 20

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Split in the entry and in the bodies of loops, branches and calls."""
        for computation in control_flow_computations(module):
            pinned = computation.awaited
            for inst in post_order(computation):
                is_kernel = inst.is_a("reduce") or _is_input_fusion(inst)
                if not is_kernel or inst.control_predecessors or inst in pinned:
                    continue
                reduces = reduces_of(inst)
                if not reduces or reduces[0].operands[0].array.size_bytes < self.min_bytes:
                    continue
                dim, parts = _place(reduces)
                if parts == 1:
                    continue
                if context.spent:
                    return
                context.at = inst
                with context.rewriting(module, self.name):
                    _split(computation, inst, reduces, dim, parts)


def _is_input_fusion(inst: Instruction) -> bool:
    return inst.is_a("fusion") and inst.attributes.kind == "kInput"


def _place(reduces: Sequence[Instruction]) -> tuple[int, int]:
    """Return the dimension that is split, and the number of parts, 1 if there is none to split."""
    (first, *_), count = reduces, len(reduces[0].operands) // 2
    array, reduced = first.operands[0].array, first.attributes.dimensions
    dims = array.dims
    dim = next((d for d in range(len(dims)) if d in reduced and dims[d] != 1), 0)
    kept = prod(size for d, size in enumerate(dims) if d not in reduced)
    is_fitting = (
        count == 1
        and dim in reduced
        and prod(dims[:dim]) < _FEW_RESULTS
        and all(_is_plain(x.array) for r in reduces for x in (r, r.operands[0]))
        and all(map(is_regroupable, reduces))
    )
    if not is_fitting:
        return dim, 1
    most = min(_MOST_PARTS, dims[dim], array.elements // max(_LEAST_SHARE * kept, 1))
    return dim, next((parts for parts in range(most, 1, -1) if dims[dim] % parts == 0), 1)


def _is_plain(shape: ArrayShape) -> bool:
    is_row_major = shape.minor_to_major == row_major(shape.rank).minor_to_major
    return is_row_major and not shape.dynamic


def _split(
    computation: Computation,
    inst: Instruction,
    reduces: Sequence[Instruction],
    dim: int,
    parts: int,
) -> None:
    """Replace `inst`, a reduce or a fusion, by two."""
    before: list[Instruction] = []
    after: list[Instruction] = []
    outputs: list[Instruction] = [inst]
    if inst.is_a("fusion"):
        (body,) = inst.called
        copies, root = _inlined(inst), body.root
        # Only the fusion is searched: what is before it may be the whole module.
        needed = {*post_order_from([reduce.operands[0] for reduce in reduces])}
        members = [m for m in post_order(body) if not m.is_a("parameter", "tuple")]
        before = [copies[m] for m in members if m in needed]
        after = [copies[m] for m in members if m not in needed]
        outputs = [copies[o] for o in (root.operands if root.is_a("tuple") else (root,))]
        reduces = [copies[reduce] for reduce in reduces]
    added: list[Instruction] = []
    partial: list[Instruction] = []
    replaced: dict[Instruction, Instruction] = {}
    for reduce in reduces:
        new, replaced[reduce] = _in_parts(computation, reduce, dim, parts)
        added += new
        partial.append(new[-1])
    after = [replaced.get(member, member) for member in after]
    outputs = [replaced.get(output, output) for output in outputs]
    for old, result in replaced.items():
        computation.replace(old, result)
        computation.remove(old)
    if before or len(partial) > 1:
        outline_fusion(computation, [*before, *added], partial, partial[0])
    if len(after) > 1:
        outline_fusion(computation, after, outputs, replaced[reduces[0]])


def _inlined(fusion: Instruction) -> Mapping[Instruction, Instruction]:
    """Inline a fusion without the tuple of its results; return what stands for its instructions."""
    root = fusion.called[0].root
    copies = inline(fusion)
    if root.is_a("tuple") and not copies[root].users:
        copies[root].computation.remove(copies[root])
    return copies


def _in_parts(
    computation: Computation, reduce: Instruction, dim: int, parts: int
) -> tuple[list[Instruction], Instruction]:
    """Return the instructions that reduce the parts, and the reduction of their results."""
    b, regrouping = Builder(computation), regrouping_of(reduce.called[0])
    assert regrouping is not None
    operand, start = reduce.operands
    dims = list(operand.array.dims)
    dims[dim : dim + 1] = parts, dims[dim] // parts
    array = b.reshape(operand, dims)
    neutral = regrouping.identities(b, [start])
    inner = [d + (d >= dim) for d in reduce.attributes.dimensions]
    found = b.reduce([array], neutral, inner, reduce.called[0])
    kept = sum(d not in reduce.attributes.dimensions for d in range(dim))
    return [array, *neutral, found], b.reduce([found], [start], [kept], reduce.called[0])
