"""Laws of dynamic-slice and dynamic-update-slice: whole arrays, constant starts, nesting."""

from __future__ import annotations

from typing import Any

from hloc.ir.attributes import PaddingDimension, SliceDimension
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.opt.make import constant, make, reshaped, splat
from hloc.opt.pattern import Found, P
from hloc.opt.rule import Rule
from hloc.opt.rules.builders import answer, apply
from hloc.opt.values import (
    default_layout,
    has_one_user,
    is_integer,
    is_negative_zero,
    is_splat,
    is_zero,
    splat_value,
)
from hloc.shapes import ArrayShape

x = P(bind="x")

_IN_REGISTERS = 16
"""Most elements of an array that a loop of small arrays keeps in registers."""


def _takes_everything(inst: Instruction, _found: Found) -> bool:
    return inst.shape == inst.operands[0].shape


def _writes_everything(inst: Instruction, _found: Found) -> bool:
    return inst.shape == inst.operands[1].shape


def _indices(inst: Instruction) -> tuple[Instruction, ...] | None:
    """Return one index per dimension, None for the older form with a vector of starts."""
    indices = inst.operands[1 if inst.opcode.name == "dynamic-slice" else 2 :]
    scalars = all(index.array.is_scalar for index in indices)
    return indices if scalars and len(indices) == inst.operands[0].array.rank else None


def _sizes(inst: Instruction) -> tuple[int, ...]:
    """Return the sizes of the slice that is read or written."""
    part = inst if inst.opcode.name == "dynamic-slice" else inst.operands[1]
    return part.array.dims


def _starts(inst: Instruction) -> tuple[int, ...] | None:
    """Return the clamped start of each dimension, if all are constants."""
    indices = _indices(inst)
    if indices is None:
        return None
    starts: list[int] = []
    source = inst.operands[0].array.dims
    for index, whole, size in zip(indices, source, _sizes(inst), strict=True):
        value = splat_value(index)
        if whole == size:
            starts.append(0)
        elif value is None:
            return None
        else:
            starts.append(min(max(int(value), 0), whole - size))
    return tuple(starts)


def _known_starts(inst: Instruction, _found: Found) -> bool:
    return _starts(inst) is not None


def _static_slice(inst: Instruction, _found: Found) -> tuple[SliceDimension, ...]:
    starts = _starts(inst)
    assert starts is not None
    return tuple(
        SliceDimension(start, start + size)
        for start, size in zip(starts, inst.array.dims, strict=True)
    )


def _writes_nothing(inst: Instruction, _found: Found) -> bool:
    return inst.operands[1].array.elements == 0


# ---------------------------------------------------------------- dimensions taken whole


def _free_indices(inst: Instruction) -> tuple[int, ...]:
    """Return the full dimensions with a start other than 0."""
    indices = _indices(inst)
    if indices is None:
        return ()
    whole = zip(indices, inst.operands[0].array.dims, _sizes(inst), strict=True)
    return tuple(
        dim for dim, (index, size, part) in enumerate(whole) if size == part and not is_zero(index)
    )


def _has_free_index(inst: Instruction, _found: Found) -> bool:
    return bool(_free_indices(inst))


def _with_zeros(computation: Computation, inst: Instruction, _found: Found) -> Instruction:
    """A slice as large as the dimension can only start at 0."""
    first = 1 if inst.opcode.name == "dynamic-slice" else 2
    operands = list(inst.operands)
    for dim in _free_indices(inst):
        dtype = operands[first + dim].array.dtype
        operands[first + dim] = constant(computation, dtype.numpy.type(0))
    return computation.add(inst.opcode, inst.shape, operands, inst.attributes, common=inst.common)


# ---------------------------------------------------------------- one inside the other


def _scalar_indices(_inst: Instruction, found: Found) -> bool:
    inner, outer = _indices(found["y"]), _indices(_inst)
    if inner is None or outer is None:
        return False
    kinds = {index.array.dtype for index in (*inner, *outer)}
    return len(kinds) == 1 and next(iter(kinds)).bits >= 32


