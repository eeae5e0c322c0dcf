"""Gemms as kernels see them: four index spaces, two operands, one result.

result[batch, row, column] = sum over depth of left[batch, row, depth] * right[batch, column, depth]

Each space is a list of loops. Dots have the merged loops of `gemm_problem`; convolutions have loops
of their own (`convolution_problem`), and their left operand has positions outside the input.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from hloc.analysis.gpu_gemm import widens_factor
from hloc.codegen.builder.index import physical_order
from hloc.codegen.gpu.emitters.gemm.gemm_epilogue import gemm_root
from hloc.codegen.kernels.gemm_problem import Axis, GemmProblem, gemm_problem_of, is_in_memory
from hloc.codegen.kernels.panel_gemm import accumulator_dtype
from hloc.dtypes import DType
from hloc.ir.attributes import WindowDimension
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import post_order_from
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape, row_major

VECTOR_BYTES = 16
"""Widest access of one thread."""


@dataclass(frozen=True, slots=True)
class Space:
    """One index space: its loops, slowest first."""

    sizes: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of indices."""
        return prod(self.sizes)


@dataclass(frozen=True, slots=True)
class Reach:
    """A spatial dimension of a convolution's input, indexed by output and window position.

    Attributes:
        size, stride: of the dimension, in elements.
        line, depth: the loops of the output position and of the window element, None for 0.
    """

    window: WindowDimension
    size: int
    stride: int
    line: int | None
    depth: int | None


@dataclass(frozen=True, slots=True)
class Side:
    """One operand: strides of every loop in memory, or in row-major order if it is computed.

    Attributes:
        in_memory: it is loaded; otherwise fused producers compute it.
        batch, line, depth: strides of the loops; a line is a row of the left side, a column of the
            right one.
        reaches: spatial dimensions, in addition to the strides.
    """

    operand: Instruction
    in_memory: bool
    batch: tuple[int, ...]
    line: tuple[int, ...]
    depth: tuple[int, ...]
    reaches: tuple[Reach, ...] = ()

    @property
    def dtype(self) -> DType:
        return self.operand.array.dtype

    @property
    def read_bytes(self) -> int:
        """Bytes per element in memory; if it is computed, those of the largest array for it."""
        arrays = [self.operand.array]
        if not self.in_memory:
            below = post_order_from([self.operand])
            arrays = [m.array for m in below if m.is_a("parameter")] or arrays
        return max(arrays, key=lambda array: array.elements).dtype.storage_bytes


@dataclass(frozen=True, slots=True)
class Runs:
    """The contiguous direction of a side, and the elements per load."""

    by_depth: bool
    width: int


@dataclass(frozen=True, slots=True)
class MatrixProblem:
    """A gemm. Strides of the result are those of its loops in memory.

    Attributes:
        root: the dot or convolution.
        result: shape of the result, whose type may differ from that of the root.
        sums: type of the accumulators.
    """

    root: Instruction
    result: ArrayShape
    batch: Space
    rows: Space
    columns: Space
    depth: Space
    left: Side
    right: Side
    batch_steps: tuple[int, ...]
    row_steps: tuple[int, ...]
    column_steps: tuple[int, ...]
    sums: DType

    def swapped(self) -> MatrixProblem:
        """Return the gemm with its sides swapped."""
        return replace(
            self,
            rows=self.columns,
            columns=self.rows,
            left=self.right,
            right=self.left,
            row_steps=self.column_steps,
            column_steps=self.row_steps,
        )

    def oriented(self) -> MatrixProblem:
        """Return the gemm, its sides swapped if that makes columns of the result contiguous."""
        if self.column_steps and self.column_steps[-1] == 1:
            return self
        return self.swapped() if self.row_steps and self.row_steps[-1] == 1 else self

    def runs(self, side: Side, most: int) -> Runs:
        """Return direction and width of loads of `side`: at most `most` elements and 16 bytes."""
        lines = self.rows if side is self.left else self.columns
        for by_depth, space, steps in ((True, self.depth, side.depth), (False, lines, side.line)):
            if steps and steps[-1] == 1:
                others = _other_steps(side, by_depth)
                return Runs(by_depth, _width(side, space.sizes[-1], others, most))
        depth, line = (abs(steps[-1]) if steps else 0 for steps in (side.depth, side.line))
        return Runs(bool(depth) and (not line or depth < line), 1)

    @property
    def result_width(self) -> int:
        """Adjacent columns per store of at most 16 bytes."""
        if not self.column_steps or self.column_steps[-1] != 1:
            return 1
        steps = (*self.batch_steps, *self.row_steps, *self.column_steps[:-1])
        shape = self.result
        last = shape.dims[physical_order(shape)[-1]]
        width = VECTOR_BYTES // shape.dtype.storage_bytes
        numbers = (*steps, self.columns.sizes[-1], last)
        while width > 1 and any(number % width for number in numbers):
            width //= 2
        return max(width, 1)


