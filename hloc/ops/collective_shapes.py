"""Shape rules of collectives."""

from __future__ import annotations

from hloc.dtypes import S32
from hloc.ir.opcode import ShapeRequest
from hloc.ops.checks import (
    array_operand,
    array_operands,
    check_compatible,
    check_dims,
    check_parameters,
    declared_shape,
    require,
    scalar_of,
)
from hloc.ops.reducers import one_or_tuple
from hloc.shapes import ArrayShape, Shape, TupleShape, array_shape


def _check_groups(name: str, request: ShapeRequest) -> None:
    attributes = request.attributes
    require(
        not getattr(attributes, "use_global_device_ids", False)
        or attributes.channel_id is not None,
        f"{name}: use_global_device_ids=true needs a channel_id",
    )


def _check_reducer(name: str, request: ShapeRequest, shapes: tuple[ArrayShape, ...]) -> None:
    scalar = scalar_of(shapes[0])
    check_parameters(name, request.called[0], (scalar, scalar), mixed=True)


def infer_all_reduce(request: ShapeRequest) -> Shape:
    """Return the operands' shapes, a tuple if there are several."""
    shapes = array_operands("all-reduce", request)
    require(bool(shapes), "all-reduce: expected at least 1 operand, but found 0")
    _check_groups("all-reduce", request)
    _check_reducer("all-reduce", request, shapes)
    return one_or_tuple(shapes)


def infer_all_reduce_start(request: ShapeRequest) -> Shape:
    """Return the operands' shapes; a single operand may also be declared `(operand, result)`."""
    inferred = infer_all_reduce(request)
    declared = request.declared
    if isinstance(inferred, ArrayShape) and isinstance(declared, TupleShape):
        pair = TupleShape((inferred, inferred))
        check_compatible("all-reduce-start", "the result", declared, pair)
        return pair
    return inferred


def _check_scaled(name: str, request: ShapeRequest, result: Shape, *, grows: bool) -> None:
    """Check results that differ from the operands in one dimension by an integer factor."""
    shapes = array_operands(name, request)
    require(bool(shapes), f"{name}: expected at least 1 operand, but found 0")
    dimensions = request.attributes.dimensions
    require(len(dimensions) == 1, f"{name}: expected one dimension, but found {list(dimensions)}")
    (dim,) = dimensions
    parts = result.elements if isinstance(result, TupleShape) and len(shapes) > 1 else (result,)
    require(
        len(parts) == len(shapes),
        f"{name}: {len(shapes)} operands give {len(shapes)} results, not {len(parts)}",
    )
    for shape, part in zip(shapes, parts, strict=True):
        check_dims(name, "dimension", (dim,), shape.rank)
        small, large = (shape, part) if grows else (part, shape)
        require(
            isinstance(part, ArrayShape)
            and part.dtype is shape.dtype
            and _scaled(small, large, dim),
            f"{name}: operand {shape.text_without_layout} cannot become "
            f"{part.text_without_layout} along dimension {dim}",
        )


def _scaled(small: Shape, large: Shape, dim: int) -> bool:
    """True if `large` is `small` with dimension `dim` some times longer."""
    if not isinstance(small, ArrayShape) or not isinstance(large, ArrayShape):
        return False
    if small.rank != large.rank:
        return False
    others = all(
        a == b for i, (a, b) in enumerate(zip(small.dims, large.dims, strict=True)) if i != dim
    )
    m, n = small.dims[dim], large.dims[dim]
    return others and (m == n or m < 0 or n < 0 or (m > 0 and n % m == 0))


def infer_reduce_scatter(request: ShapeRequest) -> Shape:
    """Check the declared shape: one dimension is a whole number of times shorter."""
    declared = declared_shape("reduce-scatter", request)
    _check_groups("reduce-scatter", request)
    _check_scaled("reduce-scatter", request, declared, grows=False)
    _check_reducer("reduce-scatter", request, array_operands("reduce-scatter", request))
    return declared


def infer_all_gather(request: ShapeRequest) -> Shape:
    """Check the declared shape: one dimension is a whole number of times longer."""
    declared = declared_shape("all-gather", request)
    _check_groups("all-gather", request)
    _check_scaled("all-gather", request, declared, grows=True)
    return declared


def infer_all_gather_start(request: ShapeRequest) -> Shape:
    """Check the declared `(operands, results)`."""
    declared = _declared_tuple("all-gather-start", request, "(operands, results)")
    parts = declared.elements
    operands = one_or_tuple(request.operands)
    check_compatible("all-gather-start", "element 0 of the result", parts[0], operands)
    _check_scaled("all-gather-start", request, parts[1], grows=True)
    return declared


