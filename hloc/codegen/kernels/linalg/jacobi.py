"""Eigenvalues of symmetric matrices and singular values, by rotations of pairs of columns (Jacobi).

Every sweep rotates all pairs, until none needs it. The order of pairs does not depend on the data,
so matrices in lanes proceed together. Source: Golub and Van Loan, Matrix Computations, 8.5 and 8.6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.kernels.linalg.householder import factor_columns, form_product, hypotenuse, norm
from hloc.codegen.kernels.linalg.work import NUMBER, REAL, Matrix, Region, Work
from hloc.dtypes import S32
from hloc.lazy_dataclass import dataclass

EIGEN_REGIONS = (
    Region("n", "n"),
    Region("n", "n"),
    Region("n", kind=REAL),
    Region(kind=NUMBER),
)
"""The matrix, its eigenvectors, the eigenvalues in ascending order, and 0."""

SINGULAR_REGIONS = (
    Region("m", "n"),
    Region("n", kind=REAL),
    Region("m", "u"),
    Region("n", "n"),
    Region(kind=NUMBER),
    Region("n"),
    Region("n", kind=REAL),
)
"""The matrix, with at least as many rows as columns; singular values in descending order; left
vectors; conjugates of right vectors; 0; memory for tau and signs."""

VALUES_REGIONS = SINGULAR_REGIONS[:5]
"""The same without memory for vectors, which become 0."""

_MOST_SWEEPS = 40


def eigen_lower(work: Work) -> None:
    """Find eigenvectors and eigenvalues by the lower triangle."""
    _eigen(work, is_lower=True)


def eigen_upper(work: Work) -> None:
    """Find eigenvectors and eigenvalues by the upper triangle."""
    _eigen(work, is_lower=False)


def _eigen(work: Work, *, is_lower: bool) -> None:
    """Rotate pairs of columns and rows until no element beside the diagonal is above the limit.

    The matrix is scaled first, so that squares neither overflow nor vanish; `poison` is added at
    the end: 0, or NaN if an element of the matrix is not finite.
    """
    a, vectors, values, info = work.regions
    b, size = work.b, work.sizes["n"]
    info.store(0, 0, b.const(S32, 0))
    _mirror(work, a, is_lower)
    _identity(work, vectors, size)
    poison = _poison(work, a, size)
    scale = _scaled(work, a, size)
    limit = work.const(_eps(work) / 4, work.part)
    with _sweeps(work) as turned, _pairs(work, size) as (p, q):
        beside = a.load(p, q)
        length = _modulus(work, beside)
        wanted = b.compare("GT", length, limit)
        with work.when(wanted):
            turned.store(0, 0, b.select(wanted, b.const(S32, 1), turned.load(0)))
            low, high = _real(work, a.load(p, p)), _real(work, a.load(q, q))
            turn = _rotation(work, beside, length, low, high, wanted)
            turn.columns(work, a, p, q, size)
            turn.columns(work, vectors, p, q, size)
            turn.rows(work, a, p, q, size)
            change = b.fmul(turn.tangent, length)
            a.store(p, p, b.convert(b.fsub(low, change), work.dtype))
            a.store(q, q, b.convert(b.fadd(high, change), work.dtype))
            zero = work.const(0)
            a.store(p, q, b.select(wanted, zero, a.load(p, q)))
            a.store(q, p, b.select(wanted, zero, a.load(q, p)))
    with work.loop(0, size) as j:
        found = b.fmul(_real(work, a.load(j, j)), scale)
        values.store(j, 0, b.fadd(found, _real(work, poison)))
        for i in work.strip(0, size):
            vectors.store(i, j, b.fadd(vectors.load(i, j), poison))
    _sort(work, values, [vectors], size, "LT")


def singular(work: Work) -> None:
    """Find singular values and vectors; a QR completes the vectors of zero singular values."""
    a, values, left, right, info, tau, signs = work.regions
    b, n = work.b, work.sizes["n"]
    info.store(0, 0, b.const(S32, 0))
    _identity(work, right, n)
    poison = _poison(work, a, n)
    scale = _scaled(work, a, n)
    _make_orthogonal(work, a, right)
    with work.loop(0, n) as j:
        values.store(j, 0, norm(work, a, j, 0, a.rows))
    _sort(work, values, [a, right], n, "GT")
    with work.loop(0, n) as j:
        for i in work.strip(0, a.rows):
            left.store(i, j, a.load(i, j))
        for i in work.strip(0, n):
            right.store(i, j, b.fadd(work.conjugate(right.load(i, j)), poison))
    factor_columns(work, left, tau, n, n)
    one = work.const(1, work.part)
    with work.loop(0, n) as j:
        signs.store(j, 0, b.intrinsic("copysign", one, _real(work, left.load(j, j))))
        found = b.fmul(values.load(j), scale)
        values.store(j, 0, b.fadd(found, _real(work, poison)))
    form_product(work, left, tau, n, work.sizes["u"])
    with work.loop(0, work.sizes["u"]) as j:
        for i in work.strip(0, a.rows):
            left.store(i, j, b.fadd(left.load(i, j), poison))
    with work.loop(0, n) as j:
        sign = signs.load(j)
        for i in work.strip(0, a.rows):
            left.store(i, j, work.scaled(left.load(i, j), sign))


def singular_values(work: Work) -> None:
    """Find singular values alone; the vectors become 0."""
    a, values, left, right, info = work.regions
    b, n = work.b, work.sizes["n"]
    info.store(0, 0, b.const(S32, 0))
    poison = _real(work, _poison(work, a, n))
    scale = _scaled(work, a, n)
    _make_orthogonal(work, a)
    with work.loop(0, n) as j:
        found = b.fmul(norm(work, a, j, 0, a.rows), scale)
        values.store(j, 0, b.fadd(found, poison))
    _sort(work, values, [], n, "GT")
    for vectors, columns in ((left, work.sizes["u"]), (right, n)):
        with work.loop(0, columns) as j:
            for i in work.strip(0, vectors.rows):
                vectors.store(i, j, work.const(0))


def _make_orthogonal(work: Work, a: Matrix, *others: Matrix) -> None:
    """Rotate columns of `a` until all are orthogonal, and those of `others` with them."""
    b, m, n = work.b, work.math, work.sizes["n"]
    rows = b.intrinsic("sqrt", b.convert(m.value(a.rows), work.part))
    tolerance = b.fmul(rows, work.const(_eps(work), work.part))
    with _sweeps(work) as turned, _pairs(work, n) as (p, q):
        squares = [lambda i, j=j: _square(work, a.load(i, j)) for j in (p, q)]
        *lengths, across = work.totals(
            0, a.rows, *squares, lambda i: b.fmul(work.conjugate(a.load(i, p)), a.load(i, q))
        )
        low, high = (_real(work, x) for x in lengths)
        length = _modulus(work, across)
        limit = b.fmul(b.intrinsic("sqrt", low), b.intrinsic("sqrt", high))
        wanted = b.compare("GT", length, b.fmul(limit, tolerance))
        with work.when(wanted):
            turned.store(0, 0, b.select(wanted, b.const(S32, 1), turned.load(0)))
            turn = _rotation(work, across, length, low, high, wanted)
            for matrix in (a, *others):
                turn.columns(work, matrix, p, q, matrix.rows)


# ---------------------------------------------------------------- rotations


@dataclass(frozen=True, slots=True)
class _Rotation:
    """A rotation of columns p and q: `(c p - s u q, s p + c u q)`, with |u| = 1.

    Attributes:
        tangent: s / c, 0 where no rotation is needed.
        phase: u, 1 for real numbers.
    """

    cosine: Value
    sine: Value
    tangent: Value
    phase: Value

    def columns(
        self, work: Work, x: Matrix, p: IndexValue, q: IndexValue, rows: IndexValue
    ) -> None:
        """Rotate two columns."""
        for i in work.strip(0, rows):
            first, second = self._turned(work, x.load(i, p), x.load(i, q), self.phase)
            x.store(i, p, first)
            x.store(i, q, second)

    def rows(
        self, work: Work, x: Matrix, p: IndexValue, q: IndexValue, columns: IndexValue
    ) -> None:
        """Rotate two rows by the adjoint."""
        phase = work.conjugate(self.phase)
        with work.loop(0, columns) as j:
            first, second = self._turned(work, x.load(p, j), x.load(q, j), phase)
            x.store(p, j, first)
            x.store(q, j, second)

    def _turned(self, work: Work, x: Value, y: Value, phase: Value) -> tuple[Value, Value]:
        b = work.b
        if y.dtype.is_complex:
            y = b.fmul(y, phase)
        first = b.fsub(work.scaled(x, self.cosine), work.scaled(y, self.sine))
        return first, b.fadd(work.scaled(x, self.sine), work.scaled(y, self.cosine))


def _rotation(
    work: Work, beside: Value, length: Value, low: Value, high: Value, wanted: Value
) -> _Rotation:
    """Return the rotation that makes `[[low, beside], [., high]]` diagonal, or the identity."""
    b, one, zero = work.b, work.const(1, work.part), work.const(0, work.part)
    safe = b.select(wanted, length, one)
    ratio = b.fdiv(b.fmul(b.fsub(high, low), work.const(0.5, work.part)), safe)
    root = b.intrinsic("sqrt", b.fadd(one, b.fmul(ratio, ratio)))
    size = b.fdiv(one, b.fadd(b.intrinsic("fabs", ratio), root))
    sign = one
    if not beside.dtype.is_complex:
        sign = b.intrinsic("copysign", one, beside)
    tangent = b.select(wanted, b.intrinsic("copysign", size, ratio), zero)
    cosine = b.fdiv(one, b.intrinsic("sqrt", b.fadd(one, b.fmul(tangent, tangent))))
    sine = b.fmul(tangent, cosine)
    if not beside.dtype.is_complex:  # the phase is a sign, which moves into the sine
        return _Rotation(cosine, b.fmul(sine, sign), tangent, one)
    unit = work.divided(work.conjugate(beside), safe)
    return _Rotation(cosine, sine, tangent, b.select(wanted, unit, work.const(1)))


@contextmanager
def _sweeps(work: Work) -> Iterator[Matrix]:
    """Repeat a region until it leaves 0 in the variable that is yielded."""
    b = work.b
    turned = work.variable(S32, b.const(S32, 1))
    count = b.allocate(S32)
    b.store(count, 0, b.const(S32, _MOST_SWEEPS))
    with work.repeat() as region:
        left = b.load(count, S32, 0)
        some = work.any(b.compare("NE", turned.load(0), b.const(S32, 0)))
        region.go_on_if(b.and_(some, b.compare("GT", left, b.const(S32, 0))))
        b.store(count, 0, b.isub(left, b.const(S32, 1)))
        turned.store(0, 0, b.const(S32, 0))
        yield turned


@contextmanager
def _pairs(work: Work, size: IndexValue) -> Iterator[tuple[IndexValue, IndexValue]]:
    """Run a region for all pairs p < q."""
    with work.loop(0, size) as p, work.loop(work.math.add(p, 1), size) as q:
        yield p, q


# ---------------------------------------------------------------- whole matrices


def _mirror(work: Work, a: Matrix, is_lower: bool) -> None:
    """Copy the given triangle, conjugated, to the other one, and make the diagonal real."""
    b = work.b
    with _pairs(work, work.sizes["n"]) as (j, i):
        if is_lower:
            a.store(j, i, work.conjugate(a.load(i, j)))
        else:
            a.store(i, j, work.conjugate(a.load(j, i)))
    with work.loop(0, work.sizes["n"]) as k:
        a.store(k, k, b.convert(_real(work, a.load(k, k)), work.dtype))


def _identity(work: Work, x: Matrix, size: IndexValue) -> None:
    with work.loop(0, size) as j:
        for i in work.strip(0, size):
            x.store(i, j, work.const(0))
        x.store(j, j, work.const(1))


def _poison(work: Work, a: Matrix, columns: IndexValue) -> Value:
    """Return 0, or NaN if a number of the matrix is not finite."""
    b, found = work.b, work.variable(work.dtype, work.const(0))
    with work.loop(0, columns) as j:
        part = work.total(0, a.rows, lambda i: work.scaled(a.load(i, j), work.const(0, work.part)))
        found.store(0, 0, b.fadd(found.load(0), part))
    return found.load(0)


def _scaled(work: Work, a: Matrix, columns: IndexValue) -> Value:
    """Divide the matrix by its largest absolute value; return that."""
    scale = work.not_tiny(_largest(work, a, columns))
    with work.loop(0, columns) as j:
        for i in work.strip(0, a.rows):
            a.store(i, j, work.divided(a.load(i, j), scale))
    return scale


def _largest(work: Work, a: Matrix, columns: IndexValue) -> Value:
    """Return the largest absolute value of an element."""
    b, found = work.b, work.variable(work.part, work.const(0, work.part))
    with work.loop(0, columns) as j:
        part = work.largest(0, a.rows, lambda i: work.magnitude(a.load(i, j)))
        old = found.load(0)
        found.store(0, 0, b.select(b.compare("GT", part, old), part, old))
    return found.load(0)


def _sort(
    work: Work, values: Matrix, columns: Sequence[Matrix], size: IndexValue, direction: str
) -> None:
    """Sort values, and columns with them."""
    b = work.b
    with _pairs(work, size) as (p, q):
        x, y = values.load(p), values.load(q)
        swaps = b.compare(direction, y, x)
        with work.when(swaps):
            values.store(p, 0, b.select(swaps, y, x))
            values.store(q, 0, b.select(swaps, x, y))
            for matrix in columns:
                for i in work.strip(0, matrix.rows):
                    x, y = matrix.load(i, p), matrix.load(i, q)
                    matrix.store(i, p, b.select(swaps, y, x))
                    matrix.store(i, q, b.select(swaps, x, y))


# ---------------------------------------------------------------- numbers


def _eps(work: Work) -> float:
    return float(np.finfo(work.part.numpy).eps)


def _real(work: Work, x: Value) -> Value:
    return work.b.real(x) if x.dtype.is_complex else x


def _square(work: Work, x: Value) -> Value:
    """Return the square of the absolute value in the type of the matrix."""
    return work.b.convert(work.squared(x), work.dtype)


def _modulus(work: Work, x: Value) -> Value:
    """Return |x|, accurate for tiny numbers too, since phases must have absolute value 1."""
    b = work.b
    if not x.dtype.is_complex:
        return b.intrinsic("fabs", x)
    return hypotenuse(work, b.real(x), b.imag(x))
