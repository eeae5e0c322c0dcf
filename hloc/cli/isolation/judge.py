"""Classifies the difference of two results: rounding, flushed subnormals, or a fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hloc.cli.isolation.pieces import Piece
from hloc.dtypes import BF16, F32, F64, Array, dtype_of_numpy
from hloc.lazy_dataclass import dataclass
from hloc.report.compare import Bounds, Comparison, compare
from hloc.report.conditioning import SHOWN_ULP, Conditioning, conditioning

_LEAST_NORMAL = {F32: 2.0**-126, BF16: 2.0**-126, F64: 2.0**-1022}


@dataclass(frozen=True, slots=True)
class Finding:
    """The results of one side for a piece, compared with the evaluator's.

    Attributes:
        side: the name of the side.
        conditioning: of the outputs, if they are more than a few ulp apart.
        diverges: more than rounding explains, or exact types differ.
    """

    piece: Piece
    side: str
    comparison: Comparison
    conditioning: tuple[Conditioning, ...]
    diverges: bool


def judge(
    piece: Piece,
    side: str,
    inputs: Sequence[Array],
    got: Sequence[Array],
    want: Sequence[Array],
    bounds: Bounds,
) -> Finding:
    """Compare `got` of a side with `want` of the evaluator."""
    found = compare(got, want, bounds)
    if found.ok and found.max_ulp <= SHOWN_ULP:
        return Finding(piece, side, found, (), diverges=False)
    causes = tuple(conditioning(piece.module, inputs, got, want))
    explained = bool(causes) and all(cause.is_rounding for cause in causes)
    return Finding(piece, side, found, causes, diverges=not (found.ok or explained))


def without_subnormals(
    inputs: Sequence[Array],
    got: Sequence[Array],
    want: Sequence[Array],
    evaluate: Callable[[Sequence[Array]], Sequence[Array]],
) -> tuple[list[Array], list[Array]]:
    """Return `got` and `want` as computed by a side that treats subnormal numbers as zero."""
    flushed = [flush(array) for array in inputs]
    if any(one is not other for one, other in zip(flushed, inputs, strict=True)):
        want = evaluate(flushed)
    return [flush(array) for array in got], [flush(array) for array in want]


def flush(array: Array) -> Array:
    """Return `array` with zeros for subnormal numbers, itself if it has none."""
    dtype = dtype_of_numpy(array.dtype)
    least = None if dtype is None else _LEAST_NORMAL.get(dtype)
    if least is None:
        return array
    with np.errstate(invalid="ignore"):
        tiny = (np.abs(array) < least) & (array != 0)
    return np.where(tiny, np.zeros_like(array), array) if tiny.any() else array
