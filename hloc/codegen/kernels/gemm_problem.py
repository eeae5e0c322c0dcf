"""The loops of matrix products: of dots, and of convolutions whose window is one element.

out[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n], where each letter stands for a list of
dimensions with strides in the three arrays, merged where memory allows.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from hloc.codegen.builder.index import layout_strides, row_major_strides
from hloc.codegen.kernels.context import root_of
from hloc.codegen.kernels.panel_gemm import MIN_ROWS_TO_PACK
from hloc.ir.attributes import Window
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.memory.panels import panel_elements, panel_strides, panel_width
from hloc.ops.rows.dot import DotAttributes
from hloc.shapes import ArrayShape


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop: its size and the steps it makes in the arrays that have it, else 0."""

    size: int
    lhs: int
    rhs: int
    out: int

    def swapped(self) -> Axis:
        """Return the axis as seen with the two sides exchanged."""
        return Axis(self.size, self.rhs, self.lhs, self.out)


@dataclass(frozen=True, slots=True)
class GemmProblem:
    """The loops of a product."""

    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    contracted: tuple[Axis, ...]


def is_in_memory(inst: Instruction, operand: Instruction) -> bool:
    """True if `operand` of the root is read from memory and not computed by a fused producer."""
    return inst.opcode.name != "fusion" or operand.opcode.name == "parameter"


def is_gemm(root: Instruction) -> bool:
    """True for a dot, and for a convolution with a window of one element, no padding, no groups.

    Steps of the window are strides of the input.
    """
    if root.opcode.name == "dot":
        return True
    if root.opcode.name != "convolution":
        return False
    a = root.attributes
    if a.feature_group_count != 1 or a.batch_group_count != 1:
        return False
    dims = root.operands[0].array.dims
    return all(
        d.size == 1
        and d.pad_low == 0
        and d.base_dilation == 1
        and (root.array.dims[out] - 1) * d.stride < dims[place]
        for d, place, out in zip(
            (a.window or Window()).dimensions,
            a.dim_labels.input_spatial,
            a.dim_labels.output_spatial,
            strict=True,
        )
    )


def gemm_problem_of(inst: Instruction, root: Instruction | None = None) -> GemmProblem:
    """Return the loops of a dot or a product convolution: of `root`, else of the root of `inst`."""
    root = root or root_of(inst)
    left, right = (operand_strides(inst, operand) for operand in root.operands)
    if root.opcode.name == "convolution":
        return _convolution(root, left, right)
    lhs, rhs = (operand.array for operand in root.operands)
    return _dot(lhs, rhs, root.array, root.attributes, left, right)


def operand_strides(inst: Instruction, operand: Instruction) -> tuple[int, ...]:
    """Return the strides of an operand in memory; one that is computed counts as row-major.

    Those of columns in panels are within a panel, see `column_axes`.
    """
    if is_in_memory(inst, operand):
        return panel_strides(operand.array, layout_strides(operand.array))
    return tuple(row_major_strides(operand.array.dims))


def _convolution(root: Instruction, left: tuple[int, ...], right: tuple[int, ...]) -> GemmProblem:
    labels = root.attributes.dim_labels
    window = (root.attributes.window or Window()).dimensions
    result, dims = layout_strides(root.array), root.array.dims
    rows = [
        Axis(dims[labels.output_batch], left[labels.input_batch], 0, result[labels.output_batch])
    ]
    for d, place, out in zip(window, labels.input_spatial, labels.output_spatial, strict=True):
        rows.append(Axis(dims[out], left[place] * d.stride, 0, result[out]))
    feature, channel = labels.output_feature, labels.kernel_input_feature
    column = Axis(dims[feature], 0, right[labels.kernel_output_feature], result[feature])
    columns = column_axes(column, root.operands[1].array)
    depth = root.operands[1].array.dims[channel]
    contracted = [Axis(depth, left[labels.input_feature], right[channel], 0)]
    return GemmProblem((), merged(rows), merged(columns), merged(contracted))


