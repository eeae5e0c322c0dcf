"""The first changes of every level: opcodes without a kernel become opcodes that have one.

After them all shapes are static; see `codegen/lowering.py` for what comes later.
"""

from __future__ import annotations

from hloc.codegen.dynamic_boundary import DynamicBoundary, make_boundary_static
from hloc.codegen.fusion_splitter import FusionSplitter
from hloc.ir.module import Module
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline

EXPANSION = (
    "tuple-simplifier,dce,batch-norm-expander,ragged-dot-rewriter,rng-expander,"
    "scaled-dot-rewriter,scan-expander,dynamic-padder,dce"
)
"""Tuples that are taken apart and dead code go first: what nobody needs is not refused."""


def expand(module: Module) -> DynamicBoundary:
    """Change `module` in place; returns the hidden sizes of its parameters and results.

    Raises:
        UnsupportedError: no law is known for an instruction.
    """
    context = PassContext()
    FusionSplitter().run(module, context)
    Pipeline.parse(EXPANSION).run(module, context)
    return make_boundary_static(module)
