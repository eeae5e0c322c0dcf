"""The pipelines of -O0 to -O3, and the reasons for their order."""

from __future__ import annotations

import re

from hloc.lazy_dataclass import dataclass
from hloc.opt.pipeline import Pipeline

_PREPARE = (
    "sharding-remover",
    "late-binding-expander",
    "call-inliner",
    "all-reduce-simplifier",
)

_EXPAND = (
    "batch-norm-expander",
    "collective-broadcast-expander",
    "lapack-rewriter",
    "ragged-dot-rewriter",
    "rng-expander",
    "scaled-dot-rewriter",
    "scan-expander",
    "sparse-convolution-expander",
    "sparse-product-rewriter",
    "dynamic-padder",
    "complex-sum-rewriter",
)
"""Expand opcodes without a kernel into opcodes that have one."""

_SIMPLIFY = (
    "fixpoint(tuple-simplifier,while-loop-simplifier,while-loop-constant-sinking,"
    "while-loop-unroller{maps-only=true},"
    "conditional-simplifier,conditional-to-select,zero-sized-elimination,algebraic-simplifier,"
    "sort-simplifier,constant-folding,cse,dce)"
)
"""Control flow is in the fixpoint too: shrinking loop state and simplifying enable each other."""

_CONTROL_FLOW: tuple[str, ...] = (
    "while-loop-dot-batching",
    "while-loop-dot-sinking",
    "while-loop-invariant-code-motion",
    "while-loop-simplifier",  # removes state that only the moved instructions read
    "tuple-simplifier",
    "cse",
    "dce",
)
"""Loop passes after simplification.

Not among them: `hlo-module-dce`, since `while-loop-simplifier` does the same once calls are
inlined; `while-loop-trip-count-annotator`, which nothing after it reads; `while-loop-unroller`,
which makes some loops a fifth faster and others a fifth slower, and doubles the time to compile
them.
"""

_COLLECTIVES: tuple[str, ...] = (
    "reduce-scatter-creator",
    "all-gather-combiner",
    "all-reduce-combiner",
    "reduce-scatter-combiner",
    "dce",
)
"""Reduces the number of collectives; no effect in a module without them."""

_WINDOWS = "long-window-rewriter{leave-pools=true}"
"""Only CPUs have a kernel for pools; other targets use the pass without its option."""

_SPARSE_UPDATE = "sparse-update-rewriter"
"""Only for CPUs: on a GPU the sort takes as long as a pass over the table."""

_CANONICALISE: tuple[str, ...] = (
    "transpose-folding",
    "repeated-operand-folding",
    "transposed-convolution-rewriter",
    _SPARSE_UPDATE,
    "reduce-window-rewriter{leave-plain=true}",
    _WINDOWS,
    "select-and-scatter-unroller",
    "topk-rewriter",
    "dce",
)
"""Contractions, windows and sorts in the forms that kernels expect.

The passes of opt/library produce forms that hloc's kernels do not need, since these take any
dimension numbers, groups and types; none measured faster. They run with `--passes`.
"""

_MOVE = ("simplify-fp-conversions", "dce", "layout-assignment")
"""Moves reshapes, transposes, converts and slices to where they cost least; layouts."""

_SPLIT_K, _SPLIT_FFT = "split-k-gemm-rewriter", "split-fft-rewriter"
"""Only for CPUs, as `split-reduction-rewriter`: kernels for GPUs split such work themselves."""

_FUSE = (
    "short-rows-layout",
    _SPLIT_K,
    _SPLIT_FFT,
    "attention-fusion",
    "fusion",
    "dce",
    "multi-output-fusion",
    "layer-inliner",
    "dce",
    "split-reduction-rewriter",
    "output-fusion",
    "convert-operand-fusion",
    "dynamic-slice-fusion-rewriter",
    "dce",
    "double-buffer-loop-unrolling",
)

GPU_CHIPS = {"nvptx64": "sm_80", "amdgcn": "gfx90a"}
"""Default chip of each target."""


def _fuse_on_gpu(chip: str) -> tuple[str, ...]:
    """Return the passes that replace `_FUSE` on a GPU."""
    return (
        "attention-fusion",
        f"priority-fusion{{chip={chip}}}",
        "dce",
        f"multi-output-fusion{{chip={chip}}}",
        "layer-inliner",
        "dce",
        "output-fusion{min-bytes=1,on-gpu=true}",
        f"operand-fusion{{chip={chip}}}",
        "dce",
    )


