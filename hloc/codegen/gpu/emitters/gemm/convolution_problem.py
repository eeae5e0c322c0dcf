"""Convolutions as implicit gemms: rows are output positions, the depth is window times channels.

The input is not copied: the address of an input element is computed from the output position and
the window element when a tile is read; elements in the padding or in holes are zero.
Gradients are convolutions of the same kind with other labels, dilations and large windows.
"""

from __future__ import annotations

from collections.abc import Iterator

from hloc.codegen.builder.index import layout_strides
from hloc.codegen.gpu.emitters.gemm.gemm_epilogue import gemm_root
from hloc.codegen.gpu.emitters.gemm.matrix_problem import (
    MatrixProblem,
    Reach,
    before_widening,
    matrix_problem,
)
from hloc.codegen.kernels.gemm_problem import Axis, GemmProblem, operand_strides
from hloc.ir.attributes import Window, WindowDimension
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class _Loop:
    """An axis, and the window dimension that it belongs to."""

    axis: Axis
    spatial: int | None = None


@dataclass(frozen=True, slots=True)
class _Loops:
    """All loops of a convolution with more than one iteration, by their space in the gemm."""

    batch: list[_Loop]
    rows: list[_Loop]
    columns: list[_Loop]
    depth: list[_Loop]


def convolution_problem(inst: Instruction) -> MatrixProblem:
    """Return the gemm of the convolution of `inst`."""
    root = gemm_root(inst)
    lhs, rhs = (before_widening(inst, operand) for operand in root.operands)
    left = operand_strides(inst, lhs)
    loops = _loops_of(root, left, operand_strides(inst, rhs))
    axes = GemmProblem(
        *(
            tuple(loop.axis for loop in group)
            for group in (loops.batch, loops.rows, loops.columns, loops.depth)
        )
    )
    spatial = root.attributes.dim_labels.input_spatial
    reaches = tuple(
        Reach(d, lhs.array.dims[dim], left[dim], _find(loops.rows, n), _find(loops.depth, n))
        for n, (d, dim) in enumerate(zip(_window(root), spatial, strict=True))
    )
    return matrix_problem(inst, root, inst.array, axes, (lhs, rhs), reaches).oriented()


def _loops_of(root: Instruction, left: tuple[int, ...], right: tuple[int, ...]) -> _Loops:
    """Return the loops of a convolution, given the strides of its operands by dimension.

    Loops of rows are ordered by decreasing stride in the result, loops of the depth in the input.
    """
    a, labels = root.attributes, root.attributes.dim_labels
    result, dims = layout_strides(root.array), root.array.dims
    groups = a.feature_group_count * a.batch_group_count
    channels = root.operands[1].array.dims[labels.kernel_input_feature]
    features = dims[labels.output_feature] // groups
    batches = dims[labels.output_batch]
    group_step = (
        batches * left[labels.input_batch]
        if a.batch_group_count > 1
        else channels * left[labels.input_feature]
    )
    in_kernel, in_result = right[labels.kernel_output_feature], result[labels.output_feature]
    group = Axis(groups, group_step, features * in_kernel, features * in_result)
    rows = [_Loop(Axis(batches, left[labels.input_batch], 0, result[labels.output_batch]))]
    rows += [_Loop(Axis(dims[d], 0, 0, result[d]), n) for n, d in enumerate(labels.output_spatial)]
    channel = Axis(channels, left[labels.input_feature], right[labels.kernel_input_feature], 0)
    depth = [_Loop(channel)]
    depth += [
        _Loop(Axis(d.size, 0, right[labels.kernel_spatial[n]], 0), n)
        for n, d in enumerate(_window(root))
    ]

    def in_input(loop: _Loop) -> int:
        return loop.axis.lhs if loop.spatial is None else left[labels.input_spatial[loop.spatial]]

    def longer(loops: list[_Loop]) -> Iterator[_Loop]:
        return (loop for loop in loops if loop.axis.size != 1)

    return _Loops(
        batch=list(longer([_Loop(group)])),
        rows=sorted(longer(rows), key=lambda loop: -loop.axis.out),
        columns=list(longer([_Loop(Axis(features, 0, in_kernel, in_result))])),
        depth=sorted(longer(depth), key=lambda loop: -in_input(loop)),
    )


def _window(root: Instruction) -> tuple[WindowDimension, ...]:
    return (root.attributes.window or Window()).dimensions


def _find(loops: list[_Loop], spatial: int) -> int | None:
    return next((n for n, loop in enumerate(loops) if loop.spatial == spatial), None)
