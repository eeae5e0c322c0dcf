"""LAPACK by custom call: `lapack_*_ffi`, which JAX emits for one processor, and XLA's own targets.

NumPy's linear algebra computes what it can, short loops over Householder reflectors the rest, with
LAPACK's sign conventions. Only a Schur decomposition (`gees`) needs SciPy, the extra `lapack`.
Matrices are the last two dimensions; the dimensions before them are a batch.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from hloc.dtypes import Array
from hloc.errors import HloError, UnsupportedError
from hloc.ir.instruction import Instruction
from hloc.ops.custom_calls.householder import (
    hessenberg,
    multiply_by_reflectors,
    pivoted_qr,
    qr,
    reflectors_product,
    tridiagonal,
)
from hloc.ops.custom_calls.tridiagonal import solve_perturbed_tridiagonal, solve_tridiagonal
from hloc.ops.rows.linear_algebra import substitute
from hloc.shapes import ArrayShape, TupleShape

MatrixFunction: TypeAlias = Callable[[dict[str, Any], Sequence[Array]], tuple[Any, ...]]
"""Takes the attributes and one matrix of each operand, returns one array per result."""

_TARGET = re.compile(r"lapack_([sdcz])([a-z0-9]+)_ffi")
PERTURBED_TRIDIAGONAL = "tridiagonal_solve_perturbed_ffi"
"""Not a routine of LAPACK: jaxlib's own, after LAPACK's `lagtf` and `lagts`."""

_ATTRIBUTE = re.compile(r"(\w+)\s*=\s*(-?\d+|true|false)")


def lapack_function(target: str) -> MatrixFunction | None:
    """Return the function of a target for single matrices, None if it is no known LAPACK target."""
    if target == PERTURBED_TRIDIAGONAL:
        return _perturbed_tridiagonal
    found = _TARGET.fullmatch(target)
    return _FUNCTIONS.get(found[2]) if found else _OF_XLA.get(target)


def evaluate_lapack(inst: Instruction, operands: Sequence[Any]) -> Any:
    """Run a LAPACK custom call, batch element by batch element.

    Raises:
        HloError: the number of arrays, their shapes or the attributes do not match the target.
    """
    function = lapack_function(inst.attributes.custom_call_target)
    assert function is not None
    shapes = inst.shape.elements if isinstance(inst.shape, TupleShape) else (inst.shape,)
    results = [np.zeros(s.dims, s.dtype.numpy) for s in shapes if isinstance(s, ArrayShape)]
    attributes = lapack_attributes(inst)
    depth = _batch_depth(inst, operands)
    operands = [_computable(operand) for operand in operands]
    for place in np.ndindex(*operands[0].shape[:depth]):
        try:
            found = function(attributes, [operand[place] for operand in operands])
            for result, value in zip(results, found, strict=True):
                result[place] = value
        except (ValueError, IndexError, TypeError, KeyError) as fault:
            raise HloError(
                f"operands and results do not fit {inst.attributes.custom_call_target!r}: {fault}",
                inst.span,
            ) from None
    return tuple(results) if isinstance(inst.shape, TupleShape) else results[0]


def _computable(operand: Array) -> Array:
    """Return floats of 16 bits and less as f32, which NumPy's linear algebra supports."""
    is_known = operand.dtype in (np.float32, np.float64, np.complex64, np.complex128)
    is_index = operand.dtype.kind in "iub"
    return operand if is_known or is_index else operand.astype(np.float32)


def fits_lapack(inst: Instruction) -> bool:
    """True if operands and results are arrays of a common batch."""
    shapes = inst.shape.elements if isinstance(inst.shape, TupleShape) else (inst.shape,)
    arrays = [o.shape for o in inst.operands] + list(shapes)
    return bool(inst.operands) and all(isinstance(shape, ArrayShape) for shape in arrays)


def lapack_attributes(inst: Instruction) -> dict[str, Any]:
    """Return attributes such as `uplo = 76 : ui8`; numbers of letters become letters.

    Raises:
        HloError: the list of an `Eigh` is not `lower,sort,iterations,tolerance`.
    """
    found: dict[str, Any] = {}
    if inst.attributes.custom_call_target == "Eigh":
        listed = (inst.common.backend_config or "").split(",")
        if len(listed) != 4 or listed[0].strip() not in ("0", "1"):
            raise HloError('Eigh needs a backend_config such as "1,1,100,1e-6"', inst.span)
        return {"uplo": "L" if listed[0].strip() == "1" else "U"}
    for name, text in _ATTRIBUTE.findall(inst.common.backend_config or ""):
        value = {"true": 1, "false": 0}.get(text)
        value = int(text) if value is None else value
        is_letter = name not in ("low", "high", "left", "transpose") and 65 <= value <= 90
        found[name] = chr(value) if is_letter else value
    return found


def _batch_depth(inst: Instruction, operands: Sequence[Array]) -> int:
    target = inst.attributes.custom_call_target
    is_tridiagonal = "gtsv" in target or target == PERTURBED_TRIDIAGONAL
    return int(operands[0].ndim) - (1 if is_tridiagonal else 2)


