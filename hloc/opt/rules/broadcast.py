"""Laws of broadcast and iota, and elementwise work moved to before a broadcast."""

from __future__ import annotations

import numpy as np

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ops import names_of
from hloc.opt.make import constant, like, make, splat_like
from hloc.opt.pattern import Found, P, only_of
from hloc.opt.rule import Rule
from hloc.opt.rules.builders import answer, apply, as_reshape, filled
from hloc.opt.values import default_layout, is_integer, is_splat, splat_value
from hloc.shapes import ArrayShape

x, y = P(bind="x"), P(bind="y")


def _adds_nothing(inst: Instruction, found: Found) -> bool:
    """True if no element is repeated; few broadcasts are like that."""
    return inst.shape.size_bytes == found["x"].shape.size_bytes


def _moves_nothing(inst: Instruction, found: Found) -> bool:
    dims = inst.attributes.dimensions
    return (
        _adds_nothing(inst, found)
        and dims == tuple(range(len(dims)))
        and inst.shape == found["x"].shape
    )


def _merged_dimensions(inst: Instruction, found: Found) -> tuple[int, ...]:
    outer, inner = inst.attributes.dimensions, found["y"].attributes.dimensions
    return tuple(outer[dim] for dim in inner)


def _adds_only_size_one(inst: Instruction, found: Found) -> bool:
    dims = inst.attributes.dimensions
    return (
        _adds_nothing(inst, found)
        and list(dims) == sorted(dims)
        and default_layout(inst, found["x"])
        and inst.array.rank > found["x"].array.rank
    )


def _permutes(inst: Instruction, found: Found) -> bool:
    return (
        _adds_nothing(inst, found)
        and len(inst.attributes.dimensions) == inst.array.rank
        and not _moves_nothing(inst, found)
    )


def _permutation(inst: Instruction, _found: Found) -> tuple[int, ...]:
    place = {dim: i for i, dim in enumerate(inst.attributes.dimensions)}
    return tuple(place[dim] for dim in range(inst.array.rank))


def _dimensions_past_reshape(inst: Instruction, found: Found) -> tuple[int, ...] | None:
    """Return the dimensions of a broadcast of x, if y only adds dimensions of size 1 to x."""
    source, reshaped = found["x"].array.dims, found["y"].array.dims
    kept = [dim for dim, size in enumerate(reshaped) if size != 1]
    if 1 in source or list(source) != [reshaped[dim] for dim in kept]:
        return None
    return tuple([inst.attributes.dimensions[dim] for dim in kept])


def _reshape_adds_size_one(inst: Instruction, found: Found) -> bool:
    return _dimensions_past_reshape(inst, found) is not None


def _large_uniform(inst: Instruction) -> bool:
    return (
        isinstance(inst.shape, ArrayShape)
        and inst.shape.elements > 1
        and inst.attributes.literal.uniform is not None
    )


def _scalar_and_broadcast(
    computation: Computation, inst: Instruction, _found: Found
) -> Instruction:
    scalar = constant(computation, inst.attributes.literal.uniform)
    return make(computation, "broadcast", inst.shape, scalar, dimensions=())


def _counts_one(inst: Instruction, _found: Found) -> bool:
    return bool(inst.array.dims[inst.attributes.iota_dimension] == 1)


def _spread_iota_dimension(inst: Instruction, found: Found) -> int:
    return int(inst.attributes.dimensions[found["y"].attributes.iota_dimension])


# ---- a constant that is an iota

_SHORTEST_COUNT = 16


def _counted_dimension(inst: Instruction, _found: Found | None = None) -> int | None:
    """Return the dimension along which an integer constant counts 0, 1, 2 ..., or None."""
    shape = inst.shape
    if not isinstance(shape, ArrayShape) or not is_integer(inst):
        return None
    if shape.elements < _SHORTEST_COUNT or inst.attributes.literal.is_elided:
        return None
    array = inst.attributes.literal.array
    corner = tuple([1 if size > 1 else 0 for size in shape.dims])
    for dim, size in enumerate(shape.dims):
        steps = [0] * shape.rank
        steps[dim] = size - 1
        if size < 2 or size > 2 ** (shape.dtype.bits - 1) or array[corner] != 1:
            continue
        if int(array[tuple(steps)]) != size - 1:
            continue  # most constants are rejected here, without looking at all elements
        count = np.arange(size, dtype=array.dtype).reshape([-1] + [1] * (shape.rank - dim - 1))
        if (array == count).all():
            return dim
    return None


def _is_count(inst: Instruction) -> bool:
    return _counted_dimension(inst) is not None


# ---- elementwise(broadcast(a), broadcast(b), constant) -> broadcast(elementwise(a, b, constant))


