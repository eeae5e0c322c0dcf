"""Checks of the operands and computations of reductions, windows and scatters."""

from __future__ import annotations

from hloc.ir.computation import Computation
from hloc.ir.opcode import ShapeRequest
from hloc.ops.checks import (
    array_operands,
    check_compatible,
    check_parameters,
    require,
    scalar_of,
)
from hloc.shapes import ArrayShape, Shape, TupleShape, same_dims


def reducer_results(
    name: str,
    computation: Computation,
    inputs: tuple[ArrayShape, ...],
    inits: tuple[ArrayShape, ...],
    *,
    tuple_of_one: bool = False,
) -> tuple[ArrayShape, ...]:
    """Check a reducer and return the scalars it returns.

    The reducer takes one scalar per init and one per input and returns a scalar, or a tuple of
    scalars if there are several; float precisions may differ from those of the operands. With
    `tuple_of_one` it may return a tuple of a single scalar too.
    """
    for index, init in enumerate(inits):
        require(
            init.rank == 0,
            f"{name}: init value {index} must be a scalar, but is {init.text_without_layout}",
        )
    arguments = (*inits, *(scalar_of(shape) for shape in inputs))
    root = check_parameters(name, computation, arguments, mixed=True)
    parts = root.elements if isinstance(root, TupleShape) else (root,)
    require(
        len(parts) == len(inits)
        and (tuple_of_one or isinstance(root, TupleShape) == (len(inits) > 1)),
        f"{name}: computation {computation.name} must return "
        f"{'a scalar' if len(inits) == 1 else f'a tuple of {len(inits)} scalars'}, "
        f"but returns {root.text_without_layout}",
    )
    results = []
    for part, parameter in zip(parts, computation.parameters, strict=False):
        check_compatible(name, f"the result of {computation.name}", part, parameter.shape)
        assert isinstance(part, ArrayShape)
        results.append(part)
    return tuple(results)


def split_operands(
    name: str, request: ShapeRequest
) -> tuple[tuple[ArrayShape, ...], tuple[ArrayShape, ...]]:
    """Return inputs and init values; the inputs have equal dimensions."""
    shapes = array_operands(name, request)
    require(
        len(shapes) >= 2 and len(shapes) % 2 == 0,
        f"{name}: expected inputs and as many init values, but found {len(shapes)} operands",
    )
    inputs = shapes[: len(shapes) // 2]
    check_equal_dims(name, inputs)
    return inputs, shapes[len(shapes) // 2 :]


def check_equal_dims(name: str, inputs: tuple[ArrayShape, ...]) -> None:
    """Require arrays of equal dimensions."""
    for index, shape in enumerate(inputs):
        require(
            same_dims(shape, inputs[0]),
            f"{name}: operand {index} has shape {shape.text_without_layout}, "
            f"but operand 0 has shape {inputs[0].text_without_layout}",
        )


def like_root(computation: Computation, shapes: tuple[ArrayShape, ...]) -> Shape:
    """Return the arrays in the form of the reducer's result: a tuple or a single one."""
    return TupleShape(shapes) if isinstance(computation.root.shape, TupleShape) else shapes[0]


def one_or_tuple(shapes: tuple[Shape, ...]) -> Shape:
    """Return a single shape as it is and several as a tuple."""
    return shapes[0] if len(shapes) == 1 else TupleShape(shapes)