def _added_starts(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    """Clamp each start as before; the sum needs no further clamping."""
    inner = found["y"]
    starts: list[Instruction] = []
    outer_indices, inner_indices = _indices(inst), _indices(inner)
    assert outer_indices is not None
    assert inner_indices is not None
    for dim in range(inst.array.rank):
        middle = inner.array.dims[dim]
        first = _clamped(computation, inner_indices[dim], found["x"].array.dims[dim] - middle)
        second = _clamped(computation, outer_indices[dim], middle - inst.array.dims[dim])
        starts.append(make(computation, "add", first.shape, first, second))
    return make(
        computation,
        "dynamic-slice",
        inst.shape,
        found["x"],
        *starts,
        dynamic_slice_sizes=inst.array.dims,
    )


def _clamped(computation: Computation, index: Instruction, highest: int) -> Instruction:
    low, high = (splat(computation, index.array, value) for value in (0, highest))
    return make(computation, "clamp", index.shape, low, index, high)


def _same_place(inst: Instruction, found: Found) -> bool:
    inner = found["y"]
    return (
        inst.operands[1].array.dims == inner.operands[1].array.dims
        and inst.operands[2:] == inner.operands[2:]
    )


def _without_inner(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    operands = (found["y"].operands[0], *inst.operands[1:])
    return computation.add(inst.opcode, inst.shape, operands, inst.attributes, common=inst.common)


def _reads_update(inst: Instruction, found: Found) -> bool:
    update = found["y"]
    return inst.shape == update.operands[1].shape and inst.operands[1:] == update.operands[2:]


def _update(_computation: Computation, _inst: Instruction, found: Found) -> Instruction:
    update: Instruction = found["y"].operands[1]
    return update


# ---------------------------------------------------------------- known contents


def _counts_up(inst: Instruction, found: Found) -> bool:
    """One element of an iota of integers whose values equal its indices."""
    iota = found["y"]
    (dim,) = (iota.attributes.iota_dimension,)
    indices = _indices(inst)
    return (
        indices is not None
        and is_integer(inst)
        and inst.array.elements == 1
        and indices[dim].array.dtype.bits >= 32
        and iota.array.dims[dim] <= 2 ** (inst.array.dtype.bits - inst.array.dtype.is_signed)
    )


def _clamped_index(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    iota = found["y"]
    dim = iota.attributes.iota_dimension
    indices = _indices(inst)
    assert indices is not None
    start = _clamped(computation, indices[dim], iota.array.dims[dim] - 1)
    if start.array.dtype is not inst.array.dtype:
        start = make(computation, "convert", ArrayShape(inst.array.dtype), start)
    return reshaped(computation, start, inst.array)


def _pads_splat(inst: Instruction, _found: Found) -> bool:
    return _starts(inst) is not None and is_splat(inst.operands[0])


def _as_pad(computation: Computation, inst: Instruction, _found: Found) -> Instruction:
    starts = _starts(inst)
    assert starts is not None
    target, update = inst.operands[:2]
    padding = tuple(
        PaddingDimension(start, whole - start - size)
        for start, whole, size in zip(starts, target.array.dims, update.array.dims, strict=True)
    )
    value = constant(computation, splat_value(target))
    return make(computation, "pad", inst.shape, update, value, padding=padding)


# ---------------------------------------------------------------- small arrays


def _partial_dimensions(inst: Instruction) -> list[int]:
    sizes = zip(inst.array.dims, _sizes(inst), strict=True)
    return [dim for dim, (whole, size) in enumerate(sizes) if whole != size]


def _is_small(inst: Instruction, _found: Found) -> bool:
    return (
        inst.array.elements <= _IN_REGISTERS
        and inst.operands[1].array.elements > 0
        and default_layout(inst, *inst.operands[:2])
        and len(_partial_dimensions(inst)) == 1
        and _starts(inst) is not None
    )


def _as_concatenate(computation: Computation, inst: Instruction, _found: Found) -> Instruction:
    """A partial store stalls the next load of the whole array; elements in registers do not."""
    starts = _starts(inst)
    assert starts is not None
    (dim,) = _partial_dimensions(inst)
    target, update = inst.operands[:2]
    start, end = starts[dim], starts[dim] + update.array.dims[dim]
    before = _cut(computation, target, dim, 0, start)
    after = _cut(computation, target, dim, end, target.array.dims[dim])
    return make(computation, "concatenate", inst.shape, *before, update, *after, dimensions=(dim,))


def _cut(
    computation: Computation, array: Instruction, dim: int, start: int, end: int
) -> list[Instruction]:
    """Return `array` from `start` to `end` along `dim`, nothing if there is nothing."""
    if start == end:
        return []
    dims = array.array.dims
    parts = [SliceDimension(0, size) for size in dims]
    parts[dim] = SliceDimension(start, end)
    shape = ArrayShape(array.array.dtype, (*dims[:dim], end - start, *dims[dim + 1 :]))
    return [make(computation, "slice", shape, array, slice=tuple(parts))]


# ---------------------------------------------------------------- updates of part of an array

_zeros_updated = P("dynamic-update-slice", bind="y", when=has_one_user)


def _zeros_exact(inst: Instruction, found: Found) -> bool:
    """X + 0 is x outside the updated part; for floats the zero must be -0."""
    base = found["y"].operands[0]
    zero = is_zero(base) if is_integer(inst) else is_negative_zero(base)
    return zero and _indices(found["y"]) is not None and default_layout(inst, found["x"])


def _zeros(inst: Instruction, found: Found) -> bool:
    plain = default_layout(inst, found["x"])
    return is_zero(found["y"].operands[0]) and _indices(found["y"]) is not None and plain


def _part(computation: Computation, update: Instruction, of: Instruction) -> Instruction:
    """Return the part of `of` that `update` writes."""
    shape = ArrayShape(of.array.dtype, update.operands[1].array.dims)
    sizes = shape.dims
    starts = update.operands[2:]
    return make(computation, "dynamic-slice", shape, of, *starts, dynamic_slice_sizes=sizes)


def _add_to_part(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    update, target = found["y"], found["x"]
    part = _part(computation, update, target)
    total = make(computation, "add", part.shape, part, update.operands[1])
    return make(
        computation, "dynamic-update-slice", inst.shape, target, total, *update.operands[2:]
    )


def _one_condition(inst: Instruction, found: Found) -> bool:
    """The condition is a scalar or a broadcast of one."""
    p = found["p"]
    scalar = p.array.is_scalar or (p.opcode.name == "broadcast" and not p.attributes.dimensions)
    indices = _indices(found["y"])
    plain = default_layout(inst, found["x"], found["y"].operands[1])
    return scalar and indices is not None and plain and found["y"].operands[0] is found["x"]


def _select_part(flipped: bool) -> Any:
    def build(computation: Computation, inst: Instruction, found: Found) -> Instruction:
        p, update, target = found["p"], found["y"], found["x"]
        part = _part(computation, update, target)
        if not p.array.is_scalar:
            p = p.operands[0]
        branches = (update.operands[1], part) if flipped else (part, update.operands[1])
        if part.array.dims:
            shape = ArrayShape(p.array.dtype, part.array.dims)
            p = make(computation, "broadcast", shape, p, dimensions=())
        chosen = make(computation, "select", part.shape, p, *branches)
        return make(
            computation, "dynamic-update-slice", inst.shape, target, chosen, *update.operands[2:]
        )

    return build


_inner: dict[str, Any] = {"bind": "y", "when": has_one_user}

DYNAMIC = (
    Rule(
        "dynamic-slice-everything",
        P("dynamic-slice", (x,), more=True),
        answer("x"),
        when=_takes_everything,
    ),
    Rule(
        "dynamic-slice-iota",
        P("dynamic-slice", (P("iota", bind="y"),), more=True),
        _clamped_index,
        when=_counts_up,
    ),
    Rule(
        "dynamic-slice-constant",
        P("dynamic-slice", (x,), more=True),
        apply("slice", "x", slice=_static_slice),
        when=_known_starts,
    ),
    Rule(
        "dynamic-update-slice-everything",
        P("dynamic-update-slice", (P(), x), more=True),
        answer("x"),
        when=_writes_everything,
    ),
    Rule(
        "dynamic-update-slice-nothing",
        P("dynamic-update-slice", (x,), more=True),
        answer("x"),
        when=_writes_nothing,
    ),
    Rule(
        "index-of-whole-dimension",
        P(("dynamic-slice", "dynamic-update-slice")),
        _with_zeros,
        when=_has_free_index,
    ),
    Rule(
        "dynamic-slice-dynamic-slice",
        P(
            "dynamic-slice",
            (P("dynamic-slice", (x,), bind="y", when=has_one_user, more=True),),
            more=True,
        ),
        _added_starts,
        when=_scalar_indices,
    ),
    Rule(
        "dynamic-slice-of-update",
        P("dynamic-slice", (P("dynamic-update-slice", bind="y"),), more=True),
        _update,
        when=_reads_update,
    ),
    Rule(
        "dynamic-update-slice-twice",
        P(
            "dynamic-update-slice",
            (P("dynamic-update-slice", bind="y", when=has_one_user),),
            more=True,
        ),
        _without_inner,
        when=_same_place,
    ),
    Rule("dynamic-update-slice-as-pad", P("dynamic-update-slice"), _as_pad, when=_pads_splat),
    Rule(
        "dynamic-update-slice-as-concatenate",
        P("dynamic-update-slice"),
        _as_concatenate,
        when=_is_small,
    ),
    Rule("add-updated-zeros", P("add", (x, _zeros_updated)), _add_to_part, when=_zeros_exact),
    Rule(
        "add-updated-float-zeros",
        P("add", (x, _zeros_updated)),
        _add_to_part,
        when=_zeros,
        exactness="ignores-zero-sign",
    ),
    Rule(
        "select-update",  # select(p, x, x with an update)
        P("select", (P(bind="p"), x, _zeros_updated)),
        _select_part(flipped=False),
        when=_one_condition,
    ),
    Rule(
        "select-update-first",
        P("select", (P(bind="p"), _zeros_updated, x)),
        _select_part(flipped=True),
        when=_one_condition,
    ),
)
