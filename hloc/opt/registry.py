"""Names of passes; a pass is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hloc.errors import HloError
from hloc.opt.pass_base import did_you_mean

PASSES: dict[str, str] = {
    "algebraic-simplifier": "hloc.opt.algebraic_simplifier:AlgebraicSimplifier",
    "batch-norm-expander": "hloc.opt.batch_norm_expander:BatchNormExpander",
    "call-inliner": "hloc.opt.call_inliner:CallInliner",
    "constant-folding": "hloc.opt.constant_folding:ConstantFolding",
    "copy-insertion": "hloc.opt.copy_insertion:CopyInsertion",
    "cse": "hloc.opt.cse:CommonSubexpressionElimination",
    "dce": "hloc.opt.dce:DeadCodeElimination",
    "dynamic-padder": "hloc.opt.dynamic_padder:DynamicPadder",
    "flatten-call-graph": "hloc.opt.flatten_call_graph:FlattenCallGraph",
    "fusion": "hloc.opt.fusion.instruction_fusion:InstructionFusion",
    "map-inliner": "hloc.opt.map_inliner:MapInliner",
    "ragged-dot-rewriter": "hloc.opt.dot_expander:RaggedDotRewriter",
    "rng-expander": "hloc.opt.rng_expander:RngExpander",
    "scaled-dot-rewriter": "hloc.opt.dot_expander:ScaledDotRewriter",
    "scan-expander": "hloc.opt.scan_expander:ScanExpander",
    "sharding-remover": "hloc.opt.sharding_remover:ShardingRemover",
    "sort-simplifier": "hloc.opt.sort_simplifier:SortSimplifier",
    "tuple-simplifier": "hloc.opt.tuple_simplifier:TupleSimplifier",
    "zero-sized-elimination": "hloc.opt.zero_sized_elimination:ZeroSizedElimination",
}
"""Name of a pass -> "module:Class"."""

ALIASES: dict[str, str] = {
    "algsimp": "algebraic-simplifier",
    "constant_folding": "constant-folding",
    "CallInliner": "call-inliner",
    "inline": "call-inliner",
    "simplify-sorts": "sort-simplifier",
    "zero_sized_hlo_elimination": "zero-sized-elimination",
}
"""Other spellings, XLA's own among them."""


def canonical_name(name: str) -> str:
    """Return the name under which `name` is registered.

    Raises:
        HloError: there is no such pass; a note gives the nearest name, or where to look.
    """
    found = ALIASES.get(name, name)
    if found not in PASSES:
        near = did_you_mean(name, [*PASSES, *ALIASES])
        raise HloError(f"there is no pass {name!r}", notes=near or ("`hloc passes` lists them",))
    return found


def pass_class(name: str) -> type[Any]:
    """Return the class of the pass called `name` (or an alias of it)."""
    module_name, class_name = PASSES[canonical_name(name)].split(":")
    found: type[Any] = getattr(import_module(module_name), class_name)
    return found
