"""Convolutions as matrix products: rows are output positions, the depth is window times channels.

Nothing is copied: where an element of the input is follows from the output position and the window
element while a tile is read, and elements in the padding or in holes of a dilated input are zero.
Gradients are convolutions of the same kind with other labels, dilations and large windows.
"""

from __future__ import annotations

from dataclasses import dataclass

from hloc.codegen.builder.index import layout_strides, row_major_strides
from hloc.codegen.gpu.emitters.gemm.gemm_epilogue import gemm_root
from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem, Reach, Side, Space
from hloc.codegen.kernels.gemm_problem import is_in_memory
from hloc.codegen.kernels.panel_gemm import accumulator_dtype
from hloc.ir.attributes import Window, WindowDimension
from hloc.ir.instruction import Instruction


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop and its steps in input, kernel and result; `spatial` is the window's dimension."""

    size: int
    input: int
    kernel: int
    result: int
    spatial: int | None = None


@dataclass(frozen=True, slots=True)
class _Loops:
    """All loops of a convolution but those of one step, by what they are in the product."""

    batch: list[_Loop]
    rows: list[_Loop]
    columns: list[_Loop]
    depth: list[_Loop]


def convolution_problem(inst: Instruction) -> MatrixProblem:
    """Return the product that the convolution of `inst` is."""
    root = gemm_root(inst)
    lhs, rhs = root.operands
    left = _strides(inst, lhs)
    loops = _loops_of(root, left, _strides(inst, rhs))
    batch, rows, columns, depth = loops.batch, loops.rows, loops.columns, loops.depth
    places = root.attributes.dim_labels.input_spatial
    reaches = tuple(
        Reach(d, lhs.array.dims[places[n]], left[places[n]], _find(rows, n), _find(depth, n))
        for n, d in enumerate(_window(root))
    )
    return MatrixProblem(
        root,
        inst.array,
        Space(tuple(loop.size for loop in batch)),
        Space(tuple(loop.size for loop in rows)),
        Space(tuple(loop.size for loop in columns)),
        Space(tuple(loop.size for loop in depth)),
        Side(
            lhs,
            is_in_memory(inst, lhs),
            tuple(loop.input for loop in batch),
            tuple(loop.input for loop in rows),
            tuple(loop.input for loop in depth),
            reaches=reaches,
        ),
        Side(
            rhs,
            is_in_memory(inst, rhs),
            tuple(loop.kernel for loop in batch),
            tuple(loop.kernel for loop in columns),
            tuple(loop.kernel for loop in depth),
        ),
        tuple(loop.result for loop in batch),
        tuple(loop.result for loop in rows),
        tuple(loop.result for loop in columns),
        accumulator_dtype(root.array.dtype),
    ).oriented()


def _loops_of(root: Instruction, left: tuple[int, ...], right: tuple[int, ...]) -> _Loops:
    """Return the loops of a convolution, given the steps of its operands by dimension.

    Of rows those come first that are furthest apart in the result, of the depth those in the input.
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
    group = _Loop(
        groups,
        group_step,
        features * right[labels.kernel_output_feature],
        features * result[labels.output_feature],
    )
    rows = [_Loop(batches, left[labels.input_batch], 0, result[labels.output_batch])]
    rows += [_Loop(dims[d], 0, 0, result[d], n) for n, d in enumerate(labels.output_spatial)]
    depth = [
        _Loop(channels, left[labels.input_feature], right[labels.kernel_input_feature], 0),
        *(
            _Loop(d.size, 0, right[labels.kernel_spatial[n]], 0, n)
            for n, d in enumerate(_window(root))
        ),
    ]

    def in_input(loop: _Loop) -> int:
        return loop.input if loop.spatial is None else left[labels.input_spatial[loop.spatial]]

    column = _Loop(features, 0, right[labels.kernel_output_feature], result[labels.output_feature])
    return _Loops(
        batch=[group] if groups != 1 else [],
        rows=sorted((r for r in rows if r.size != 1), key=lambda r: -r.result),
        columns=[column] if features != 1 else [],
        depth=sorted((d for d in depth if d.size != 1), key=lambda d: -in_input(d)),
    )


def _window(root: Instruction) -> tuple[WindowDimension, ...]:
    return (root.attributes.window or Window()).dimensions


def _strides(inst: Instruction, operand: Instruction) -> tuple[int, ...]:
    if is_in_memory(inst, operand):
        return layout_strides(operand.array)
    return tuple(row_major_strides(operand.array.dims))


def _find(loops: list[_Loop], spatial: int) -> int | None:
    return next((n for n, loop in enumerate(loops) if loop.spatial == spatial), None)