# ---------------------------------------------------------------- factorisations


def _potrf(a: dict[str, Any], operands: Sequence[Array]) -> tuple[Any, ...]:
    """Return the Cholesky factor over its triangle of the operand, and LAPACK's info."""
    (matrix,) = operands
    lower = a.get("uplo", "L") == "L"
    symmetric = matrix if lower else np.conj(matrix.T)
    try:
        factor = np.linalg.cholesky(np.tril(symmetric))
    except np.linalg.LinAlgError:
        return matrix, _first_bad_minor(symmetric)
    if lower:
        return np.tril(factor) + np.triu(matrix, 1), 0
    return np.triu(np.conj(factor.T)) + np.tril(matrix, -1), 0


def _first_bad_minor(matrix: Array) -> int:
    """Return the size of the smallest leading minor that is not positive definite."""
    for size in range(1, len(matrix) + 1):
        try:
            np.linalg.cholesky(matrix[:size, :size])
        except np.linalg.LinAlgError:
            return size
    return len(matrix)


def _getrf(_a: dict[str, Any], operands: Sequence[Array]) -> tuple[Any, ...]:
    """Return LU, pivots counted from 1, and the first zero on the diagonal of U (or 0)."""
    lu = np.array(operands[0])
    rows, columns = lu.shape
    pivots = np.zeros(min(rows, columns), np.int32)
    info = 0
    for k in range(len(pivots)):
        column = lu[k:, k]
        size = np.abs(column.real) + np.abs(column.imag) if lu.dtype.kind == "c" else abs(column)
        pivot = k + int(np.argmax(size))
        pivots[k] = pivot + 1
        lu[[k, pivot]] = lu[[pivot, k]]
        if lu[k, k] == 0:
            info = info or k + 1
            continue
        lu[k + 1 :, k] /= lu[k, k]
        lu[k + 1 :, k + 1 :] -= np.outer(lu[k + 1 :, k], lu[k, k + 1 :])
    return lu, pivots, info


def _geqrf(_a: dict[str, Any], operands: Sequence[Array]) -> tuple[Any, ...]:
    return qr(operands[0])


def _orgqr(_a: dict[str, Any], operands: Sequence[Array]) -> tuple[Any, ...]:
    return (reflectors_product(operands[0], operands[1]),)


def _ormqr(a: dict[str, Any], operands: Sequence[Array]) -> tuple[Any, ...]:
    """Multiply by Q or Q^H; JAX passes `left` and `transpose` instead of LAPACK's letters."""
    reflectors, tau, matrix = operands
    return (multiply_by_reflectors(reflectors, tau, matrix, bool(a["left"]), bool(a["transpose"])),)


# ---------------------------------------------------------------- eigenvalues, singular values


def _syevd(a: dict[str, Any], operands: Sequence[Array]) -> tuple[Any, ...]:
    (matrix,) = operands
    failed = np.full_like(matrix, np.nan)
    try:
        values, vectors = np.linalg.eigh(matrix, UPLO=a.get("uplo", "L"))
    except np.linalg.LinAlgError:
        return failed, failed.real[0], 1
    return vectors, values, 0


def _gesdd(a: dict[str, Any], operands: Sequence[Array]) -> tuple[Any, ...]:
    """Return the operand, singular values, U and V^H (in increasing extent for modes N, S, A)."""
    (matrix,) = operands
    mode = a.get("mode", "A")
    rows, columns = matrix.shape
    wide = columns if mode == "A" else min(rows, columns)
    tall = rows if mode == "A" else min(rows, columns)
    try:
        if mode == "N":
            values = np.linalg.svd(matrix, compute_uv=False)
            return matrix, values, 0, 0, 0
        u, values, vt = np.linalg.svd(matrix, full_matrices=mode == "A")
    except np.linalg.LinAlgError:
        nothing = np.full((), np.nan, matrix.dtype)
        return (
            matrix,
            nothing.real,
            np.broadcast_to(nothing, (rows, tall)),
            np.broadcast_to(nothing, (wide, columns)),
            1,
        )
    return matrix, values, u, vt, 0


def _geev(a: dict[str, Any], operands: Sequence[Array]) -> tuple[Any, ...]:
    """Return eigenvalues, left and right eigenvectors, and info; real ones in two parts."""
    (matrix,) = operands
    try:
        if "V" not in (a.get("compute_left"), a.get("compute_right")):
            values, right = np.linalg.eigvals(matrix), np.zeros_like(matrix)
        else:
            values, right = np.linalg.eig(matrix)
        left = _left_vectors(right) if a.get("compute_left") == "V" else np.zeros_like(right)
        info = 0
    except np.linalg.LinAlgError:
        values, right = np.full(len(matrix), np.nan), np.full(matrix.shape, np.nan)
        left, info = right, 1
    if a.get("compute_right") != "V":
        right = np.zeros_like(right)
    if matrix.dtype.kind == "c":
        return values, left, right, info
    return values.real, values.imag, left, right, info


