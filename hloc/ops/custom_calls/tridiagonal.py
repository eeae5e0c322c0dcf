"""Tridiagonal systems: Gaussian elimination with row exchanges, O(n) for n equations.

The matrix is three arrays of n elements; the first of the lower diagonal and the last of the upper
diagonal are outside the matrix and not read.
"""

from __future__ import annotations

import numpy as np

from hloc.dtypes import Array


def solve_tridiagonal(
    lower: Array, diagonal: Array, upper: Array, right: Array
) -> tuple[Array, int]:
    """Solve T X = B as LAPACK's `gtsv` does: `[n]` three times and `[n,k]` to `[n,k]`.

    Returns:
        X, and 0; or NaNs, and the number, from 1, of the first pivot that is zero.
    """
    with np.errstate(all="ignore"):
        factor, solution = _eliminate(lower, diagonal, upper, right)
        zeros = np.flatnonzero(factor[:, 0] == 0)
        if len(zeros):
            return np.full_like(right, np.nan), int(zeros[0]) + 1
        for k in reversed(range(len(diagonal))):
            solution[k] = _remaining(factor, solution, k) / factor[k, 0]
    return solution, 0


def solve_perturbed_tridiagonal(lower: Array, diagonal: Array, upper: Array, right: Array) -> Array:
    """Solve T X = B like LAPACK's `lagtf` and `lagts`: small pivots are perturbed.

    Used for eigenvectors by inverse iteration, where T is singular up to rounding.
    """
    with np.errstate(all="ignore"):
        factor, solution = _eliminate(lower, diagonal, upper, right)
        largest = np.max(np.abs(factor), initial=0)
        step = np.finfo(factor.dtype).eps * largest
        for k in reversed(range(len(diagonal))):
            row = _remaining(factor, solution, k)
            pivot, row = _perturbed(factor[k, 0], row, step)
            solution[k] = row * (1 / pivot)
    return solution


def _eliminate(lower: Array, diagonal: Array, upper: Array, right: Array) -> tuple[Array, Array]:
    """Return the rows of U, `[n,3]` from the diagonal to the right, and L^-1 P B.

    Rows are exchanged if the lower one is larger in proportion to its largest element.
    """
    size = len(diagonal)
    factor = np.zeros((size, 3), diagonal.dtype)
    factor[:, 0], factor[: size - 1, 1] = diagonal, upper[: size - 1]
    solution = np.array(right)
    for k in range(size - 1):
        row, below = factor[k].copy(), factor[k + 1].copy()
        head = lower[k + 1]
        if head == 0:
            continue
        share = abs(row[0]) / np.abs(row).sum() if row[0] != 0 else 0
        if abs(head) / (abs(head) + np.abs(below).sum()) <= share:
            ratio = head / row[0]
            factor[k + 1, 0] -= ratio * row[1]
            solution[k + 1] -= ratio * solution[k]
            continue
        ratio = row[0] / head
        factor[k] = head, below[0], below[1]
        factor[k + 1] = row[1] - ratio * below[0], -ratio * below[1], 0
        solution[[k, k + 1]] = solution[k + 1], solution[k] - ratio * solution[k + 1]
    return factor, solution


def _remaining(factor: Array, solution: Array, k: int) -> Array:
    """Return row k of the right side minus the contributions of the rows below."""
    row: Array = solution[k].copy()
    for distance in (1, 2):
        if k + distance < len(solution):
            row -= factor[k, distance] * solution[k + distance]
    return row


def _perturbed(pivot: np.number, row: Array, step: float) -> tuple[np.number, Array]:
    """Return a pivot by which `row` can be divided without overflow, and the row.

    The pivot grows by a step that doubles each time; a pivot and a row that are both below the
    smallest normal number are scaled up instead.
    """
    smallest = np.finfo(row.dtype).tiny
    largest = 1 / smallest
    of_row = np.max(np.abs(row), initial=0)
    step = np.copysign(max(step, smallest), pivot.real)
    while abs(pivot) < 1:
        if 0 < abs(pivot) < smallest and of_row * smallest <= abs(pivot):
            return pivot * largest, row * largest
        if abs(pivot) >= smallest and of_row <= abs(pivot) * largest:
            break
        pivot = pivot + step
        step *= 2
    return pivot, row
