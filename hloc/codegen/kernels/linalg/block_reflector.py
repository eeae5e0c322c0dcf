"""A block of Householder reflectors as `I - V T V^H`, applied by products of matrices.

This is LAPACK's compact WY form (`larft`, `larfb`). T is upper triangular.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.kernels.linalg.product import packed_elements, part, subtract
from hloc.codegen.kernels.linalg.trailing import BLOCK
from hloc.codegen.kernels.linalg.work import Matrix, Work
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class BlockMemory:
    """Memory for one block at a time.

    Attributes:
        v: the vectors, with their ones and zeros.
        t: T.
        products: between the vectors, or with the columns of a matrix.
        factors: of the vectors, for each column of a matrix.
    """

    v: Matrix
    t: Matrix
    products: Matrix
    factors: Matrix


def memory_elements(sizes: Mapping[str, int]) -> int:
    """Return the elements that `block_memory` and its products take."""
    columns = sizes.get("n", 0)
    own = BLOCK * (sizes["m"] + BLOCK + 2 * max(columns, BLOCK))
    packed = packed_elements(sizes)
    return own + packed if packed else 0


def block_memory(work: Work, rows: IndexValue, columns: IndexValue) -> BlockMemory | None:
    """Take memory for reflectors of `rows`, and matrices of `columns`; None in lanes."""
    if not work.strips:
        return None
    width = work.math.maximum(columns, BLOCK)
    shapes = ((rows, BLOCK), (BLOCK, BLOCK), (BLOCK, width), (BLOCK, width))
    return BlockMemory(*(work.take(*shape) for shape in shapes))


@dataclass(frozen=True, slots=True)
class BlockReflector:
    """The product of `BLOCK` reflectors, the first of which begins in row `first`."""

    memory: BlockMemory
    first: IndexValue

    def apply(self, matrix: Matrix, start: IndexValue, stop: IndexValue, *, adjoint: bool) -> None:
        """Multiply columns of a matrix from the left, by the product or its adjoint."""
        work, m, memory = matrix.work, matrix.work.math, self.memory
        rows, count = m.sub(matrix.rows, self.first), m.sub(stop, start)
        v, t = part(memory.v, 0, 0), part(memory.t, 0, 0)
        t = t.transposed.conjugated if adjoint else t
        target = part(matrix, self.first, start)
        products, factors = part(memory.products, 0, 0), part(memory.factors, 0, 0)
        adjoint_v = v.transposed.conjugated
        subtract(work, products, adjoint_v, target, (BLOCK, count, rows), replaces=True)
        subtract(work, factors, t, products, (BLOCK, count, BLOCK), replaces=True)
        subtract(work, target, v, factors, (rows, count, BLOCK))


def block_reflector(
    vectors: Matrix, first: IndexValue, factor: Callable[[IndexValue], Value], memory: BlockMemory
) -> BlockReflector:
    """Return the product of the reflectors `I - factor(k) v v^H` from column `first` on."""
    work, b, m = vectors.work, vectors.work.b, vectors.work.math
    rows, zero = m.sub(vectors.rows, first), work.const(0)
    v, t, products = memory.v, memory.t, memory.products
    with work.loop(0, BLOCK) as j:
        for i in work.strip(0, j):
            v.store(i, j, zero)
        v.store(j, j, work.const(1))
        for i in work.strip(m.add(j, 1), rows):
            v.store(i, j, vectors.load(m.add(first, i), m.add(first, j)))
    whole = part(v, 0, 0)
    sizes = (BLOCK, BLOCK, rows)
    subtract(work, part(products, 0, 0), whole.transposed.conjugated, whole, sizes, replaces=True)
    with work.loop(0, BLOCK) as k:
        found = factor(m.add(first, k))
        for i in work.strip(0, BLOCK):
            t.store(i, k, zero)
        with work.loop(0, k) as j:
            share = b.fmul(found, products.load(j, k))
            for i in work.strip(0, m.add(j, 1)):
                t.store(i, k, b.fadd(t.load(i, k), b.fmul(t.load(i, j), share)))
        t.store(k, k, found)
    return BlockReflector(memory, first)