_BEFORE_FUSION = (
    *_PREPARE,
    *_EXPAND,
    "map-inliner",
    "dce",
    "known-scatter-rewriter",
    "layer-outliner",
    _SIMPLIFY,
    *_CONTROL_FLOW,
    *_COLLECTIVES,
    *_CANONICALISE,
    *_MOVE,
)
_FULL = (*_BEFORE_FUSION, *_FUSE)

PIPELINES: tuple[tuple[str, ...], ...] = (
    (),
    (
        *_PREPARE,
        *_EXPAND,
        "while-loop-simplifier",
        "conditional-simplifier",
        "tuple-simplifier",
        "algebraic-simplifier",
        "constant-folding",
        "cse",
        "dce",
    ),
    _FULL,
    _FULL,
)
"""Passes by level. What code generation itself needs comes after these, at every level.

-O3 has the passes of -O2; more of them made nothing faster: `while-loop-unroller` for all loops up
to 64 steps, and `tree-reduction-rewriter`, over the suite's loops, random numbers, scans and
reductions, are within noise or slower. What -O3 adds is unrolling by LLVM where it was measured to
pay, in short loops, sorts and scatters, for more compile time (codegen/cpu/backend.py).
"""


@dataclass(frozen=True, slots=True)
class Before:
    """Wherever both passes run, all runs of `first` come before all of `second`."""

    first: str
    second: str
    because: str


