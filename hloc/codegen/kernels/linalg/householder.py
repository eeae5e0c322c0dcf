"""QR by Householder reflectors `H = I - tau v v^H` as LAPACK stores them.

`v` starts with 1, which is not stored; the rest lies below the diagonal of its column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.kernels.linalg.block_reflector import (
    BlockMemory,
    block_memory,
    block_reflector,
)
from hloc.codegen.kernels.linalg.reflectors import panel_starts, reflector_panel, whole_panels
from hloc.codegen.kernels.linalg.trailing import BLOCK, PANEL, Block, blocks
from hloc.codegen.kernels.linalg.work import Matrix, Region, Work

QR_REGIONS = (Region("m", "n"), Region("r"))
"""The matrix, which becomes R above the reflectors, and their tau."""

Q_REGIONS = (Region("m", "n"), Region("k"))
"""The reflectors, which their product replaces, and tau."""

APPLY_REGIONS = (Region("m", "k"), Region("k"), Region("m", "n"))
"""The reflectors, tau, and the matrix that is multiplied."""


def factor(work: Work) -> None:
    """Factor the matrix in place: LAPACK's `geqrf`."""
    (a, tau), columns = work.regions, work.sizes["n"]
    memory = block_memory(work, a.rows, columns)
    factor_columns(work, a, tau, work.sizes["r"], columns, memory)


def factor_columns(
    work: Work,
    a: Matrix,
    tau: Matrix,
    count: IndexValue,
    columns: IndexValue,
    memory: BlockMemory | None = None,
) -> None:
    """Eliminate the first `count` columns of `a`, and update the others.

    With memory for blocks, the columns behind a block are updated once per block.
    """
    m = work.math

    def eliminate(k: IndexValue, limit: IndexValue) -> None:
        found = reflector(work, a, k, k)
        tau.store(k, 0, found)
        factor = work.conjugate(found)
        with work.loop(m.add(k, 1), limit) as j:
            reflect(work, a, k, k, factor, a, j)

    with _blocks(work, Block(0, count, columns), memory) as block:
        for first in panel_starts(work, block.first, block.stop, forwards=True):
            behind = m.add(first, PANEL)
            with work.loop(first, behind) as k:
                eliminate(k, behind)
            factors = [work.conjugate(tau.load(m.add(first, i))) for i in range(PANEL)]
            panel = reflector_panel(work, a, first, factors, forwards=True)
            panel.apply(a, behind, block.limit)
        with work.loop(whole_panels(work, block.first, block.stop), block.stop) as k:
            eliminate(k, block.limit)
        _apply_block(work, a, block, tau.load, memory, columns, adjoint=True)


def product(work: Work) -> None:
    """Form the product of the reflectors, as many columns as the matrix has: LAPACK's `orgqr`."""
    (a, tau), columns = work.regions, work.sizes["n"]
    memory = block_memory(work, a.rows, columns)
    form_product(work, a, tau, work.sizes["k"], columns, memory)


def form_product(
    work: Work,
    a: Matrix,
    tau: Matrix,
    count: IndexValue,
    columns: IndexValue,
    memory: BlockMemory | None = None,
) -> None:
    """Replace `count` reflectors in `a` by their product."""
    b, m, rows = work.b, work.math, a.rows
    one, zero = work.const(1), work.const(0)
    with work.loop(count, columns) as j:
        for i in work.strip(0, rows):
            a.store(i, j, zero)
        a.store(j, j, one)

    def multiply_by(k: IndexValue, limit: IndexValue) -> None:
        factor = tau.load(k)
        with work.loop(m.add(k, 1), limit) as j:
            reflect(work, a, k, k, factor, a, j)
        opposite = b.fneg(factor)
        for i in work.strip(m.add(k, 1), rows):
            a.store(i, k, b.fmul(a.load(i, k), opposite))
        a.store(k, k, b.fsub(one, factor))
        for i in work.strip(0, k):
            a.store(i, k, zero)

    with _blocks(work, Block(0, count, columns), memory, backwards=True) as block:
        _apply_block(work, a, block, tau.load, memory, columns, adjoint=False)
        whole = whole_panels(work, block.first, block.stop)
        with work.reversed_loop(whole, block.stop) as k:
            multiply_by(k, block.limit)
        for first in panel_starts(work, block.first, block.stop, forwards=False):
            behind = m.add(first, PANEL)
            factors = [tau.load(m.add(first, i)) for i in range(PANEL)]
            panel = reflector_panel(work, a, first, factors, forwards=False)
            panel.apply(a, behind, block.limit)
            with work.reversed_loop(first, behind) as k:
                multiply_by(k, behind)


@contextmanager
def _blocks(
    work: Work, within: Block, memory: BlockMemory | None, *, backwards: bool = False
) -> Iterator[Block]:
    """Run a region for all blocks, or without memory for one of all columns."""
    if memory is None:
        yield within
        return
    with blocks(work, within, BLOCK, backwards=backwards) as block:
        yield block


def _apply_block(
    work: Work,
    a: Matrix,
    block: Block,
    factor: Callable[[IndexValue], Value],
    memory: BlockMemory | None,
    columns: IndexValue,
    *,
    adjoint: bool,
) -> None:
    """Apply the reflectors of a block, if it is whole, to the columns behind it."""
    if memory is None:
        return
    with work.body.when(work.math.compare("LT", block.limit, columns)):
        reflector = block_reflector(a, block.first, factor, memory)
        reflector.apply(a, block.limit, columns, adjoint=adjoint)


def multiply(work: Work) -> None:
    """Multiply the matrix by the product of the reflectors from the left: LAPACK's `ormqr`."""
    _multiplied(work, forwards=False, conjugates_factor=False, conjugates_vector=False)