def _left_vectors(right: Array) -> Array:
    """Return left eigenvectors of length 1 whose largest element is real."""
    left: Array = np.conj(np.linalg.inv(right).T)
    left = left / np.linalg.norm(left, axis=0)
    if left.dtype.kind != "c":
        return np.asarray(left)
    largest = left[np.argmax(np.abs(left), axis=0), np.arange(left.shape[1])]
    return np.asarray(left * (np.conj(largest) / np.abs(largest)))


def _gees(a: dict[str, Any], operands: Sequence[Array]) -> tuple[Any, ...]:
    """Return the Schur form, its vectors, the eigenvalues, the number selected, and info."""
    (matrix,) = operands
    try:
        linalg = importlib.import_module("scipy.linalg")
    except ImportError:
        raise UnsupportedError(
            "a Schur decomposition needs SciPy, which the extra hloc[lapack] installs"
        ) from None
    is_complex = matrix.dtype.kind == "c"
    form, vectors = linalg.schur(matrix, output="complex" if is_complex else "real")
    values = np.diag(form) if is_complex else _real_schur_values(form)
    if is_complex:
        return form, vectors, values, 0, 0
    return form, vectors, values.real, values.imag, 0, 0


def _real_schur_values(form: Array) -> Array:
    """Return the eigenvalues of a real Schur form, from its blocks of size 1 and 2."""
    values = np.diag(form).astype(np.complex128)
    for k in range(len(form) - 1):
        if form[k + 1, k] != 0:
            part = np.sqrt(abs(float(form[k, k + 1]))) * np.sqrt(abs(float(form[k + 1, k])))
            values[k] += 1j * part
            values[k + 1] -= 1j * part
    return values


def _gehrd(a: dict[str, Any], operands: Sequence[Array]) -> tuple[Any, ...]:
    (matrix,) = operands
    return (*hessenberg(matrix, a.get("low", 1), a.get("high", len(matrix))), 0)


def _sytrd(a: dict[str, Any], operands: Sequence[Array]) -> tuple[Any, ...]:
    return (*tridiagonal(operands[0], lower=a.get("uplo", "L") == "L"), 0)


# ---------------------------------------------------------------- solutions


def _trsm(a: dict[str, Any], operands: Sequence[Array]) -> tuple[Any, ...]:
    """Solve op(A) X = B or X op(A) = B; the other triangle is not read."""
    matrix, right = operands
    lower, unit = a.get("uplo", "L") == "L", a.get("diag") == "U"
    transposed = a.get("trans_x", "N")
    if transposed != "N":
        matrix, lower = matrix.T if transposed == "T" else np.conj(matrix.T), not lower
    with np.errstate(all="ignore"):
        if a.get("side", "L") == "L":
            return (substitute(matrix, right, lower, unit),)
        return (substitute(matrix.T, right.T, not lower, unit).T,)


def _gtsv(_a: dict[str, Any], operands: Sequence[Array]) -> tuple[Any, ...]:
    """Solve a tridiagonal system; the diagonals are returned unchanged."""
    below, diagonal, above, right = operands
    lower = below if len(below) == len(diagonal) else np.append(diagonal[:1], below)
    return below, diagonal, above, *solve_tridiagonal(lower, diagonal, above, right)


def _perturbed_tridiagonal(_a: dict[str, Any], operands: Sequence[Array]) -> tuple[Any, ...]:
    return (solve_perturbed_tridiagonal(*operands),)


_FUNCTIONS: dict[str, MatrixFunction] = {
    "potrf": _potrf,
    "getrf": _getrf,
    "geqrf": _geqrf,
    "geqp3": lambda _a, operands: pivoted_qr(operands[0], operands[1]),
    "orgqr": _orgqr,
    "ungqr": _orgqr,
    "ormqr": _ormqr,
    "unmqr": _ormqr,
    "syevd": _syevd,
    "heevd": _syevd,
    "gesdd": _gesdd,
    "gesvd": _gesdd,
    "geev": _geev,
    "gees": _gees,
    "gehrd": _gehrd,
    "sytrd": _sytrd,
    "hetrd": _sytrd,
    "trsm": _trsm,
    "gtsv": _gtsv,
}


# ---------------------------------------------------------------- targets that XLA expands itself


def _eigh(a: dict[str, Any], operands: Sequence[Array]) -> tuple[Any, ...]:
    """Return eigenvectors and eigenvalues, always in ascending order."""
    vectors, values, _ = _syevd(a, operands)
    return vectors, values


def _lu(a: dict[str, Any], operands: Sequence[Array]) -> tuple[Any, ...]:
    """Return LU, pivots counted from 0, and the row permutation that they define."""
    lu, pivots, _ = _getrf(a, operands)
    rows = np.arange(len(lu), dtype=np.int32)
    for k, pivot in enumerate(pivots - 1):
        rows[[k, pivot]] = rows[[pivot, k]]
    return lu, pivots - 1, rows


_OF_XLA: dict[str, MatrixFunction] = {
    "Eigh": _eigh,
    "LuDecomposition": _lu,
    "ProductOfElementaryHouseholderReflectors": _orgqr,
    "Qr": _geqrf,
}
"""Source: XLA's `qr.cc`, `self_adjoint_eig.cc` and `lu_decomposition.cc`."""