def _other_steps(side: Side, by_depth: bool) -> tuple[int, ...]:
    """Return all strides of a side except that of the contiguous direction."""
    line = side.line if by_depth else side.line[:-1]
    depth = side.depth[:-1] if by_depth else side.depth
    return (*side.batch, *line, *depth, *(reach.stride for reach in side.reaches))


def _width(side: Side, size: int, others: tuple[int, ...], most: int) -> int:
    width = min(most, max(VECTOR_BYTES // side.read_bytes, 1))
    shape = side.operand.array
    # Computed elements of a run differ in their last index only.
    last = size if side.in_memory else shape.dims[-1]
    while width > 1 and any(number % width for number in (*others, size, last)):
        width //= 2
    return width


def before_widening(inst: Instruction, operand: Instruction) -> Instruction:
    """Return the operand of a lossless fused conversion, since accumulators are wide anyway."""
    while not is_in_memory(inst, operand) and widens_factor(operand):
        (source,) = operand.operands
        if source.array.minor_to_major != row_major(source.array.rank).minor_to_major:
            break
        operand = source
    return operand


def dot_problem(inst: Instruction) -> MatrixProblem:
    """Return the gemm of `inst`, a dot or a fusion around one dot."""
    root = gemm_root(inst)
    lhs, rhs = (before_widening(inst, operand) for operand in root.operands)
    axes = gemm_problem_of(inst, root)
    return matrix_problem(inst, root, inst.array, axes, (lhs, rhs)).oriented()


def matrix_problem(
    inst: Instruction,
    root: Instruction,
    result: ArrayShape,
    axes: GemmProblem,
    operands: tuple[Instruction, Instruction],
    reaches: tuple[Reach, ...] = (),
) -> MatrixProblem:
    """Return the gemm with the given axes.

    Args:
        inst: the kernel's instruction; its parameters are in memory.
        root: the dot or convolution.
        result: shape of the result.
        axes: with their strides in the operands and the result.
        operands: the left and the right side.
        reaches: of the left side.
    """

    def space(group: tuple[Axis, ...]) -> Space:
        return Space(tuple(axis.size for axis in group))

    def steps(group: tuple[Axis, ...], name: str) -> tuple[int, ...]:
        return tuple(getattr(axis, name) for axis in group)

    def side(operand: Instruction, lines: tuple[Axis, ...], name: str) -> Side:
        batch, line, depth = (steps(g, name) for g in (axes.batch, lines, axes.contracted))
        return Side(operand, is_in_memory(inst, operand), batch, line, depth)

    left, right = operands
    return MatrixProblem(
        root,
        result,
        space(axes.batch),
        space(axes.rows),
        space(axes.columns),
        space(axes.contracted),
        replace(side(left, axes.rows, "lhs"), reaches=reaches),
        side(right, axes.columns, "rhs"),
        steps(axes.batch, "out"),
        steps(axes.rows, "out"),
        steps(axes.columns, "out"),
        accumulator_dtype(root.array.dtype),
    )
