"""LAPACK's routines that machine code calls: their job options, arrays and arguments.

Results are those of JAX's custom calls. Source: LAPACK's documentation of each routine.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

from hloc.dtypes import C64, C128, F32, F64, S32, DType, component_of
from hloc.lazy_dataclass import dataclass

NUMBER_BYTES = 4
_NUMBER = re.compile("[0-9]{1,9}")
_MATRIX_TYPES = (F32, F64, C64, C128)


@dataclass(frozen=True, slots=True)
class Result:
    """An argument that is a result, at the current matrix."""

    number: int


@dataclass(frozen=True, slots=True)
class Memory:
    """An argument that is a workspace of `size_bytes` bytes."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class MatrixCopy(Memory):
    """A copy of the matrix, which the routine overwrites, if no result has its size."""


@dataclass(frozen=True, slots=True)
class RealVectors(Memory):
    """Eigenvectors of a real matrix in LAPACK's form, which become a complex result.

    Of a pair of complex values, the first column is the real and the second the imaginary part.
    """

    result: int


@dataclass(frozen=True, slots=True)
class NoFunction:
    """An argument that is a function, where the job calls none."""


Argument: TypeAlias = str | int | Result | Memory | NoFunction
"""A letter, a number, a result or a workspace; all are passed by address."""

Arguments: TypeAlias = tuple[Argument, ...]

Array: TypeAlias = tuple[DType, tuple[int, ...]]
"""Type and sizes of an array for one matrix."""


@dataclass(frozen=True, slots=True)
class Problem:
    """The problem that a routine is to solve.

    Attributes:
        options: of the job: letters, or numbers.
        rows, columns: of the matrix.
        results: sizes of the results for one matrix.
    """

    options: tuple[str, ...]
    dtype: DType
    rows: int
    columns: int
    results: tuple[tuple[int, ...], ...]

    @property
    def part(self) -> DType:
        """The real type."""
        return component_of(self.dtype)

    def real_memory(self, count: int) -> tuple[Memory, ...]:
        """Return memory of real numbers, which routines for complex matrices take."""
        return (Memory(count * self.part.storage_bytes),) if self.dtype.is_complex else ()


@dataclass(frozen=True, slots=True)
class Form:
    """The arrays and arguments of a call.

    Attributes:
        results: their types and sizes.
        leading: arguments before the workspaces.
        kinds: of workspaces whose size the routine returns: "element", "real" or "number".
        rest: arguments after them; the last result is `info`.
        operands: after the matrix; each is copied into the result of its number.
        untouched: results that the routine leaves alone.
    """

    results: tuple[Array, ...]
    leading: Arguments
    kinds: tuple[str, ...]
    rest: Arguments
    operands: tuple[Array, ...] = ()
    untouched: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Routine:
    """One row.

    Attributes:
        options: names of the custom call's attributes, with their defaults.
        allowed: valid values of each option; "" is a row number.
        form: returns arrays and arguments, None for an unsupported problem.
        dtypes: of the matrix.
        takes_all_numbers: False if the routine may not terminate on NaN or infinity.
    """

    options: tuple[tuple[str, str], ...]
    allowed: tuple[str, ...]
    form: Callable[[Problem], Form | None]
    dtypes: tuple[DType, ...] = _MATRIX_TYPES
    takes_all_numbers: bool = True

    def form_of(self, problem: Problem) -> Form | None:
        """Return arrays and arguments, None if the routine does not support the problem."""
        if problem.dtype not in self.dtypes or len(problem.options) != len(self.allowed):
            return None
        pairs = zip(problem.options, self.allowed, strict=True)
        are_allowed = all(
            len(option) == 1 and option in letters if letters else _NUMBER.fullmatch(option)
            for option, letters in pairs
        )
        return self.form(problem) if are_allowed else None


def _symmetric_values(p: Problem) -> Form | None:
    n, square = p.columns, (p.rows, p.columns)
    kinds = ("element", "real", "number") if p.dtype.is_complex else ("element", "number")
    results = ((p.dtype, square), (p.part, (n,)), (S32, ()))
    leading: Arguments = (*p.options, n, Result(0), n, Result(1))
    return _square(p, Form(results, leading, kinds, (Result(2),)))


def _square(p: Problem, form: Form) -> Form | None:
    return form if p.rows == p.columns else None


def _singular_values(p: Problem, *, divides: bool) -> Form | None:
    """Return the call of `gesdd` (divide and conquer) or of `gesvd`."""
    m, n, (job,) = p.rows, p.columns, p.options
    r = min(m, n)
    has_all = job == "A" or (job == "N" and p.results[2:4] == ((m, m), (n, n)))
    u, vt = ((m, m), (n, n)) if has_all else ((m, r), (r, n))
    results = ((p.dtype, (m, n)), (p.part, (r,)), (p.dtype, u), (p.dtype, vt), (S32, ()))
    arrays = (m, n, Result(0), m, Result(1), Result(2), m, Result(3), n if job == "A" else r)
    untouched = (2, 3) if job == "N" else ()
    leading: Arguments = (job, *arrays)
    rest: Arguments = (*p.real_memory(5 * r), Result(4))
    if divides:
        longest = max(5 * r + 7, 2 * max(m, n) + 2 * r + 1)
        real = p.real_memory(7 * r if job == "N" else r * longest)
        rest = (*real, Memory(8 * r * NUMBER_BYTES), Result(4))
    else:
        leading = (job, *leading)
    return Form(results, leading, ("element",), rest, untouched=untouched)