ORDER: tuple[Before, ...] = (
    Before("sharding-remover", "algebraic-simplifier", "an annotation hides what it annotates"),
    Before("batch-norm-expander", "dynamic-padder", "it counts present elements"),
    Before("batch-norm-expander", "algebraic-simplifier", "rules know sums, not norms"),
    Before("ragged-dot-rewriter", "dynamic-padder", "it has no rule for ragged products"),
    Before("scaled-dot-rewriter", "dynamic-padder", "it has no rule for scaled products"),
    Before("scan-expander", "dynamic-padder", "it has rules for loops, not for scans"),
    Before("dynamic-padder", "algebraic-simplifier", "rules take sizes for static"),
    Before("dynamic-padder", "fusion", "a dynamic size needs masks between the members"),
    Before("sparse-product-rewriter", "reduce-window-rewriter", "it counts rows by a running sum"),
    Before("dynamic-padder", "complex-sum-rewriter", "sums of a dynamic size are static then"),
    Before("complex-sum-rewriter", "algebraic-simplifier", "parts of complex numbers cancel"),
    Before("complex-sum-rewriter", "reduce-window-rewriter", "running sums of floats are kept"),
    Before("complex-sum-rewriter", "fusion", "sums of both parts become one kernel"),
    Before("call-inliner", "map-inliner", "a call in a mapped function is not elementwise"),
    Before("call-inliner", "algebraic-simplifier", "rules do not look through calls"),
    Before("reduce-scatter-creator", "all-reduce-combiner", "it knows sums of one operand"),
    Before("cse", "reduce-scatter-creator", "it knows sums that are sliced once"),
    Before("call-inliner", "layer-outliner", "a call is in no layer"),
    Before("layer-outliner", "algebraic-simplifier", "each kind of layer is simplified once"),
    Before("multi-output-fusion", "layer-inliner", "each kind of layer is fused once"),
    Before(
        "output-fusion", "operand-fusion", "an epilogue runs once per element, a producer again"
    ),
    Before(
        "output-fusion", "double-buffer-loop-unrolling", "a fusion decides what can be overwritten"
    ),
    Before(
        "output-fusion", "dynamic-slice-fusion-rewriter", "it joins a product with its epilogue"
    ),
    Before("split-k-gemm-rewriter", "convert-operand-fusion", "it splits dots that are alone"),
    Before("layer-inliner", "output-fusion", "a product and its reader may be in two layers"),
    Before("call-inliner", "fusion", "fusion does not look into called computations"),
    Before("map-inliner", "fusion", "a map is not fused, its elementwise body is"),
    Before("algebraic-simplifier", "fusion", "rules do not see a pattern cut by a fusion"),
    Before("attention-fusion", "fusion", "a softmax that is part of a fusion is not seen"),
    Before("algebraic-simplifier", "attention-fusion", "it expects the simplest form of masks"),
    Before("layout-assignment", "attention-fusion", "it keeps the layouts of its operands"),
    Before("constant-folding", "fusion", "a constant expression needs no kernel"),
    Before("fusion", "multi-output-fusion", "it merges the kernels that fusion has made"),
    Before("multi-output-fusion", "output-fusion", "a product joins all its users, or none"),
    Before("cse", "fusion", "two equal producers would be computed in two kernels"),
    Before("algebraic-simplifier", "repeated-operand-folding", "it looks through one reshape"),
    Before("transpose-folding", "repeated-operand-folding", "a transpose hides the copies"),
    Before("repeated-operand-folding", "layout-assignment", "layouts fit the dots that are left"),
    Before("repeated-operand-folding", "fusion", "a broadcast in a fusion is not seen"),
    Before("transpose-folding", "fusion", "a transpose inside a fusion is not folded"),
    Before(
        "transpose-folding",
        "transposed-convolution-rewriter",
        "it needs the final order of dimensions",
    ),
    Before("transposed-convolution-rewriter", "layout-assignment", "its transposes may be layouts"),
    Before("algebraic-simplifier", "sparse-update-rewriter", "constants are splats by then"),
    Before("sparse-update-rewriter", "reduce-window-rewriter", "it numbers rows by a running sum"),
    Before("sparse-update-rewriter", "fusion", "a scatter in a fusion is not seen"),
    Before("reduce-window-rewriter", "fusion", "a scan is elementwise steps for fusion to join"),
    Before("reduce-window-rewriter", "long-window-rewriter", "scans are cheaper in blocks"),
    Before("long-window-rewriter", "fusion", "its steps are elementwise, for fusion to join"),
    Before("select-and-scatter-unroller", "fusion", "its steps are elementwise, too"),
    Before("topk-rewriter", "fusion", "a slice inside a fusion is not seen"),
    Before("algebraic-simplifier", "layout-assignment", "rules fit plain layouts best"),
    Before("transpose-folding", "layout-assignment", "a folded transpose needs no layout"),
    Before("layout-assignment", "fusion", "a transpose inside a fusion is not looked at"),
    Before("layout-assignment", "short-rows-layout", "it takes the layouts of dots as they are"),
    Before("short-rows-layout", "fusion", "instructions inside a fusion are in no group"),
    Before("layout-assignment", "split-k-gemm-rewriter", "it splits matrices in row-major order"),
    Before("layout-assignment", "split-fft-rewriter", "its transposes are layouts"),
    Before("split-fft-rewriter", "fusion", "a transform in a fusion is not seen"),
    Before("split-k-gemm-rewriter", "fusion", "its sums join the kernels that read them"),
    Before("multi-output-fusion", "split-reduction-rewriter", "sums of one array are one kernel"),
    Before("call-inliner", "while-loop-simplifier", "a call reads all of the state it is handed"),
    Before("scan-expander", "while-loop-simplifier", "a scan is a loop from then on"),
    Before("while-loop-simplifier", "fusion", "a state in a fusion is not taken apart"),
    Before(
        "while-loop-constant-sinking",
        "while-loop-invariant-code-motion",
        "what is computed from constants is folded, not moved",
    ),
    Before(
        "while-loop-dot-batching",
        "while-loop-invariant-code-motion",
        "the dot of all iterations is left in the loop",
    ),
    Before("while-loop-dot-sinking", "fusion", "a dot and its sum may be in one fusion"),
    Before("while-loop-invariant-code-motion", "fusion", "what is in a fusion does not move"),
    Before("conditional-simplifier", "fusion", "a branch that goes lets its neighbours join"),
    Before("known-scatter-rewriter", "conditional-to-select", "an update is cheap, a scatter not"),
    Before("conditional-to-select", "fusion", "a select joins the kernels around it"),
    Before("zero-sized-elimination", "fusion", "fusions hold arrays that have elements"),
)


STANDS_FOR = {"priority-fusion": "fusion"}
"""GPU passes that replace a CPU pass, with the same order constraints."""


def pipeline_for(level: int, target: str = "cpu", chip: str = "") -> Pipeline:
    """Return the pipeline of -O`level`, 0 to 3, for a backend; level 0 optimises nothing.

    Args:
        level: of optimisation.
        target: name of the backend.
        chip: LLVM's name of a GPU; "" and unknown names use that of `GPU_CHIPS`.
    """
    names = PIPELINES[level]
    if target in GPU_CHIPS and names == _FULL:
        known = re.fullmatch(r"(sm_|gfx)\w+", chip)
        names = (*_BEFORE_FUSION, *_fuse_on_gpu(chip if known else GPU_CHIPS[target]))
    if target != "cpu":
        names = tuple(
            "long-window-rewriter" if name == _WINDOWS else name
            for name in names
            if name not in (_SPARSE_UPDATE, _SPLIT_K, _SPLIT_FFT)
        )
    return Pipeline.known(",".join(names))
