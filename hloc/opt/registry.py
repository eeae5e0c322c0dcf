"""Names of passes; a pass is imported when it is asked for. Plug-ins add passes and rules here."""

from __future__ import annotations

import dataclasses
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from hloc.errors import HloError
from hloc.near_names import near_name_notes
from hloc.opt.pass_base import option_kind

if TYPE_CHECKING:
    from hloc.opt.rule import Rule

PASSES: dict[str, str] = {
    "algebraic-simplifier": "hloc.opt.algebraic_simplifier:AlgebraicSimplifier",
    "all-reduce-simplifier": "hloc.opt.movement.all_reduce_simplifier:AllReduceSimplifier",
    "attention-fusion": "hloc.opt.fusion.attention:AttentionFusion",
    "batch-dot-simplification": (
        "hloc.opt.library.contraction.batch_dot_simplification:BatchDotSimplification"
    ),
    "batch-norm-expander": "hloc.opt.batch_norm_expander:BatchNormExpander",
    "batched-gather-scatter-normalizer": (
        "hloc.opt.library.indexing.batched_gather_scatter_normalizer:BatchedGatherScatterNormalizer"
    ),
    "bitcast-dtypes-expander": (
        "hloc.opt.library.types.bitcast_dtypes_expander:BitcastDtypesExpander"
    ),
    "broadcast-canonicalizer": (
        "hloc.opt.library.movement.broadcast_canonicalizer:BroadcastCanonicalizer"
    ),
    "call-inliner": "hloc.opt.call_inliner:CallInliner",
    "change-op-data-type": "hloc.opt.library.types.change_op_data_type:ChangeOpDataType",
    "cholesky-expander": "hloc.opt.library.linear_algebra.cholesky_expander:CholeskyExpander",
    "comparison-expander": "hloc.opt.library.types.comparison_expander:ComparisonExpander",
    "computation-deduplicator": (
        "hloc.opt.library.movement.computation_deduplicator:ComputationDeduplicator"
    ),
    "conditional-simplifier": "hloc.opt.control_flow.conditional_simplifier:ConditionalSimplifier",
    "conditional-to-select": "hloc.opt.control_flow.conditional_to_select:ConditionalToSelect",
    "constant-folding": "hloc.opt.constant_folding:ConstantFolding",
    "conv-canonicalization": (
        "hloc.opt.library.contraction.conv_canonicalization:ConvCanonicalization"
    ),
    "convert-mover": "hloc.opt.library.movement.convert_mover:ConvertMover",
    "convolution-group-converter": (
        "hloc.opt.library.contraction.convolution_group_converter:ConvolutionGroupConverter"
    ),
    "convolution-to-dot": "hloc.opt.library.contraction.convolution_to_dot:ConvolutionToDot",
    "copy-insertion": "hloc.opt.copy_insertion:CopyInsertion",
    "cse": "hloc.opt.cse:CommonSubexpressionElimination",
    "dce": "hloc.opt.dce:DeadCodeElimination",
    "dot-decomposer": "hloc.opt.library.contraction.dot_decomposer:DotDecomposer",
    "dot-dimension-sorter": "hloc.opt.library.contraction.dot_dimension_sorter:DotDimensionSorter",
    "dot-merger": "hloc.opt.library.contraction.dot_merger:DotMerger",
    "dynamic-index-splitter": (
        "hloc.opt.library.indexing.dynamic_index_splitter:DynamicIndexSplitter"
    ),
    "dynamic-padder": "hloc.opt.dynamic_padder:DynamicPadder",
    "flatten-call-graph": "hloc.opt.flatten_call_graph:FlattenCallGraph",
    "float-normalization": "hloc.opt.library.types.float_normalization:FloatNormalization",
    "fusion": "hloc.opt.fusion.instruction_fusion:InstructionFusion",
    "gather-expander": "hloc.opt.library.indexing.gather_expander:GatherExpander",
    "gather-simplifier": "hloc.opt.library.indexing.gather_simplifier:GatherSimplifier",
    "hlo-module-dce": "hloc.opt.library.control_flow.hlo_module_dce:HloModuleDce",
    "hlo-rematerialization": "hloc.opt.rematerialization:HloRematerialization",
    "lapack-rewriter": "hloc.opt.lapack_rewriter:LapackRewriter",
    "layout-assignment": "hloc.opt.layout_assignment:LayoutAssignment",
    "logistic-expander": "hloc.opt.library.types.logistic_expander:LogisticExpander",
    "long-window-rewriter": "hloc.opt.windows.long_window_rewriter:LongWindowRewriter",
    "map-inliner": "hloc.opt.map_inliner:MapInliner",
    "multi-output-fusion": "hloc.opt.fusion.multi_output:MultiOutputFusion",
    "output-fusion": "hloc.opt.fusion.output_fusion:OutputFusion",
    "operand-upcaster": "hloc.opt.library.contraction.result_types:OperandUpcaster",
    "priority-fusion": "hloc.opt.fusion.priority_fusion:PriorityFusion",
    "ragged-dot-rewriter": "hloc.opt.dot_expander:RaggedDotRewriter",
    "reduce-decomposer": "hloc.opt.library.movement.decomposers:ReduceDecomposer",
    "reduce-window-rewriter": "hloc.opt.windows.reduce_window_rewriter:ReduceWindowRewriter",
    "reshape-decomposer": "hloc.opt.library.movement.decomposers:ReshapeDecomposer",
    "reshape-mover": "hloc.opt.library.movement.reshape_mover:ReshapeMover",
    "result-caster": "hloc.opt.library.contraction.result_types:ResultCaster",
    "rng-expander": "hloc.opt.rng_expander:RngExpander",
    "scaled-dot-rewriter": "hloc.opt.dot_expander:ScaledDotRewriter",
    "scan-expander": "hloc.opt.scan_expander:ScanExpander",
    "scatter-expander": "hloc.opt.library.indexing.scatter_expander:ScatterExpander",
    "scatter-simplifier": "hloc.opt.library.indexing.scatter_simplifier:ScatterSimplifier",
    "select-and-scatter-expander": (
        "hloc.opt.library.windows.select_and_scatter_expander:SelectAndScatterExpander"
    ),
    "select-and-scatter-unroller": (
        "hloc.opt.windows.select_and_scatter_unroller:SelectAndScatterUnroller"
    ),
    "sharding-remover": "hloc.opt.sharding_remover:ShardingRemover",
    "simplify-fp-conversions": "hloc.opt.movement.simplify_fp_conversions:SimplifyFpConversions",
    "slice-sinker": "hloc.opt.library.movement.slice_sinker:SliceSinker",
    "sort-simplifier": "hloc.opt.sort_simplifier:SortSimplifier",
    "stochastic-convert-decomposer": (
        "hloc.opt.library.types.stochastic_convert_decomposer:StochasticConvertDecomposer"
    ),
    "sub-byte-normalization": "hloc.opt.library.types.sub_byte_normalization:SubByteNormalization",
    "topk-decomposer": "hloc.opt.library.types.topk_decomposer:TopkDecomposer",
    "topk-rewriter": "hloc.opt.topk_rewriter:TopkRewriter",
    "transpose-folding": "hloc.opt.contraction.transpose_folding:TransposeFolding",
    "tree-reduction-rewriter": (
        "hloc.opt.library.windows.tree_reduction_rewriter:TreeReductionRewriter"
    ),
    "triangular-solve-expander": (
        "hloc.opt.library.linear_algebra.triangular_solve_expander:TriangularSolveExpander"
    ),
    "tuple-simplifier": "hloc.opt.tuple_simplifier:TupleSimplifier",
    "while-loop-constant-sinking": (
        "hloc.opt.control_flow.while_loop_constant_sinking:WhileLoopConstantSinking"
    ),
    "while-loop-invariant-code-motion": (
        "hloc.opt.control_flow.while_loop_invariant_code_motion:WhileLoopInvariantCodeMotion"
    ),
    "while-loop-simplifier": "hloc.opt.control_flow.while_loop_simplifier:WhileLoopSimplifier",
    "while-loop-trip-count-annotator": (
        "hloc.opt.library.control_flow.while_loop_trip_count_annotator:WhileLoopTripCountAnnotator"
    ),
    "while-loop-unroller": "hloc.opt.control_flow.while_loop_unroller:WhileLoopUnroller",
    "zero-sized-elimination": "hloc.opt.zero_sized_elimination:ZeroSizedElimination",
}
"""Name of a pass -> "module:Class"."""

