"""Residues of a convolution whose input has holes.

In a window with stride 1 over an input with `n - 1` holes between its elements, every n-th element
meets an input element; which ones depends on the output position modulo `n`, the residue.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.ir.attributes import WindowDimension
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Residue:
    """One residue along one dimension.

    Attributes:
        results: their number; every `holes`-th one from number `place` on.
        first, elements: first window element that meets an input element, and number of these.
        before: input elements by which the first window begins before the input.
    """

    place: int
    results: int
    first: int
    elements: int
    before: int


def skips_holes(window: Sequence[WindowDimension]) -> bool:
    """True if each residue of every dimension is a convolution without holes, of stride 1."""
    return all(d.base_dilation == 1 or d.stride == d.window_dilation == 1 for d in window)


def residues_of(d: WindowDimension, results: int) -> list[Residue]:
    """Return the residues along a dimension of `results` results; one if there are no holes."""
    if d.base_dilation == 1:
        return [Residue(0, results, 0, d.size, d.pad_low)]
    holes, found = d.base_dilation, []
    for place in range(holes):
        first = (d.pad_low - place) % holes
        elements = -(-(d.size - first) // holes)
        before = (d.pad_low - place - first) // holes
        found.append(Residue(place, -(-(results - place) // holes), first, elements, before))
    return found