_COMPUTES = names_of(lambda row: row.elementwise) - {"copy"}


@only_of(*sorted(_COMPUTES))
def _is_elementwise(inst: Instruction) -> bool:
    shape = inst.shape
    return inst.opcode.name in _COMPUTES and isinstance(shape, ArrayShape) and bool(shape.dims)


def _common_broadcast(inst: Instruction) -> Instruction | None:
    """Return the broadcast that all operands match, except splats and scalars."""
    model: Instruction | None = None
    for operand in inst.operands:
        name, dims = operand.opcode.name, operand.array.dims
        if not dims or (name in ("broadcast", "constant") and is_splat(operand)):
            continue
        if name != "broadcast" or dims != inst.array.dims:
            return None
        if model is None:
            model = operand
        elif (
            operand.attributes.dimensions != model.attributes.dimensions
            or operand.operands[0].array.dims != model.operands[0].array.dims
        ):
            return None
    return model


def _has_common_broadcast(inst: Instruction, _found: Found) -> bool:
    model = _common_broadcast(inst)
    return model is not None and model.operands[0].array.elements < inst.array.elements


def _sink_broadcast(computation: Computation, inst: Instruction, _found: Found) -> Instruction:
    model = _common_broadcast(inst)
    assert model is not None
    result = _before(model, computation, inst)
    return make(
        computation, "broadcast", inst.shape, result, dimensions=model.attributes.dimensions
    )


def _before(model: Instruction, computation: Computation, inst: Instruction) -> Instruction:
    """Return `inst` of what its operands move, in the shape of what `model` moves."""
    source = model.operands[0].array
    operands: list[Instruction] = []
    for operand in inst.operands:
        if operand.array.is_scalar and model.opcode.name == "broadcast":
            operands.append(operand)
        elif is_splat(operand):
            small = ArrayShape(operand.array.dtype, source.dims)
            operands.append(splat_like(computation, operand, small))
        else:
            operands.append(operand.operands[0])
    shape = ArrayShape(inst.array.dtype, source.dims, source.layout)
    return like(computation, inst, *operands, shape=shape)


# ---- elementwise(reshape(a), reshape(b), constant) -> reshape(elementwise(a, b, constant))


def _common_reshape(inst: Instruction) -> Instruction | None:
    """Return the reshape that all operands match, except splats."""
    model: Instruction | None = None
    for operand in inst.operands:
        if splat_value(operand) is not None and not operand.array.is_scalar:
            continue
        if operand.opcode.name != "reshape" or operand.array.dims != inst.array.dims:
            return None
        if model is None:
            model = operand
        elif operand.operands[0].array.dims != model.operands[0].array.dims:
            return None
    return model


def _has_common_reshape(inst: Instruction, _found: Found) -> bool:
    return _common_reshape(inst) is not None


def _sink_reshape(computation: Computation, inst: Instruction, _found: Found) -> Instruction:
    model = _common_reshape(inst)
    assert model is not None
    return make(computation, "reshape", inst.shape, _before(model, computation, inst))


BROADCAST = (
    Rule("broadcast-to-same-shape", P("broadcast", (x,)), answer("x"), when=_moves_nothing),
    Rule(
        "broadcast-broadcast",
        P("broadcast", (P("broadcast", (x,), bind="y"),)),
        apply("broadcast", "x", dimensions=_merged_dimensions),
    ),
    Rule(
        "broadcast-past-reshape",
        P("broadcast", (P("reshape", (x,), bind="y"),)),
        apply("broadcast", "x", dimensions=_dimensions_past_reshape),
        when=_reshape_adds_size_one,
    ),
    Rule("broadcast-as-reshape", P("broadcast", (x,)), as_reshape, when=_adds_only_size_one),
    Rule(
        "broadcast-as-transpose",
        P("broadcast", (x,)),
        apply("transpose", "x", dimensions=_permutation),
        when=_permutes,
    ),
    Rule("uniform-constant", P("constant", when=_large_uniform), _scalar_and_broadcast),
    Rule(
        "constant-as-iota",
        P("constant", when=_is_count),
        apply("iota", iota_dimension=_counted_dimension),
    ),
    Rule(
        "broadcast-iota",
        P("broadcast", (P("iota", bind="y"),)),
        apply("iota", iota_dimension=_spread_iota_dimension),
    ),
    Rule("iota-of-one", P("iota"), filled(0), when=_counts_one),
    Rule(
        "elementwise-before-broadcast",
        P(when=_is_elementwise, reads="broadcast"),
        _sink_broadcast,
        when=_has_common_broadcast,
    ),
    Rule(
        "elementwise-before-reshape",
        P(when=_is_elementwise, reads="reshape"),
        _sink_reshape,
        when=_has_common_reshape,
    ),
)