def infer_all_to_all(request: ShapeRequest) -> Shape:
    """Check the declared shape: one operand keeps its elements, several give one result each."""
    shapes = array_operands("all-to-all", request)
    declared = declared_shape("all-to-all", request)
    dimensions = request.attributes.dimensions
    if dimensions is None:
        check_compatible("all-to-all", "the result", declared, TupleShape(shapes))
        return declared
    require(
        len(shapes) == 1 and len(dimensions) == 1,
        f"all-to-all: with dimensions={list(dimensions)} expected one operand and one dimension",
    )
    check_dims("all-to-all", "dimension", dimensions, shapes[0].rank)
    check_compatible("all-to-all", "the result", declared, shapes[0])
    return declared


def infer_collective_broadcast(request: ShapeRequest) -> Shape:
    """Return the shapes of the operands that are sent, a tuple if there are several.

    With a dynamic root the last operand is `s32[n]` for n others.
    """
    name = "collective-broadcast"
    shapes = array_operands(name, request)
    if request.attributes.has_dynamic_root:
        require(len(shapes) > 1, f"{name}: with has_dynamic_root expected at least 2 operands")
        shapes, roots = shapes[:-1], shapes[-1]
        expected = array_shape(S32, len(shapes))
        check_compatible(name, "the last operand, of roots,", roots, expected)
    require(bool(shapes), f"{name}: expected at least 1 operand")
    return one_or_tuple(shapes)


def infer_ragged_all_to_all(request: ShapeRequest) -> Shape:
    """Return the shape of operand 1, the buffer that is written."""
    require(
        len(request.operands) == 6,
        f"ragged-all-to-all: expected 6 operands, but found {len(request.operands)}",
    )
    return array_operand("ragged-all-to-all", request, 1)


def infer_collective_permute(request: ShapeRequest) -> Shape:
    """Return the operand's shape; with four operands that of the output buffer, operand 1."""
    count = len(request.operands)
    _check_pairs("collective-permute", request)
    if count == 4:
        return request.operands[1]
    require(count >= 1, "collective-permute: expected at least 1 operand, but found 0")
    return one_or_tuple(request.operands)


def infer_collective_permute_start(request: ShapeRequest) -> Shape:
    """Check the declared `(operands, results, contexts...)`."""
    _check_pairs("collective-permute-start", request)
    name = "collective-permute-start"
    declared = _declared_tuple(name, request, "(operand, result, contexts...)")
    if len(request.operands) == 1:
        for index, part in enumerate(declared.elements[:2]):
            check_compatible(name, f"element {index} of the result", part, request.operands[0])
    return declared


def _declared_tuple(name: str, request: ShapeRequest, form: str) -> TupleShape:
    """Return the declared shape, a tuple of two or more elements."""
    declared = declared_shape(name, request)
    require(
        isinstance(declared, TupleShape) and len(declared.elements) >= 2,
        f"{name}: the result must be {form}, but is {declared.text_without_layout}",
    )
    assert isinstance(declared, TupleShape)
    return declared


def _check_pairs(name: str, request: ShapeRequest) -> None:
    sources, targets = [], []
    for pair in request.attributes.source_target_pairs:
        require(
            len(pair) == 2 and min(pair) >= 0,
            f"{name}: {list(pair)} is no pair of source and target",
        )
        sources.append(pair[0])
        targets.append(pair[1])
    if len(request.operands) > 1:
        return  # the pairs of several slices are concatenated
    for what, ids in (("source", sources), ("target", targets)):
        require(len(set(ids)) == len(ids), f"{name}: a {what} occurs twice in {ids}")


def infer_all_reduce_done(request: ShapeRequest) -> Shape:
    """Return the operand's shape, or element 1 of `(operand, result)`."""
    (shape,) = request.operands
    if isinstance(shape, TupleShape) and isinstance(request.declared, ArrayShape):
        return shape.elements[-1]
    return shape


def infer_done(request: ShapeRequest) -> Shape:
    """Return element 1 of the start's tuple."""
    (shape,) = request.operands
    require(
        isinstance(shape, TupleShape) and len(shape.elements) >= 2,
        f"operand 0 must be a started collective, but is {shape.text_without_layout}",
    )
    assert isinstance(shape, TupleShape)
    return shape.elements[1]
