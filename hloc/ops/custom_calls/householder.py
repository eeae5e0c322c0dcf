"""Householder reflectors `H = I - tau v v^H` as LAPACK computes and stores them.

`v` starts with 1, which is not stored; the rest is stored in the eliminated elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hloc.dtypes import Array


def reflector(column: Array) -> tuple[Any, Array, Any]:
    """Return beta, v and tau with `H^H column = (beta, 0, ...)`; beta is real."""
    alpha, rest = column[0], column[1:]
    vector = np.array(column)
    vector[0] = 1
    length = np.linalg.norm(rest)
    if length == 0 and np.imag(alpha) == 0:
        return alpha, vector, column.dtype.type(0)
    beta = -np.copysign(np.hypot(np.abs(alpha), length), np.real(alpha))
    vector[1:] = rest / (alpha - beta)
    return beta, vector, (beta - alpha) / beta


def _from_left(vector: Array, tau: Any, matrix: Array) -> None:
    """Replace `matrix` by `(I - tau v v^H) matrix`."""
    matrix -= tau * np.outer(vector, np.conj(vector) @ matrix)


def _from_right(vector: Array, tau: Any, matrix: Array) -> None:
    """Replace `matrix` by `matrix (I - tau v v^H)`."""
    matrix -= tau * np.outer(matrix @ vector, np.conj(vector))


def qr(matrix: Array) -> tuple[Array, Array]:
    """Return R above its reflectors, and their tau: LAPACK's `geqrf`."""
    result = np.array(matrix)
    tau = np.zeros(min(result.shape), result.dtype)
    for k in range(len(tau)):
        _eliminate(result, tau, k)
    return result, tau


def pivoted_qr(matrix: Array, fixed: Array) -> tuple[Array, Array, Array]:
    """Return R with reflectors, the columns in their new order from 1, and tau: `geqp3`.

    The longest remaining column comes next; columns with a non-zero entry in `fixed` come first.
    """
    result = np.array(matrix)
    order = np.arange(result.shape[1])
    first = [int(i) for i in order if fixed[i]] + [int(i) for i in order if not fixed[i]]
    result, order = result[:, first], order[first]
    bound = int(np.count_nonzero(fixed))
    tau = np.zeros(min(result.shape), result.dtype)
    for k in range(len(tau)):
        if k >= bound:
            longest = k + int(np.argmax(np.linalg.norm(result[k:, k:], axis=0)))
            result[:, [k, longest]] = result[:, [longest, k]]
            order[[k, longest]] = order[[longest, k]]
        _eliminate(result, tau, k)
    return result, (order + 1).astype(np.int32), tau


def _eliminate(result: Array, tau: Array, k: int) -> None:
    beta, vector, tau[k] = reflector(result[k:, k])
    _from_left(vector, np.conj(tau[k]), result[k:, k + 1 :])
    result[k, k] = beta
    result[k + 1 :, k] = vector[1:]


def reflectors_product(reflectors: Array, tau: Array) -> Array:
    """Return the first columns of `H_0 H_1 ...`, as many as `reflectors` has: `orgqr`."""
    rows, columns = reflectors.shape
    return multiply_by_reflectors(
        reflectors, tau, np.eye(rows, columns, dtype=reflectors.dtype), True, False
    )


def multiply_by_reflectors(
    reflectors: Array, tau: Array, matrix: Array, from_left: bool, adjoint: bool
) -> Array:
    """Return `Q matrix`, `matrix Q` or the same with `Q^H`, where `Q = H_0 H_1 ...`: `ormqr`."""
    result = np.array(matrix)
    numbers = range(len(tau))
    for k in numbers if from_left == adjoint else reversed(numbers):
        vector = np.array(reflectors[k:, k])
        vector[0] = 1
        factor = np.conj(tau[k]) if adjoint else tau[k]
        if from_left:
            _from_left(vector, factor, result[k:])
        else:
            _from_right(vector, factor, result[:, k:])
    return result


def hessenberg(matrix: Array, low: int, high: int) -> tuple[Array, Array]:
    """Return the Hessenberg form over its reflectors, and tau: `gehrd`."""
    result = np.array(matrix)
    tau = np.zeros(max(0, len(result) - 1), result.dtype)
    for k in range(low - 1, high - 1):
        beta, vector, tau[k] = reflector(result[k + 1 : high, k])
        _from_right(vector, tau[k], result[:high, k + 1 : high])
        _from_left(vector, np.conj(tau[k]), result[k + 1 : high, k + 1 :])
        result[k + 1, k] = beta
        result[k + 2 : high, k] = vector[1:]
    return result, tau


def tridiagonal(matrix: Array, *, lower: bool) -> tuple[Array, Array, Array, Array]:
    """Return reflectors, diagonal, the diagonal beside it, and tau: `sytrd`.

    The upper triangle is processed from the other end.
    """
    if not lower:
        flipped = np.array(matrix)[::-1, ::-1]
        result, diagonal, beside, tau = _lower_tridiagonal(flipped)
        return result[::-1, ::-1], diagonal[::-1], beside[::-1], tau[::-1]
    return _lower_tridiagonal(np.array(matrix))


def _lower_tridiagonal(result: Array) -> tuple[Array, Array, Array, Array]:
    size = len(result)
    whole = np.tril(result) + np.conj(np.tril(result, -1).T)
    tau = np.zeros(max(0, size - 1), result.dtype)
    beside = np.zeros(max(0, size - 1), result.real.dtype)
    for k in range(size - 1):
        beta, vector, tau[k] = reflector(whole[k + 1 :, k])
        _from_right(vector, tau[k], whole[k + 1 :, k + 1 :])
        _from_left(vector, np.conj(tau[k]), whole[k + 1 :, k + 1 :])
        beside[k] = np.real(beta)
        whole[k + 1, k] = beta
        whole[k + 2 :, k] = vector[1:]
    return np.tril(whole) + np.triu(result, 1), np.diag(whole).real, beside, tau