ALIASES: dict[str, str] = {
    "algsimp": "algebraic-simplifier",
    "constant_folding": "constant-folding",
    "CallInliner": "call-inliner",
    "inline": "call-inliner",
    "conditional_simplifier": "conditional-simplifier",
    "conditional_to_select": "conditional-to-select",
    "rematerialization": "hlo-rematerialization",
    "simplify-conditional": "conditional-simplifier",
    "multi_output_fusion": "multi-output-fusion",
    "simplify-sorts": "sort-simplifier",
    "simplify-while-loops": "while-loop-simplifier",
    "while_loop_simplifier": "while-loop-simplifier",
    "while_loop_unroller": "while-loop-unroller",
    "zero_sized_hlo_elimination": "zero-sized-elimination",
    "dot_decomposer": "dot-decomposer",
    "dot_dimension_sorter": "dot-dimension-sorter",
    "dot_merger": "dot-merger",
    "convolution-canonicalization": "conv-canonicalization",
    "gather_expander": "gather-expander",
    "scatter_expander": "scatter-expander",
    "gather_simplifier": "gather-simplifier",
    "scatter_simplifier": "scatter-simplifier",
    "stochastic_convert_decomposer": "stochastic-convert-decomposer",
    "bitcast_dtypes_expander": "bitcast-dtypes-expander",
    "operand_upcaster": "operand-upcaster",
    "result_caster": "result-caster",
    "tree_reduction_rewriter": "tree-reduction-rewriter",
    "batched_gather_scatter_normalizer": "batched-gather-scatter-normalizer",
    "cholesky_expander": "cholesky-expander",
    "triangular_solve_expander": "triangular-solve-expander",
    "select_and_scatter_expander": "select-and-scatter-expander",
}
"""Other spellings, XLA's own among them."""