def _general_values(p: Problem) -> Form | None:
    """Return the call of `geev`: eigenvalues, left and right eigenvectors."""
    n, is_complex = p.columns, p.dtype.is_complex
    size_bytes = n * n * p.dtype.storage_bytes
    vectors_type = {F32: C64, F64: C128}.get(p.dtype, p.dtype)
    first = 1 if is_complex else 2  # real values come in two parts
    values = [(p.dtype, (n,))] * first
    vectors = [(vectors_type, (n, n))] * 2
    matrices: list[Argument] = []
    for job, number in zip(p.options, (first, first + 1), strict=True):
        whole = Result(number) if is_complex else RealVectors(size_bytes, number)
        matrices += [whole if job == "V" else Memory(p.dtype.storage_bytes), n]
    untouched = tuple(first + k for k, job in enumerate(p.options) if job == "N")
    leading: Arguments = (
        *p.options,
        n,
        MatrixCopy(size_bytes),
        n,
        *map(Result, range(first)),
        *matrices,
    )
    rest: Arguments = (*p.real_memory(2 * n), Result(first + 2))
    results = (*values, *vectors, (S32, ()))
    return _square(p, Form(results, leading, ("element",), rest, untouched=untouched))


def _schur(p: Problem) -> Form | None:
    """Return the call of `gees`: Schur form, Schur vectors, eigenvalues, number selected."""
    n, (job, sort) = p.columns, p.options
    parts = 1 if p.dtype.is_complex else 2
    square, values = (p.dtype, (n, n)), [(p.dtype, (n,))] * parts
    results = (square, square, *values, (S32, ()), (S32, ()))
    found = [Result(2 + k) for k in range(parts)]
    leading: Arguments = (
        job,
        sort,
        NoFunction(),
        n,
        Result(0),
        n,
        Result(2 + parts),
        *found,
        Result(1),
        n,
    )
    rest: Arguments = (*p.real_memory(n), Memory(n * NUMBER_BYTES), Result(3 + parts))
    untouched = (1,) if job == "N" else ()
    return _square(p, Form(results, leading, ("element",), rest, untouched=untouched))


def _hessenberg(p: Problem) -> Form | None:
    n, (low, high) = p.columns, map(int, p.options)
    if not 1 <= low <= high <= n:
        return None
    results = ((p.dtype, (n, n)), (p.dtype, (n - 1,)), (S32, ()))
    leading: Arguments = (n, low, high, Result(0), n, Result(1))
    return _square(p, Form(results, leading, ("element",), (Result(2),)))


def _tridiagonal(p: Problem) -> Form | None:
    n, beside = p.columns, (p.columns - 1,)
    arrays = ((p.part, (n,)), (p.part, beside), (p.dtype, beside), (S32, ()))
    leading: Arguments = (*p.options, n, Result(0), n, Result(1), Result(2), Result(3))
    form = Form(((p.dtype, (n, n)), *arrays), leading, ("element",), (Result(4),))
    return _square(p, form)


def _pivoted_qr(p: Problem) -> Form | None:
    m, n = p.rows, p.columns
    order = (S32, (n,))
    results = ((p.dtype, (m, n)), order, (p.dtype, (min(m, n),)))
    leading: Arguments = (m, n, Result(0), m, Result(1), Result(2))
    rest: Arguments = (*p.real_memory(2 * n), Memory(NUMBER_BYTES))
    return Form(results, leading, ("element",), rest, operands=(order,))


_UPLO = ("uplo", "L")
_MODE_UPLO = (("mode", "V"), _UPLO)
_REAL, _COMPLEX = (F32, F64), (C64, C128)
_divided, _whole = (partial(_singular_values, divides=divides) for divides in (True, False))

ROUTINES = MappingProxyType(
    {
        "syevd": Routine(_MODE_UPLO, ("NV", "LU"), _symmetric_values, _REAL),
        "heevd": Routine(_MODE_UPLO, ("NV", "LU"), _symmetric_values, _COMPLEX),
        "gesdd": Routine((("mode", "A"),), ("ASN",), _divided),
        "gesvd": Routine((("mode", "A"),), ("ASN",), _whole),
        "geev": Routine(
            (("compute_left", "N"), ("compute_right", "N")),
            ("NV", "NV"),
            _general_values,
            takes_all_numbers=False,
        ),
        "gees": Routine((("mode", "V"), ("sort", "N")), ("NV", "N"), _schur),
        "gehrd": Routine((("low", ""), ("high", "")), ("", ""), _hessenberg),
        "sytrd": Routine((_UPLO,), ("LU",), _tridiagonal, _REAL),
        "hetrd": Routine((_UPLO,), ("LU",), _tridiagonal, _COMPLEX),
        "geqp3": Routine((), (), _pivoted_qr),
    }
)
"""The routines by name, without the letter of the type."""
