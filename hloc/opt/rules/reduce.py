"""Laws of reduce: over nothing, over one element, after a transpose, twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any, TypeAlias

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ops import names_of, opcode_row
from hloc.ops.folding import recognised_reducer
from hloc.opt.make import constant, like, make, reshaped, splat
from hloc.opt.pattern import Found, P
from hloc.opt.rule import Rule
from hloc.opt.values import (
    default_layout,
    has_one_user,
    is_float,
    is_integer,
    is_integer_or_pred,
    splat_value,
)
from hloc.shapes import ArrayShape

Dims: TypeAlias = tuple[int, ...]

x, y, init = P(bind="x"), P(bind="y"), P(bind="init")


def _reduces_no_elements(inst: Instruction, found: Found) -> bool:
    return found["x"].array.elements == 0 and inst.array.elements > 0


def _one_operation(inst: Instruction) -> Instruction | None:
    """Return the reducer's root if it is one elementwise operation of the two parameters."""
    (body,) = inst.called
    root, parameters = body.root, body.parameters
    if len(body) != 3 or len(root.operands) != 2 or not root.opcode.elementwise:
        return None
    return root if set(root.operands) == set(parameters) else None


def _reduces_one_element(inst: Instruction, found: Found) -> bool:
    """Each result is f(init, one element), where f is one operation of these types."""
    operand = found["x"]
    if not isinstance(inst.shape, ArrayShape) or inst.shape.elements == 0:
        return False
    return (
        operand.array.elements == inst.shape.elements
        and operand.array.dtype is inst.shape.dtype
        and default_layout(inst, operand)
        and _one_operation(inst) is not None
    )


