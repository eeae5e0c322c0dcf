"""The pipelines of -O0 to -O3, and the reasons for their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hloc.opt.pass_base import Pass
from hloc.opt.pipeline import Fixpoint, Pipeline

_PREPARE = ("sharding-remover", "call-inliner")

_EXPAND = (
    "batch-norm-expander",
    "ragged-dot-rewriter",
    "rng-expander",
    "scaled-dot-rewriter",
    "scan-expander",
    "dynamic-padder",
)
"""Opcodes without a kernel become opcodes that have one."""

_SIMPLIFY = (
    "fixpoint(tuple-simplifier,zero-sized-elimination,algebraic-simplifier,sort-simplifier,"
    "constant-folding,cse,dce)"
)

_CONTROL_FLOW: tuple[str, ...] = ()
"""Loops and conditionals."""

_CANONICALISE: tuple[str, ...] = ()
"""Contractions, windows, gather and scatter in the forms that kernels like."""

_MOVE: tuple[str, ...] = ()
"""Reshapes, transposes, converts and slices to where they cost least; layouts."""

_FUSE = ("fusion", "dce")

_FULL = (
    *_PREPARE,
    *_EXPAND,
    "map-inliner",
    "dce",
    _SIMPLIFY,
    *_CONTROL_FLOW,
    *_CANONICALISE,
    *_MOVE,
    *_FUSE,
)

PIPELINES: tuple[tuple[str, ...], ...] = (
    (),
    (
        *_PREPARE,
        *_EXPAND,
        "tuple-simplifier",
        "algebraic-simplifier",
        "constant-folding",
        "cse",
        "dce",
    ),
    _FULL,
    _FULL,
)
"""Passes by level. What code generation itself needs comes after these, at every level."""


@dataclass(frozen=True, slots=True)
class Before:
    """Wherever both passes run, all of `first` come before all of `second`."""

    first: str
    second: str
    because: str


ORDER: tuple[Before, ...] = (
    Before("sharding-remover", "algebraic-simplifier", "an annotation hides what it annotates"),
    Before("batch-norm-expander", "dynamic-padder", "it counts present elements"),
    Before("batch-norm-expander", "algebraic-simplifier", "rules know sums, not norms"),
    Before("dynamic-padder", "algebraic-simplifier", "rules take sizes for static"),
    Before("dynamic-padder", "fusion", "a dynamic size needs masks between the members"),
    Before("call-inliner", "map-inliner", "a call in a mapped function is not elementwise"),
    Before("call-inliner", "algebraic-simplifier", "rules do not look through calls"),
    Before("call-inliner", "fusion", "fusion does not look into called computations"),
    Before("map-inliner", "fusion", "a map is not fused, its elementwise body is"),
    Before("algebraic-simplifier", "fusion", "rules do not see a pattern cut by a fusion"),
    Before("constant-folding", "fusion", "a constant expression needs no kernel"),
    Before("cse", "fusion", "two equal producers would be computed in two kernels"),
    Before("zero-sized-elimination", "fusion", "fusions hold arrays that have elements"),
)


def pipeline_for(level: int) -> Pipeline:
    """Return the pipeline of -O`level`, 0 to 3; level 0 optimises nothing."""
    return Pipeline.parse(",".join(PIPELINES[level]))


def broken_order(passes: Sequence[Pass]) -> tuple[Before, ...]:
    """Return the rows of `ORDER` that `passes` do not keep."""
    names = list(_names(passes))
    return tuple(
        row
        for row in ORDER
        if row.first in names
        and row.second in names
        and len(names) - 1 - names[::-1].index(row.first) > names.index(row.second)
    )


def _names(passes: Sequence[Pass]) -> Iterator[str]:
    for p in passes:
        if isinstance(p, Fixpoint):
            yield from _names(p.passes)
        else:
            yield p.name
