"""Copies of a convolution's input, with padding around and between its elements."""

from __future__ import annotations

from math import prod

from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Padded:
    """A copy of the input with padding around and between its elements.

    Attributes:
        dims, strides: of the copy of one group of features, by dimension of the input.
        low, steps: index of the first input element, and distance of consecutive ones.
        groups, feature: number of groups of features, which lie apart, and the dimension of these.
    """

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...]
    steps: tuple[int, ...]
    groups: int = 1
    feature: int = 0

    @property
    def elements(self) -> int:
        """Elements of the whole copy."""
        return self.groups * prod(self.dims)