def multiply_adjoint(work: Work) -> None:
    """Multiply by the adjoint of the product."""
    _multiplied(work, forwards=True, conjugates_factor=True, conjugates_vector=False)


def multiply_transpose(work: Work) -> None:
    """Multiply by the transpose of the product: from the right, for transposed matrices."""
    _multiplied(work, forwards=True, conjugates_factor=False, conjugates_vector=True)


def multiply_conjugate(work: Work) -> None:
    """Multiply by the conjugate of the product."""
    _multiplied(work, forwards=False, conjugates_factor=True, conjugates_vector=True)


def _multiplied(
    work: Work, *, forwards: bool, conjugates_factor: bool, conjugates_vector: bool
) -> None:
    """Apply the reflectors to the matrix, the first one first if `forwards`.

    Whole panels of reflectors are applied at once; those that do not fill a panel are the last
    ones, and are applied one by one.
    """
    v, tau, matrix = work.regions
    count = work.sizes["k"]
    if conjugates_vector and work.dtype.is_complex:
        with work.loop(0, count) as j:
            for i in work.strip(0, work.sizes["m"]):
                v.store(i, j, work.conjugate(v.load(i, j)))

    def factor(k: IndexValue) -> Value:
        return work.conjugate(tau.load(k)) if conjugates_factor else tau.load(k)

    def by_panels() -> None:
        for first in panel_starts(work, 0, count, forwards=forwards):
            factors = [factor(work.math.add(first, i)) for i in range(PANEL)]
            panel = reflector_panel(work, v, first, factors, forwards=forwards)
            panel.apply(matrix, 0, work.sizes["n"])

    def one_by_one() -> None:
        start = whole_panels(work, 0, count)
        with work.loop(start, count) if forwards else work.reversed_loop(start, count) as k:
            found = factor(k)
            with work.loop(0, work.sizes["n"]) as j:
                reflect(work, v, k, k, found, matrix, j)

    for part in (by_panels, one_by_one) if forwards else (one_by_one, by_panels):
        part()


def reflect(
    work: Work,
    v: Matrix,
    first: IndexValue,
    column: IndexValue,
    factor: Value,
    matrix: Matrix,
    j: IndexValue,
) -> None:
    """Apply `I - factor v v^H` to column `j` of a matrix; `v` begins in row `first`."""
    b = work.b
    after = work.math.add(first, 1)
    rest = work.total(
        after,
        v.rows,
        lambda i: b.fmul(work.conjugate(v.load(i, column)), matrix.load(i, j)),
    )
    change = b.fmul(factor, b.fadd(matrix.load(first, j), rest))
    matrix.store(first, j, b.fsub(matrix.load(first, j), change))
    for i in work.strip(after, v.rows):
        matrix.store(i, j, b.fsub(matrix.load(i, j), b.fmul(v.load(i, column), change)))


def reflector(work: Work, a: Matrix, first: IndexValue, column: IndexValue) -> Value:
    """Turn a column from row `first` on into beta and the rest of `v`; returns tau.

    `H^H` times the column is `(beta, 0, ...)` with beta real.
    """
    b, part = work.b, work.part
    zero, one = work.const(0, part), work.const(1, part)
    after = work.math.add(first, 1)
    alpha = a.load(first, column)
    length = norm(work, a, column, after, a.rows)
    is_done = b.compare("EQ", length, zero)
    real = b.real(alpha) if alpha.dtype.is_complex else alpha
    if alpha.dtype.is_complex:
        is_done = b.and_(is_done, b.compare("EQ", b.imag(alpha), zero))
        whole = hypotenuse(work, hypotenuse(work, real, b.imag(alpha)), length)
    else:
        whole = hypotenuse(work, alpha, length)
    beta = b.fneg(b.intrinsic("copysign", whole, real))
    below = b.select(is_done, one, beta)
    tau = work.divided(b.fsub(b.convert(beta, work.dtype), alpha), below)
    divide = work.divider(
        b.select(is_done, work.const(1), b.fsub(alpha, b.convert(beta, work.dtype)))
    )
    for i in work.strip(after, a.rows):
        a.store(i, column, divide(a.load(i, column)))
    a.store(first, column, b.select(is_done, alpha, b.convert(beta, work.dtype)))
    return b.select(is_done, work.const(0), tau)


def norm(work: Work, a: Matrix, column: IndexValue, start: IndexValue, stop: IndexValue) -> Value:
    """Return the norm of part of a column, without intermediate overflow or underflow."""
    b, part = work.b, work.part
    largest = work.largest(start, stop, lambda i: work.magnitude(a.load(i, column)))
    scale = work.not_tiny(largest)
    inverse = b.fdiv(work.const(1, part), scale)
    squares = work.total(
        start, stop, lambda i: _real(work, work.squared(work.scaled(a.load(i, column), inverse)))
    )
    squares = b.real(squares) if squares.dtype.is_complex else squares
    return b.fmul(scale, b.intrinsic("sqrt", squares))


def hypotenuse(work: Work, x: Value, y: Value) -> Value:
    """Return the root of `x*x + y*y` for real numbers."""
    b = work.b
    x, y = b.intrinsic("fabs", x), b.intrinsic("fabs", y)
    is_larger = b.compare("GT", x, y)
    large = work.not_tiny(b.select(is_larger, x, y))
    ratio = b.fdiv(b.select(is_larger, y, x), large)
    share = b.fdiv(b.select(is_larger, x, y), large)
    return b.fmul(large, b.intrinsic("sqrt", b.fadd(b.fmul(share, share), b.fmul(ratio, ratio))))


def _real(work: Work, x: Value) -> Value:
    """Return a real number in the type of the matrix."""
    return work.b.convert(x, work.dtype)
