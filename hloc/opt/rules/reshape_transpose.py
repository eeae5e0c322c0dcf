"""Laws of reshape, transpose and reverse: those that cancel, merge or move nothing."""

from __future__ import annotations

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.opt.make import like, make
from hloc.opt.pattern import Found, P
from hloc.opt.rule import Rule
from hloc.opt.rules.builders import answer, apply, as_reshape, same_shape
from hloc.opt.values import default_layout, has_one_user

x, y = P(bind="x"), P(bind="y")


def _moves_nothing(inst: Instruction, found: Found) -> bool:
    """Only dimensions of size 1 change places, so the elements stay in row-major order."""
    dims = found["x"].array.dims
    moved = [dim for dim in inst.attributes.dimensions if dims[dim] != 1]
    return moved == sorted(moved) and default_layout(inst, found["x"])


def _merge_transposes(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    inner = found["y"].attributes.dimensions
    dims = tuple(inner[dim] for dim in inst.attributes.dimensions)
    start = found["x"]
    if dims == tuple(range(len(dims))) and start.shape == inst.shape:
        return start
    return make(computation, "transpose", inst.shape, start, dimensions=dims)


def _transposed_dimensions(inst: Instruction, found: Found) -> tuple[int, ...]:
    return _dimensions_after(inst, found["y"])


def _dimensions_after(transpose: Instruction, broadcast: Instruction) -> tuple[int, ...]:
    """Result dimension d of the broadcast stands at place[d] of the transpose."""
    place = {dim: i for i, dim in enumerate(transpose.attributes.dimensions)}
    return tuple(place[dim] for dim in broadcast.attributes.dimensions)


def _transpose_outer_product(
    computation: Computation, inst: Instruction, found: Found
) -> Instruction:
    shape = inst.array
    factors = [
        make(
            computation,
            "broadcast",
            shape.with_dtype(broadcast.array.dtype),
            broadcast.operands[0],
            dimensions=_dimensions_after(inst, broadcast),
        )
        for broadcast in (found["y"], found["z"])
    ]
    return like(computation, found["p"], *factors, shape=shape)


def _transposed_iota_dimension(inst: Instruction, found: Found) -> int:
    return int(inst.attributes.dimensions.index(found["y"].attributes.iota_dimension))


def _only_size_one(inst: Instruction, found: Found) -> bool:
    dims = found["x"].array.dims
    return all(dims[dim] <= 1 for dim in inst.attributes.dimensions)


def _merge_reverses(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    outer, inner = inst.attributes.dimensions, found["y"].attributes.dimensions
    dims = tuple(sorted(set(outer) ^ set(inner)))
    if not dims and found["x"].shape == inst.shape:
        return found["x"]
    return make(computation, "reverse", inst.shape, found["x"], dimensions=dims)


def _reshaped_broadcast_of_scalar(
    computation: Computation, inst: Instruction, found: Found
) -> Instruction:
    if not inst.array.dims and inst.shape == found["x"].shape:
        return found["x"]
    return make(computation, "broadcast", inst.shape, found["x"], dimensions=())


def _scalar_broadcast(_inst: Instruction, found: Found) -> bool:
    return not found["y"].attributes.dimensions


def _one_iota_dimension(inst: Instruction, found: Found) -> bool:
    """Size-1 dimensions come or go; the counted one is still there with all its elements."""
    return _iota_place(inst, found) is not None


def _iota_place(inst: Instruction, found: Found) -> int | None:
    iota = found["y"]
    kept = [dim for dim, size in enumerate(inst.array.dims) if size != 1]
    before = [dim for dim, size in enumerate(iota.array.dims) if size != 1]
    if [inst.array.dims[d] for d in kept] != [iota.array.dims[d] for d in before]:
        return None
    dim = iota.attributes.iota_dimension
    return kept[before.index(dim)] if dim in before else None


def _only_adds_ones(inst: Instruction, found: Found) -> bool:
    """Dimensions of size 1 are added before the transpose and removed after it."""
    return _order_around_ones(inst, found) is not None


def _order_around_ones(inst: Instruction, found: Found) -> tuple[int, ...] | None:
    """Return for each dimension of the result that of `x`, None if the reshapes do more."""
    start, middle = found["x"].array.dims, found["y"].operands[0].array.dims
    turned, end = found["y"].array.dims, inst.array.dims
    if len(start) != len(end) or _without_ones(start) != _without_ones(middle):
        return None
    if _without_ones(turned) != _without_ones(end):
        return None
    numbers = iter(dim for dim, size in enumerate(start) if size != 1)
    large = {dim: next(numbers) for dim, size in enumerate(middle) if size != 1}
    order = iter(large[dim] for dim in found["y"].attributes.dimensions if dim in large)
    ones = iter(dim for dim, size in enumerate(start) if size == 1)
    return tuple(next(ones if size == 1 else order) for size in end)


def _without_ones(dims: tuple[int, ...]) -> list[int]:
    return [size for size in dims if size != 1]


def _bitcast_is_reshape(inst: Instruction, found: Found) -> bool:
    return default_layout(inst, found["x"]) and inst.array.dtype is found["x"].array.dtype


def _reverses_copies(inst: Instruction, found: Found) -> bool:
    """Only dimensions along which the broadcast repeats itself are reversed."""
    return not set(inst.attributes.dimensions) & set(found["y"].attributes.dimensions)


RESHAPE_TRANSPOSE = (
    Rule("bitcast-as-reshape", P("bitcast", (x,)), as_reshape, when=_bitcast_is_reshape),
    Rule("reshape-same-shape", P("reshape", (x,)), answer("x"), when=same_shape),
    Rule("reshape-reshape", P("reshape", (P("reshape", (x,)),)), as_reshape),
    Rule(
        "reshape-transpose-reshape",
        P("reshape", (P("transpose", (P("reshape", (x,)),), bind="y"),)),
        apply("transpose", "x", dimensions=_order_around_ones),
        when=_only_adds_ones,
    ),
    Rule(
        "reshape-broadcast-scalar",
        P("reshape", (P("broadcast", (x,), bind="y"),)),
        _reshaped_broadcast_of_scalar,
        when=_scalar_broadcast,
    ),
    Rule(
        "reshape-iota",
        P("reshape", (P("iota", bind="y"),)),
        apply("iota", iota_dimension=_iota_place),
        when=_one_iota_dimension,
    ),
    Rule(
        "transpose-moves-nothing",
        P("transpose", (x,)),
        as_reshape,
        when=_moves_nothing,
    ),
    Rule(
        "transpose-transpose",
        P("transpose", (P("transpose", (x,), bind="y"),)),
        _merge_transposes,
    ),
    Rule(
        "transpose-broadcast",
        P("transpose", (P("broadcast", (x,), bind="y"),)),
        apply("broadcast", "x", dimensions=_transposed_dimensions),
    ),
    Rule(
        "transpose-outer-product",
        P(
            "transpose",
            (
                P(
                    "multiply",
                    (P("broadcast", bind="y"), P("broadcast", bind="z")),
                    bind="p",
                    when=has_one_user,
                ),
            ),
        ),
        _transpose_outer_product,
    ),
    Rule(
        "transpose-iota",
        P("transpose", (P("iota", bind="y"),)),
        apply("iota", iota_dimension=_transposed_iota_dimension),
    ),
    Rule("reverse-moves-nothing", P("reverse", (x,)), answer("x"), when=_only_size_one),
    Rule(
        "reverse-broadcast",
        P("reverse", (P("broadcast", bind="y"),)),
        answer("y"),
        when=_reverses_copies,
    ),
    Rule("reverse-reverse", P("reverse", (P("reverse", (x,), bind="y"),)), _merge_reverses),
)
