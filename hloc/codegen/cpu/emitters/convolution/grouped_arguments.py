"""The integer arguments of `grouped_routine`, `feature_sums` and `filter_rows`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from hloc.lazy_dataclass import dataclass, field_values


@dataclass(frozen=True, slots=True)
class OuterDim:
    """A dimension of the result that has a loop: the batch, or that of a `SpatialDim`.

    Attributes:
        size: of the result.
        part_step, part_rest: a thread's part from `begin` to `end` is that from `begin * part_step`
            to `end * part_step + part_rest`.
        lhs, out: strides in elements.
    """

    size: int
    part_step: int
    part_rest: int
    lhs: int
    out: int


@dataclass(frozen=True, slots=True)
class SpatialDim:
    """A spatial dimension.

    Attributes:
        outer: its loop.
        held: size of the input.
        window, stride, pad, dilation: of the window.
        rhs: stride in the kernel, in elements; may be negative.
    """

    outer: OuterDim
    held: int
    window: int
    stride: int
    pad: int
    dilation: int
    rhs: int


FEATURES = 2
"""Number of arguments of the features."""

OUTER = len(fields(OuterDim))
SPATIAL = OUTER + len(fields(SpatialDim)) - 1
"""Number of arguments of one dimension."""


def grouped_numbers(
    features: tuple[int, int], batch: OuterDim, spatial: Sequence[SpatialDim]
) -> list[int]:
    """Return all integer arguments of the routine.

    Args:
        features: output features, of `feature_sums` input features, and how many of them go
            through a line at a time.
        batch: the outermost dimension.
        spatial: the others.
    """
    found = [*features, *field_values(batch)]
    for d in spatial:
        found += [*field_values(d.outer), d.held, d.window, d.stride, d.pad, d.dilation, d.rhs]
    return found
