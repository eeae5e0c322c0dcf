"""Recognises the factorisations and solvers that hloc has an algorithm for.

They are `cholesky`, `triangular-solve`, and custom calls `hloc_linalg_ALGORITHM__VIEW_VIEW...`,
to which `codegen/lower/linear_algebra.py` retargets LAPACK's custom calls. There is a view for each
operand, then for each result; it gives the order of rows and columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod

from hloc.codegen.builder.index import layout_strides
from hloc.codegen.kernels.linalg.algorithm import ALGORITHMS, Algorithm
from hloc.codegen.kernels.linalg.work import NUMBER, REAL, Region
from hloc.dtypes import C64, C128, F32, F64, S32, DType, component_of
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.rows.custom_call import LINALG_PREFIX, is_linalg
from hloc.shapes import ArrayShape, TupleShape

AS_STORED, TRANSPOSED, REVERSED, ROWS_REVERSED = "n", "t", "r", "v"
"""Letters of views: as stored; rows and columns swapped; both reversed; rows reversed."""

TYPES = (F32, F64, C64, C128)


@dataclass(frozen=True, slots=True)
class ArrayView:
    """Offset and strides of the matrices of one operand or result, in elements.

    Attributes:
        offset: from the first element of the array to element (0, 0) of the first matrix.
        batch, row, column: stride from a matrix, row or column to the next.
    """

    offset: int
    batch: int
    row: int
    column: int


@dataclass(frozen=True, slots=True)
class LinalgCall:
    """The linear algebra problem of an instruction.

    Attributes:
        dtype: of the matrices.
        batch: how many there are.
        sizes: pairs of names and numbers, in the order of the algorithm.
        views: of the operands, then of the results.
    """

    algorithm: Algorithm
    dtype: DType
    batch: int
    sizes: tuple[tuple[str, int], ...]
    views: tuple[ArrayView, ...]

    @property
    def bytes(self) -> int:
        """Bytes of workspace for one matrix."""
        return self.algorithm.elements(dict(self.sizes)) * self.dtype.storage_bytes

    @property
    def bytes_with_blocks(self) -> int:
        """Bytes of workspace for one matrix that is factored by products of blocks."""
        memory = self.algorithm.memory
        more = memory(dict(self.sizes)) * self.dtype.storage_bytes if memory else 0
        return self.bytes + more


def target_name(algorithm: str, views: Sequence[str]) -> str:
    """Return the target of a custom call."""
    return f"{LINALG_PREFIX}{algorithm}__{'_'.join(views)}"


def call_of(inst: Instruction) -> LinalgCall | None:
    """Return the problem of an instruction, None if there is no algorithm for it."""
    if is_linalg(inst):
        name, _, views = inst.attributes.custom_call_target[len(LINALG_PREFIX) :].partition("__")
        return linalg_call(inst, name, tuple(views.split("_")))
    if inst.is_a("cholesky"):
        view = AS_STORED if inst.attributes.lower else TRANSPOSED
        return linalg_call(inst, "cholesky-or-nan", (view, view))
    if inst.is_a("triangular-solve"):
        a = inst.attributes
        transposed = a.transpose_a in ("TRANSPOSE", "ADJOINT")
        return linalg_call(
            inst,
            *solution(
                left=a.left_side,
                lower=a.lower,
                transposed=transposed,
                conjugated=a.transpose_a == "ADJOINT",
                unit=a.unit_diagonal,
            ),
        )
    return None


def solution(
    *, left: bool, lower: bool, transposed: bool, conjugated: bool, unit: bool
) -> tuple[str, tuple[str, ...]]:
    """Return the algorithm and the views for a triangular system.

    `x op(a) = b` is `op(a)^T x^T = b^T`; an upper matrix is a lower one counted from the end.
    """
    name = f"solve{'-conjugated' if conjugated else ''}{'-unit' if unit else ''}"
    flipped = transposed == left
    matrix = TRANSPOSED if flipped else AS_STORED
    right = AS_STORED if left else TRANSPOSED
    if lower == flipped:
        matrix = matrix.strip(AS_STORED) + REVERSED
        right = right.strip(AS_STORED) + ROWS_REVERSED
    return name, (matrix, right, right)


def linalg_call(inst: Instruction, name: str, views: tuple[str, ...]) -> LinalgCall | None:
    """Return the problem of `inst` for algorithm `name`, None if its arrays do not fit."""
    shapes = _shapes(inst)
    algorithm = ALGORITHMS.get(name)
    if algorithm is None or shapes is None:
        return None
    return _call(algorithm, shapes, views)


@cache
def _call(
    algorithm: Algorithm, shapes: tuple[ArrayShape, ...], views: tuple[str, ...]
) -> LinalgCall | None:
    """Return the problem if shapes and views fit the algorithm's regions, else None.

    All arrays have the same batch dimensions in front, and a size with one name (`n`) is one
    number.
    """
    numbers = (*algorithm.reads, *algorithm.leaves)
    if not len(shapes) == len(views) == len(numbers) or shapes[0].dtype not in TYPES:
        return None
    dtype = shapes[0].dtype
    depth = shapes[0].rank - _rank(algorithm.regions[numbers[0]])
    sizes: dict[str, int] = {}
    found = []
    for shape, view, number in zip(shapes, views, numbers, strict=True):
        region = algorithm.regions[number]
        if shape.rank != depth + _rank(region) or shape.dtype is not _kind(region, dtype):
            return None
        placed = _view(shape, view, depth)
        if shape.dims[:depth] != shapes[0].dims[:depth] or placed is None:
            return None
        rows, columns = _sizes(shape, view, depth)
        for name, size in ((region.rows, rows), (region.columns, columns)):
            if sizes.setdefault(name, size) != size:
                return None
        found.append(placed)
    if sizes.pop("one", 1) != 1 or not algorithm.fits(sizes):
        return None
    ordered = tuple((name, sizes[name]) for name in algorithm.sizes)
    return LinalgCall(algorithm, dtype, prod(shapes[0].dims[:depth]), ordered, tuple(found))


def _shapes(inst: Instruction) -> tuple[ArrayShape, ...] | None:
    results = inst.shape.elements if isinstance(inst.shape, TupleShape) else (inst.shape,)
    found = []
    for shape in (*(operand.shape for operand in inst.operands), *results):
        if not isinstance(shape, ArrayShape) or shape.dynamic or min(shape.dims, default=0) < 0:
            return None
        found.append(shape)
    return tuple(found)


def _rank(region: Region) -> int:
    return (region.rows != "one") + (region.columns != "one")


def _kind(region: Region, dtype: DType) -> DType:
    if region.kind == NUMBER:
        return S32
    return component_of(dtype) if region.kind == REAL else dtype


def _sizes(shape: ArrayShape, view: str, depth: int) -> tuple[int, int]:
    rows, columns = (*shape.dims[depth:], 1, 1)[:2]
    return (columns, rows) if TRANSPOSED in view else (rows, columns)


def _view(shape: ArrayShape, view: str, depth: int) -> ArrayView | None:
    """Return offset and strides of the matrices, None if the batch has no single stride."""
    strides = layout_strides(shape)
    batch, expected = 0, 0
    for dim in reversed(range(depth)):
        if shape.dims[dim] == 1:
            continue
        if batch and strides[dim] != expected:
            return None
        batch = batch or strides[dim]
        expected = strides[dim] * shape.dims[dim]
    row, column = (*strides[depth:], 0, 0)[:2]
    if TRANSPOSED in view:
        row, column = column, row
    rows, columns = _sizes(shape, view, depth)
    if REVERSED in view:
        return ArrayView((rows - 1) * row + (columns - 1) * column, batch, -row, -column)
    if ROWS_REVERSED in view:
        return ArrayView((rows - 1) * row, batch, -row, column)
    return ArrayView(0, batch, row, column)
