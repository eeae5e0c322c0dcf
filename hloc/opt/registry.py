"""Names of passes; a pass is imported on first use. Plug-ins add passes and rules here."""

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

_FOLDERS: dict[str, tuple[str, ...]] = {
    "hloc.opt": (
        "algebraic-simplifier",
        "complex-sum-rewriter",
        "constant-folding",
        "copy-insertion",
        "dynamic-padder",
        "sharding-remover",
        "tuple-simplifier",
        "zero-sized-elimination",
    ),
    "hloc.opt.calls": (
        "call-inliner",
        "flatten-call-graph",
        "late-binding-expander",
        "layer-inliner",
        "layer-outliner",
        "map-inliner",
    ),
    "hloc.opt.collectives": (
        "all-gather-combiner",
        "all-reduce-combiner",
        "reduce-scatter-combiner",
        "reduce-scatter-creator",
    ),
    "hloc.opt.contraction": (
        "repeated-operand-folding",
        "split-k-gemm-rewriter",
        "transpose-folding",
        "transposed-convolution-rewriter",
    ),
    "hloc.opt.control_flow": (
        "conditional-simplifier",
        "conditional-to-select",
        "double-buffer-loop-unrolling",
        "while-loop-constant-sinking",
        "while-loop-dot-batching",
        "while-loop-dot-sinking",
        "while-loop-invariant-code-motion",
        "while-loop-simplifier",
        "while-loop-unroller",
    ),
    "hloc.opt.expanders": (
        "batch-norm-expander",
        "collective-broadcast-expander",
        "lapack-rewriter",
        "rng-expander",
        "scan-expander",
        "sparse-convolution-expander",
        "split-fft-rewriter",
    ),
    "hloc.opt.fusion": (
        "convert-operand-fusion",
        "dynamic-slice-fusion-rewriter",
        "operand-fusion",
        "output-fusion",
        "priority-fusion",
        "split-reduction-rewriter",
    ),
    "hloc.opt.indexing": (
        "known-scatter-rewriter",
        "sort-simplifier",
        "sparse-product-rewriter",
        "sparse-update-rewriter",
        "topk-rewriter",
    ),
    "hloc.opt.layout": ("layout-assignment", "short-rows-layout"),
    "hloc.opt.library.collectives": (
        "async-collective-creator",
        "latency-hiding-scheduler",
    ),
    "hloc.opt.library.contraction": (
        "batch-dot-simplification",
        "conv-canonicalization",
        "convolution-group-converter",
        "convolution-to-dot",
        "dot-decomposer",
        "dot-dimension-sorter",
        "dot-merger",
    ),
    "hloc.opt.library.control_flow": (
        "hlo-module-dce",
        "while-loop-trip-count-annotator",
    ),
    "hloc.opt.library.indexing": (
        "batched-gather-scatter-normalizer",
        "dynamic-index-splitter",
        "gather-expander",
        "gather-simplifier",
        "scatter-expander",
        "scatter-simplifier",
    ),
    "hloc.opt.library.linear_algebra": (
        "cholesky-expander",
        "triangular-solve-expander",
    ),
    "hloc.opt.library.movement": (
        "broadcast-canonicalizer",
        "computation-deduplicator",
        "convert-mover",
        "reshape-mover",
        "slice-sinker",
    ),
    "hloc.opt.library.types": (
        "bitcast-dtypes-expander",
        "change-op-data-type",
        "comparison-expander",
        "float-normalization",
        "logistic-expander",
        "stochastic-convert-decomposer",
        "sub-byte-normalization",
        "topk-decomposer",
    ),
    "hloc.opt.library.windows": (
        "select-and-scatter-expander",
        "tree-reduction-rewriter",
    ),
    "hloc.opt.movement": (
        "all-reduce-simplifier",
        "simplify-fp-conversions",
    ),
    "hloc.opt.windows": (
        "long-window-rewriter",
        "reduce-window-rewriter",
        "select-and-scatter-unroller",
    ),
    "hloc.opt.spmd": ("sharding-propagation", "spmd-partitioner"),
}
"""Package -> passes; `foo-bar` is the class `FooBar` in `foo_bar.py`."""

_ELSEWHERE = {
    "attention-fusion": "hloc.opt.fusion.attention:AttentionFusion",
    "cse": "hloc.opt.cse:CommonSubexpressionElimination",
    "dce": "hloc.opt.dce:DeadCodeElimination",
    "fusion": "hloc.opt.fusion.instruction_fusion:InstructionFusion",
    "hlo-rematerialization": "hloc.opt.rematerialization:HloRematerialization",
    "multi-output-fusion": "hloc.opt.fusion.multi_output:MultiOutputFusion",
    "operand-upcaster": "hloc.opt.library.contraction.result_types:OperandUpcaster",
    "ragged-dot-rewriter": "hloc.opt.expanders.dot_expander:RaggedDotRewriter",
    "reduce-decomposer": "hloc.opt.library.movement.decomposers:ReduceDecomposer",
    "reshape-decomposer": "hloc.opt.library.movement.decomposers:ReshapeDecomposer",
    "result-caster": "hloc.opt.library.contraction.result_types:ResultCaster",
    "scaled-dot-rewriter": "hloc.opt.expanders.dot_expander:ScaledDotRewriter",
}
"""Passes that share a file, or whose class or file has another name than XLA's pass."""

PASSES: dict[str, str] = _ELSEWHERE | {
    name: f"{folder}.{name.replace('-', '_')}:{name.title().replace('-', '')}"
    for folder, names in _FOLDERS.items()
    for name in names
}
"""Name of a pass -> "module:Class"."""

ALIASES: dict[str, str] = {
    "CallInliner": "call-inliner",
    "algsimp": "algebraic-simplifier",
    "convolution-canonicalization": "conv-canonicalization",
    "inline": "call-inliner",
    "rematerialization": "hlo-rematerialization",
    "simplify-conditional": "conditional-simplifier",
    "simplify-sorts": "sort-simplifier",
    "simplify-while-loops": "while-loop-simplifier",
    "zero_sized_hlo_elimination": "zero-sized-elimination",
}
"""Aliases, including XLA's names; any name may have `_` in place of `-`."""

_LIBRARY = "hloc.opt.library."


def is_in_library(name: str) -> bool:
    """True if no pipeline runs the pass `name`: it runs when `--passes` names it."""
    return PASSES[name].startswith(_LIBRARY)


def has_pass(name: str) -> bool:
    """True if `name` is the name of a pass, or an alias."""
    return _spelled(name) in PASSES


def _spelled(name: str) -> str:
    return ALIASES.get(name) or name.replace("_", "-")


def canonical_name(name: str) -> str:
    """Return the name under which `name` is registered.

    Raises:
        HloError: there is no such pass; a note gives the nearest name, or a hint.
    """
    found = _spelled(name)
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
        HloError: the name is not kebab-case, or that of a pass of hloc; or an option cannot
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
        HloError: a name is not kebab-case, or that of a rule of hloc.
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
    """Return the rules of passes that plug-ins define by rules."""
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
