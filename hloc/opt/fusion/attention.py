"""Attention fusion: two dots and the softmax between them in one kernel.

The scores are by far the largest array of an attention. A kernel that works on a block of queries
at a time keeps them in the cache and skips the keys that a causal mask hides.
"""

from __future__ import annotations

from hloc.analysis.call_graph import control_flow_computations
from hloc.ir.clone import outline
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order
from hloc.opt.fusion.attention_match import Attention, attention_of
from hloc.opt.fusion.outline_fusion import add_fusion, remove_dead
from hloc.opt.pass_base import PassContext, RewritingPass

_MIN_ROWS, _MIN_KEYS, _MIN_DEPTH, _MIN_SCORES = 12, 16, 8, 1024
"""Minimum sizes; below them separate dots and softmax are as fast, or faster.

Time of the fusion over that without, f32, 16 heads, depth 64: 1.07 for 10 queries and 512 keys,
0.64 for 12; 1.11 for 32 queries and 16 keys, 0.79 for 16 and 64, 1.99 for 16 and 16.
"""


class AttentionFusion(RewritingPass):
    """Fuse dot, mask, softmax and dot if nothing else reads the intermediate values.

    Masks, scales and converts of the scores are fused too, with any dimension numbers. Expects a
    module without dead code. Leaves `fusion` instructions of kind kCustom with the second dot as
    root. Cost: O(instructions), with at most 64 instructions matched per dot.
    """

    acts_on = frozenset({"exponential"})

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Fuse in the entry and in the bodies of loops, branches and calls."""
        for computation in control_flow_computations(module):
            pinned = computation.awaited
            for inst in [i for i in post_order(computation) if i.opcode.name == "dot"]:
                attention = attention_of(inst)
                if attention is None or inst in pinned or not _is_worth_it(attention):
                    continue
                reader = _reader_outside(attention)
                if reader is not None:
                    context.remark("missed", self.name, inst, f"{reader.name} has other users")
                    continue
                if context.spent:
                    return
                context.at = inst
                saved = 2 * attention.scores.shape.size_bytes
                context.remark(
                    "passed", self.name, inst, f"scores stay in the cache, saves {saved} bytes"
                )
                with context.rewriting(module, self.name):
                    _outline(computation, attention)


def _is_worth_it(attention: Attention) -> bool:
    return (
        attention.rows >= _MIN_ROWS
        and attention.keys >= _MIN_KEYS
        and attention.rows * attention.keys >= _MIN_SCORES
        and attention.depth >= _MIN_DEPTH
    )


def _reader_outside(attention: Attention) -> Instruction | None:
    """Return a member that depends on the scores and has users outside the attention."""
    members = set(attention.members)
    for inst in attention.dims:
        if inst is not attention.result and not members.issuperset(inst.users):
            return inst
    return None


def _outline(computation: Computation, attention: Attention) -> None:
    """Replace the result by a fusion and remove the dead members."""
    body, operands = outline(
        computation, attention.members, [attention.result], name="fused_attention"
    )
    fusion = add_fusion(
        computation, body, operands, "kCustom", "attention_fusion", attention.result
    )
    computation.replace(attention.result, fusion)
    remove_dead(attention.members)
