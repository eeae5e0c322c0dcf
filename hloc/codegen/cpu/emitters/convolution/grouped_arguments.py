"""The numbers that `grouped_routine` needs about a convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, fields

from hloc.lazy_dataclass import dataclass

SPATIAL_DIMS = 3
"""Convolutions of fewer dimensions have windows of 1 along the others."""


@dataclass(frozen=True, slots=True)
class OuterDim:
    """A dimension of the result that has a loop: the batch, or what `SpatialDim` adds to.

    Attributes:
        size: of the result.
        part_step, part_rest: a thread's part from `begin` to `end` is that from `begin * part_step`
            to `end * part_step + part_rest`.
        lhs, out: elements from one index to the next.
    """

    size: int
    part_step: int
    part_rest: int
    lhs: int
    out: int


@dataclass(frozen=True, slots=True)
class SpatialDim:
    """A dimension along which there is a window.

    Attributes:
        outer: its loop.
        held: size of the input.
        window, stride, pad, dilation: of the window.
        rhs: elements of the kernel from one window element to the next; may be negative.
    """

    outer: OuterDim
    held: int
    window: int
    stride: int
    pad: int
    dilation: int
    rhs: int


OUTER = len(fields(OuterDim))
SPATIAL = OUTER + len(fields(SpatialDim)) - 1
"""Numbers of one dimension."""


def grouped_numbers(features: int, batch: OuterDim, spatial: Sequence[SpatialDim]) -> list[int]:
    """Return all numbers for the routine."""
    found = [features, *astuple(batch)]
    for d in spatial:
        found += [*astuple(d.outer), d.held, d.window, d.stride, d.pad, d.dilation, d.rhs]
    return found
