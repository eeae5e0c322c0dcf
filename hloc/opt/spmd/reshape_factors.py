"""The common factors of the dimensions of both sides of a reshape."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, prod

from hloc.opt.spmd.tiling import Dims


def reshape_factors(
    old: Dims, new: Dims
) -> tuple[tuple[list[list[int]], list[list[int]]], list[int]]:
    """Return the factors of each dimension of both sides, major first, and the sizes of all.

    Dimensions are split from the major side, until they do not divide each other: `[12]` and
    `[4,3]` have the factors 4 and 3, `[4,6]` and `[3,8]` none.
    """
    operand: list[list[int]] = [[] for _ in old]
    result: list[list[int]] = [[] for _ in new]
    sizes: list[int] = []
    if 0 in old:
        return (operand, result), sizes
    for group_i, group_j in _groups(old, new):
        i, j = iter(group_i), iter(group_j)
        a, b = next(i, None), next(j, None)
        rest_a, rest_b = (old[a] if a is not None else 1), (new[b] if b is not None else 1)
        while a is not None and b is not None:
            size = gcd(rest_a, rest_b)
            if size > 1:
                operand[a].append(len(sizes))
                result[b].append(len(sizes))
                sizes.append(size)
            rest_a, rest_b = rest_a // size, rest_b // size
            if rest_a > 1 and rest_b > 1:
                break
            if rest_a == 1:
                a = next(i, None)
                rest_a = old[a] if a is not None else 1
            if rest_b == 1:
                b = next(j, None)
                rest_b = new[b] if b is not None else 1
    return (operand, result), sizes


def _groups(old: Dims, new: Dims) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the smallest runs of dimensions of both sides with the same number of elements."""
    i = j = 0
    while i < len(old) and j < len(new):
        first_i, first_j = i, j
        i, j = i + 1, j + 1
        while (m := prod(old[first_i:i])) != (n := prod(new[first_j:j])):
            if m < n:
                i += 1
            else:
                j += 1
        yield (
            [d for d in range(first_i, i) if old[d] > 1],
            [d for d in range(first_j, j) if new[d] > 1],
        )
