"""The first lowering at every level: opcodes without a kernel become opcodes that have one.

Afterwards all shapes are static; `codegen/lower/lowering.py` makes the later changes.
"""

from __future__ import annotations

from collections.abc import Callable

from hloc.analysis.epilogue import product_in
from hloc.codegen.lower.collectives import join_started_collectives
from hloc.codegen.lower.dynamic_boundary import make_boundary_static
from hloc.codegen.lower.fusion_splitter import FusionSplitter
from hloc.codegen.lower.hidden_sizes import DynamicBoundary
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.verifier.devices import check_group_sizes
from hloc.opt.fusion.attention_match import is_attention_fusion
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline

EXPANSION = (
    "late-binding-expander,tuple-simplifier,all-reduce-simplifier,dce,batch-norm-expander,"
    "collective-broadcast-expander,ragged-dot-rewriter,rng-expander,scaled-dot-rewriter,"
    "scan-expander,sparse-convolution-expander,dynamic-padder,dce"
)
"""Tuples and dead code are eliminated first, so that unused instructions are not refused."""

FUSION = "fusion,dce,multi-output-fusion,dce"
"""For targets without kernels for whole attentions, or for gemms with epilogues."""


def expand(module: Module, needs_defusion: Callable[[Instruction], bool]) -> DynamicBoundary:
    """Expand `module` in place; return the hidden sizes of its parameters and results.

    Args:
        module: the result of the passes.
        needs_defusion: true for fusions that the target cannot take whole.

    Raises:
        HloError: the groups of a collective do not fit its shapes.
        UnsupportedError: an instruction has no expansion.
    """
    check_group_sizes(module)
    context = PassContext()
    if "fusion" in module.opcodes:
        _split(module, needs_defusion, context)
    join_started_collectives(module)
    Pipeline.known(EXPANSION).run(module, context)
    return make_boundary_static(module)


def _split(
    module: Module, needs_defusion: Callable[[Instruction], bool], context: PassContext
) -> None:
    """Defuse; what lies between or after the gemms is fused again."""
    has_products = any(
        (is_attention_fusion(inst) or _is_output_fusion(inst)) and needs_defusion(inst)
        for computation in module.computations
        for inst in computation.instructions
    )
    splitter = FusionSplitter(needs_defusion)
    splitter.run(module, context)
    if has_products:
        Pipeline.known(FUSION).run(module, context)
        splitter.run(module, context)


def _is_output_fusion(inst: Instruction) -> bool:
    return inst.is_a("fusion") and product_in(inst.called[0]) is not None