def _apply_once(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    root = _one_operation(inst)
    assert root is not None
    start = _spread_init(computation, inst, found)
    value = reshaped(computation, found["x"], inst.array)
    accumulator = inst.called[0].parameters[0]
    operands = [start if operand is accumulator else value for operand in root.operands]
    return like(computation, root, *operands, shape=inst.shape)


def _spread_init(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    """Init, in the shape of the result."""
    if not inst.array.dims:
        return found["init"]
    return make(computation, "broadcast", inst.shape, found["init"], dimensions=())


def _reduced(
    computation: Computation, inst: Instruction, found: Found, dims: Iterable[int]
) -> Instruction:
    """Reduce x over `dims` in one go."""
    attributes = type(inst.attributes)(dimensions=tuple(sorted(dims)))
    operands = (found["x"], found["init"])
    return computation.add(inst.opcode, inst.shape, operands, attributes, inst.called)


def _keeps_order(inst: Instruction, found: Found) -> bool:
    """The kept dimensions are in the same order before the transpose."""
    permutation, reduced = found["y"].attributes.dimensions, inst.attributes.dimensions
    kept = [source for dim, source in enumerate(permutation) if dim not in reduced]
    return kept == sorted(kept) and isinstance(inst.shape, ArrayShape)


def _before_transpose(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    permutation = found["y"].attributes.dimensions
    dims = (permutation[dim] for dim in inst.attributes.dimensions)
    return _reduced(computation, inst, found, dims)


def _merges_exactly(inst: Instruction, found: Found) -> bool:
    """Same reducer with a neutral init; sums of floats keep their order."""
    inner = found["y"]
    kind = recognised_reducer(inst.called[0])
    if not kind or kind == "second" or recognised_reducer(inner.called[0]) != kind:
        return False
    if is_float(inst) and kind not in ("maximum", "minimum"):
        return False
    outer_init, inner_init = splat_value(found["init"]), splat_value(inner.operands[1])
    if outer_init is None or inner_init is None or outer_init.tobytes() != inner_init.tobytes():
        return False
    if opcode_row(kind).idempotent:
        return True  # applying the init twice is applying it once
    return is_integer_or_pred(inst) and int(outer_init) == (1 if kind == "multiply" else 0)


def _merge_reduces(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    first = found["y"].attributes.dimensions
    kept = [dim for dim in range(found["x"].array.rank) if dim not in first]
    dims = (*first, *(kept[dim] for dim in inst.attributes.dimensions))
    return _reduced(computation, inst, found, dims)


# ---------------------------------------------------------------- after a reshape


def _dimensions_before(inst: Instruction, found: Found) -> tuple[int, ...] | None:
    """Return the dimensions to reduce before the reshape, None if it splits or joins kept ones.

    Dimensions form groups with equal numbers of elements on both sides; within a group either all
    dimensions are reduced, or the group is one kept dimension. Those of size 1 are in no group; all
    of them must be reduced.
    """
    before, after = found["x"].array.dims, found["y"].array.dims
    reduced = inst.attributes.dimensions
    if 0 in before or not isinstance(inst.shape, ArrayShape):
        return None
    if any(size == 1 and dim not in reduced for dim, size in enumerate(after)):
        return None
    dims = [dim for dim, size in enumerate(before) if size == 1]
    for source, result in _groups(before, after):
        gone = [dim for dim in result if dim in reduced]
        if len(gone) == len(result):
            dims += source
        elif gone or len(source) != 1 or len(result) != 1:
            return None
    return tuple(sorted(dims))


def _groups(before: Dims, after: Dims) -> list[tuple[list[int], list[int]]]:
    """Return the finest groups of neighbouring dimensions with equal numbers of elements."""
    sources = [dim for dim, size in enumerate(before) if size != 1]
    results = [dim for dim, size in enumerate(after) if size != 1]
    groups: list[tuple[list[int], list[int]]] = []
    while sources:
        source, result = [sources.pop(0)], [results.pop(0)]
        left, right = before[source[0]], after[result[0]]
        while left != right:
            if left < right:
                source.append(sources.pop(0))
                left *= before[source[-1]]
            else:
                result.append(results.pop(0))
                right *= after[result[-1]]
        groups.append((source, result))
    return groups


def _reshape_fits(inst: Instruction, found: Found) -> bool:
    return _dimensions_before(inst, found) is not None


def _before_reshape(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    dims = _dimensions_before(inst, found)
    assert dims is not None
    return _reduced(computation, inst, found, dims)


# ---------------------------------------------------------------- of a broadcast


def _repeats(inst: Instruction, found: Found) -> int:
    """Return how often each element is repeated in the reduced dimensions, 0 if others go."""
    broadcast, reduced = found["y"], inst.attributes.dimensions
    if not isinstance(inst.shape, ArrayShape) or set(reduced) & set(
        broadcast.attributes.dimensions
    ):
        return 0
    return prod(broadcast.array.dims[dim] for dim in reduced)


def _repeats_with(*kinds: str) -> Any:
    def condition(inst: Instruction, found: Found) -> bool:
        return _repeats(inst, found) > 0 and recognised_reducer(inst.called[0]) in kinds

    return condition


def _adds_repeats(test: Callable[[Instruction], bool]) -> Any:
    fits = _repeats_with("add")
    return lambda inst, found: test(inst) and fits(inst, found)


def _shrunk(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    """Return the broadcast without the reduced dimensions."""
    broadcast, reduced = found["y"], inst.attributes.dimensions
    kept = [dim for dim in range(broadcast.array.rank) if dim not in reduced]
    dims = tuple(kept.index(dim) for dim in broadcast.attributes.dimensions)
    if inst.shape == found["x"].shape and dims == tuple(range(len(dims))):
        return found["x"]
    return make(computation, "broadcast", inst.shape, found["x"], dimensions=dims)


def _with_init(
    computation: Computation, inst: Instruction, found: Found, value: Instruction
) -> Instruction:
    init = _spread_init(computation, inst, found)
    return like(computation, inst.called[0].root, init, value, shape=inst.shape)


def _once(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    return _with_init(computation, inst, found, _shrunk(computation, inst, found))


def _times(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    count = splat(computation, inst.array, _repeats(inst, found))
    small = _shrunk(computation, inst, found)
    product = make(computation, "multiply", inst.shape, small, count)
    return _with_init(computation, inst, found, product)


def _static_size(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    (dim,) = inst.attributes.dimensions
    size = found["x"].array.dims[dim]
    return constant(computation, inst.array.dtype.numpy.type(size))


def _is_array(inst: Instruction) -> bool:
    return isinstance(inst.shape, ArrayShape)


REDUCE = (
    Rule(
        "reduce-no-elements",
        P("reduce", (x, init), when=_is_array),
        _spread_init,
        when=_reduces_no_elements,
    ),
    Rule("reduce-one-element", P("reduce", (x, init)), _apply_once, when=_reduces_one_element),
    Rule(
        "reduce-transpose",
        P("reduce", (P("transpose", (x,), bind="y"), init)),
        _before_transpose,
        when=_keeps_order,
    ),
    Rule(
        "reduce-reduce",
        P("reduce", (P("reduce", (x, P()), bind="y", when=has_one_user), init)),
        _merge_reduces,
        when=_merges_exactly,
    ),
    Rule(
        "reduce-reshape",
        P("reduce", (P("reshape", (x,), bind="y"), init)),
        _before_reshape,
        when=_reshape_fits,
    ),
    Rule(
        "reduce-broadcast-bound",
        P("reduce", (P("broadcast", (x,), bind="y"), init)),
        _once,
        when=_repeats_with(*sorted(names_of(lambda row: row.idempotent))),
    ),
    Rule(
        "reduce-broadcast-sum",
        P("reduce", (P("broadcast", (x,), bind="y"), init)),
        _times,
        when=_adds_repeats(is_integer),
    ),
    Rule(
        "reduce-broadcast-float-sum",
        P("reduce", (P("broadcast", (x,), bind="y"), init)),
        _times,
        when=_adds_repeats(is_float),
        exactness="reassociates",
    ),
    Rule("dimension-size", P("get-dimension-size", (x,)), _static_size),
)