@lru_cache(maxsize=256)
def _dot(
    lhs: ArrayShape,
    rhs: ArrayShape,
    out: ArrayShape,
    a: DotAttributes,
    left: tuple[int, ...],
    right: tuple[int, ...],
) -> GemmProblem:
    """Return the loops of a dot, by the order of its result: batch, free of lhs, free of rhs.

    `left` and `right` are the strides of the operands' dimensions, in elements.
    """
    result = layout_strides(out)
    count = len(a.lhs_batch_dims)
    batch = [
        Axis(lhs.dims[i], left[i], right[j], result[n])
        for n, (i, j) in enumerate(zip(a.lhs_batch_dims, a.rhs_batch_dims, strict=True))
    ]
    free_left = _free_dims(lhs, a.lhs_batch_dims, a.lhs_contracting_dims)
    free_right = _free_dims(rhs, a.rhs_batch_dims, a.rhs_contracting_dims)
    rows = [Axis(lhs.dims[d], left[d], 0, result[count + n]) for n, d in enumerate(free_left)]
    first = count + len(free_left)
    columns = [Axis(rhs.dims[d], 0, right[d], result[first + n]) for n, d in enumerate(free_right)]
    if len(columns) == 1:
        columns = column_axes(columns[0], rhs)
    contracted = [
        Axis(lhs.dims[i], left[i], right[j], 0)
        for i, j in zip(a.lhs_contracting_dims, a.rhs_contracting_dims, strict=True)
    ]
    return GemmProblem(merged(batch), merged(rows), merged(columns), merged(contracted))


def column_axes(column: Axis, rhs: ArrayShape) -> list[Axis]:
    """Return the loops over the columns of `rhs`: two if it lies in panels."""
    width = panel_width(rhs)
    if not width:
        return [column]
    panels = Axis(column.size // width, 0, panel_elements(rhs), column.out * width)
    return [panels, Axis(width, 0, column.rhs, column.out)]


def _free_dims(shape: ArrayShape, batch: tuple[int, ...], contracted: tuple[int, ...]) -> list[int]:
    return [d for d in range(shape.rank) if d not in batch and d not in contracted]


def merged(axes: list[Axis]) -> tuple[Axis, ...]:
    """Return the axes, slowest first, with neighbours merged that all arrays walk as one."""
    ordered = sorted((x for x in axes if x.size != 1), key=lambda x: -max(x.out, abs(x.lhs), x.rhs))
    return joined(ordered)


def joined(ordered: Iterable[Axis]) -> tuple[Axis, ...]:
    """Return the axes with neighbours in this order merged that all arrays walk as one."""
    found: list[Axis] = []
    for axis in ordered:
        last = found[-1] if found else None
        if last is not None and (last.lhs, last.rhs, last.out) == (
            axis.lhs * axis.size,
            axis.rhs * axis.size,
            axis.out * axis.size,
        ):
            found[-1] = Axis(last.size * axis.size, axis.lhs, axis.rhs, axis.out)
        else:
            found.append(axis)
    return tuple(found)


def swapped(p: GemmProblem) -> GemmProblem:
    """Return the product with its sides exchanged."""

    def swap(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(axis.swapped() for axis in axes)

    return GemmProblem(swap(p.batch), swap(p.columns), swap(p.rows), swap(p.contracted))


def is_inner(p: GemmProblem) -> bool:
    """True if the contracted dimension is contiguous on both sides and one side has few rows."""
    if not p.contracted:
        return False
    k = p.contracted[-1]
    fewest = min(row_axis(p).size, column_axis(p).size)
    return k.lhs == 1 and k.rhs == 1 and fewest < MIN_ROWS_TO_PACK


def row_axis(p: GemmProblem) -> Axis:
    """Return the axis that is tiled."""
    return p.rows[-1] if p.rows else Axis(1, 0, 0, 0)


def column_axis(p: GemmProblem) -> Axis:
    """Return the axis that is cut into panels: the contiguous one, if there is one."""
    found = next((c for c in p.columns if c.rhs == 1), None)
    return found or (p.columns[-1] if p.columns else Axis(1, 0, 0, 0))


def other_columns(p: GemmProblem) -> tuple[Axis, ...]:
    column = column_axis(p)
    return tuple(c for c in p.columns if c is not column)


def oriented(p: GemmProblem) -> tuple[GemmProblem, bool]:
    """Return the product with contiguous columns in the right-hand side, if either side has them.

    The flag tells that the sides were exchanged.
    """
    if p.columns and any(axis.rhs == 1 for axis in p.columns):
        return p, False
    if p.rows and any(axis.lhs == 1 for axis in p.rows):
        return swapped(p), True
    if not p.columns and p.rows:
        return swapped(p), True
    return p, False