_LIBRARY = "hloc.opt.library."


def is_in_library(name: str) -> bool:
    """True if no pipeline runs the pass `name`: it runs when `--passes` names it."""
    return PASSES[name].startswith(_LIBRARY)


def canonical_name(name: str) -> str:
    """Return the name under which `name` is registered.

    Raises:
        HloError: there is no such pass; a note gives the nearest name, or where to look.
    """
    found = ALIASES.get(name, name)
    if found not in PASSES:
        near = near_name_notes(name, [*PASSES, *ALIASES])
        raise HloError(
            f"there is no pass {name!r}", notes=near or ("the command `passes` lists them",)
        )
    return found


def pass_class(name: str) -> type[Any]:
    """Return the class of the pass called `name` (or an alias of it)."""
    name = canonical_name(name)
    if name in _REGISTERED:
        return _REGISTERED[name]
    module_name, class_name = PASSES[name].split(":")
    found: type[Any] = getattr(import_module(module_name), class_name)
    return found


# ---------------------------------------------------------------- what plug-ins add

_PassClass = TypeVar("_PassClass", bound=type[Any])
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_REGISTERED: dict[str, type[Any]] = {}
_RULES: dict[str, Rule] = {}


def register_pass(cls: _PassClass) -> _PassClass:
    """Make the pass class `cls` known under its `name`; also a decorator.

    Registering a name again replaces the class (reloading a plug-in).

    Raises:
        HloError: the name is not kebab-case, or it is that of a pass of hloc; an option that cannot
            be written on the command line.
    """
    name = _checked_name("pass", getattr(cls, "name", ""))
    if name in ALIASES or (name in PASSES and name not in _REGISTERED):
        raise HloError(f"there is a pass {name!r} already")
    if not callable(getattr(cls, "run", None)):
        raise HloError(f"pass {name!r} has no method run(module, context)")
    if not dataclasses.is_dataclass(cls):
        raise HloError(f"the class of pass {name!r} is no dataclass")
    for option in dataclasses.fields(cls):
        if option.init and option_kind(option) not in ("bool", "int", "str"):
            raise HloError(f"option {option.name} of pass {name!r} is not a bool, int or str")
        if option.init and option.default is dataclasses.MISSING:
            raise HloError(f"option {option.name} of pass {name!r} has no default")
    PASSES[name] = f"{cls.__module__}:{cls.__qualname__}"
    _REGISTERED[name] = cls
    return cls


def register_rules(*rules: Rule) -> None:
    """Add rules to `algebraic-simplifier`; they are tried after its own.

    Registering a name again replaces the rule.

    Raises:
        HloError: a name is not kebab-case, or it is that of a rule of hloc.
    """
    from hloc.opt.rules import ALL_RULES

    known = {rule.name for rule in ALL_RULES}
    for rule in rules:
        if _checked_name("rule", rule.name) in known:
            raise HloError(f"there is a rule {rule.name!r} already")
        _RULES[rule.name] = rule


def registered_rules() -> tuple[Rule, ...]:
    """Return the rules that plug-ins have added."""
    return tuple(_RULES.values())


def has_plugins() -> bool:
    """True if a plug-in has added something."""
    return bool(_REGISTERED or _RULES)


def rules_of_passes() -> tuple[Rule, ...]:
    """Return the rules of passes that plug-ins have made of rules."""
    return tuple(rule for cls in _REGISTERED.values() for rule in getattr(cls, "rule_rows", ()))


def all_rules() -> tuple[Rule, ...]:
    """Return every rule, those of plug-ins last."""
    from hloc.opt.rules import ALL_RULES

    return (*ALL_RULES, *registered_rules())


def is_registered(name: str) -> bool:
    """Return whether a plug-in has added the pass `name`."""
    return name in _REGISTERED


def forget_registered() -> None:
    """Unregister everything that plug-ins added (between tests)."""
    for name in _REGISTERED:
        del PASSES[name]
    _REGISTERED.clear()
    _RULES.clear()


def _checked_name(kind: str, name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == "fixpoint":
        raise HloError(f"the name of a {kind} is kebab-case, as `my-{kind}`, not {name!r}")
    return name
