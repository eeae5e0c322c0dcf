"""Laws of slice, pad and concatenate: full slices, nested ones, slices of parts."""

from __future__ import annotations

from itertools import pairwise

from hloc.ir.attributes import PaddingDimension, SliceDimension
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.opt.make import make, splat
from hloc.opt.pattern import Found, P
from hloc.opt.rule import Rule
from hloc.opt.rules.builders import answer, apply, computed, same_shape
from hloc.opt.values import has_one_user, same_operands, splat_value
from hloc.shapes import ArrayShape

x, y = P(bind="x"), P(bind="y")


# ---------------------------------------------------------------- slice


def _merged_slices(inst: Instruction, found: Found) -> tuple[SliceDimension, ...]:
    outer, inner = inst.attributes.slice, found["y"].attributes.slice
    return tuple(map(_merged, outer, inner, inst.array.dims))


def _merged(outer: SliceDimension, inner: SliceDimension, size: int) -> SliceDimension:
    """Return the composition of two slices; an empty one may start past the end of the array."""
    if size == 0:
        return SliceDimension(0, 0)
    start, stride = inner.start + outer.start * inner.stride, outer.stride * inner.stride
    return SliceDimension(start, _limit(start, size, stride), stride)


def _limit(start: int, size: int, stride: int) -> int:
    """Return the smallest limit that gives `size` elements."""
    return start + (size - 1) * stride + 1 if size else start


def _slice_of_broadcast(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    """Slice the operand where the broadcast keeps its dimensions; the others just get smaller."""
    dims, source = found["y"].attributes.dimensions, found["x"]
    parts = tuple(inst.attributes.slice[dim] for dim in dims)
    sizes = tuple(inst.array.dims[dim] for dim in dims)
    if sizes != source.array.dims:
        shape = ArrayShape(source.array.dtype, sizes, source.array.layout)
        source = make(computation, "slice", shape, source, slice=parts)
    return make(computation, "broadcast", inst.shape, source, dimensions=dims)


def _whole_or_one_user(inst: Instruction, found: Found) -> bool:
    """Either the whole operand is kept, or the large broadcast is removed."""
    dims = found["y"].attributes.dimensions
    sizes = tuple(inst.array.dims[dim] for dim in dims)
    return sizes == found["x"].array.dims or len(found["y"].users) == 1


def _concatenated_part(inst: Instruction, concat: Instruction) -> tuple[Instruction, int] | None:
    """Return the single operand of `concat` that the slice reads, and its offset."""
    (dim,) = concat.attributes.dimensions
    part = inst.attributes.slice[dim]
    size = inst.array.dims[dim]
    offset = 0
    for operand in concat.operands:
        end = offset + operand.array.dims[dim]
        if offset <= part.start < end:
            return (operand, offset) if _limit(part.start, size, part.stride) <= end else None
        offset = end
    return None


def _within_one_operand(inst: Instruction, found: Found) -> bool:
    return inst.array.elements > 0 and _concatenated_part(inst, found["y"]) is not None


def _slice_of_operand(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    part = _concatenated_part(inst, found["y"])
    assert part is not None
    operand, offset = part
    (dim,) = found["y"].attributes.dimensions
    if operand.shape == inst.shape:
        return operand
    return make(
        computation,
        "slice",
        inst.shape,
        operand,
        slice=_shifted(inst.attributes.slice, dim, offset, inst.array.dims[dim]),
    )


def _shifted(
    parts: tuple[SliceDimension, ...], dim: int, offset: int, size: int
) -> tuple[SliceDimension, ...]:
    """Shift the range of `dim`; its limit is tightened, since it may be out of bounds."""
    part, start = parts[dim], parts[dim].start - offset
    moved = SliceDimension(start, _limit(start, size, part.stride), part.stride)
    return (*parts[:dim], moved, *parts[dim + 1 :])


def _within_operand_of_pad(inst: Instruction, found: Found) -> bool:
    """The slice reads no padding, and there is no interior padding."""
    source = found["x"].array.dims
    return inst.array.elements > 0 and all(
        not padding.interior
        and part.start >= padding.low
        and _limit(part.start, size, part.stride) <= padding.low + source[dim]
        for dim, (part, padding, size) in enumerate(
            zip(inst.attributes.slice, found["y"].attributes.padding, inst.array.dims, strict=True)
        )
    )


def _slice_before_pad(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    parts = inst.attributes.slice
    for dim, padding in enumerate(found["y"].attributes.padding):
        parts = _shifted(parts, dim, padding.low, inst.array.dims[dim])
    if found["x"].shape == inst.shape:
        return found["x"]
    return make(computation, "slice", inst.shape, found["x"], slice=parts)


def _slice_before_reverse(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    """Slice first, then reverse the remaining elements."""
    dims, source = found["y"].attributes.dimensions, found["x"]
    parts = tuple(
        _mirrored(part, whole, size) if dim in dims else part
        for dim, (part, whole, size) in enumerate(
            zip(inst.attributes.slice, source.array.dims, inst.array.dims, strict=True)
        )
    )
    cut = make(computation, "slice", inst.shape, source, slice=parts)
    return make(computation, "reverse", inst.shape, cut, dimensions=dims)


def _mirrored(part: SliceDimension, whole: int, size: int) -> SliceDimension:
    if size == 0:
        return SliceDimension(0, 0)
    last = part.start + (size - 1) * part.stride
    return SliceDimension(whole - 1 - last, whole - part.start, part.stride)


def _one_user(_inst: Instruction, found: Found) -> bool:
    return has_one_user(found["y"])


# ---------------------------------------------------------------- pad


def _pads_nothing(inst: Instruction, found: Found) -> bool:
    return inst.shape == found["x"].shape and all(
        not (p.low or p.high) and (not p.interior or size <= 1)
        for p, size in zip(inst.attributes.padding, inst.array.dims, strict=True)
    )


def _pads_with_same(inst: Instruction, found: Found) -> bool:
    value, padding = splat_value(found["x"]), splat_value(found["y"])
    return value is not None and padding is not None and value.tobytes() == padding.tobytes()


def _only_cuts(inst: Instruction, _found: Found) -> bool:
    return all(not p.interior and p.low <= 0 and p.high <= 0 for p in inst.attributes.padding)


def _what_is_left(inst: Instruction, found: Found) -> tuple[SliceDimension, ...]:
    return tuple(
        SliceDimension(-p.low, size + p.high)
        for p, size in zip(inst.attributes.padding, found["x"].array.dims, strict=True)
    )


def _pads_alike(inst: Instruction, found: Found) -> bool:
    """Both pads have the same value, and neither negative nor interior padding."""
    inner = found["y"]
    return same_operands(inst.operands[1], inner.operands[1]) and all(
        not p.interior and p.low >= 0 and p.high >= 0
        for p in (*inst.attributes.padding, *inner.attributes.padding)
    )


def _merge_pads(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    padding = tuple(
        PaddingDimension(a.low + b.low, a.high + b.high)
        for a, b in zip(inst.attributes.padding, found["y"].attributes.padding, strict=True)
    )
    return make(computation, "pad", inst.shape, found["x"], inst.operands[1], padding=padding)


# ---------------------------------------------------------------- concatenate


def _has_empty_operand(inst: Instruction, _found: Found) -> bool:
    filled = [o for o in inst.operands if o.array.elements]
    return 0 < len(filled) < len(inst.operands)


def _without_empty(computation: Computation, inst: Instruction, _found: Found) -> Instruction:
    filled = [o for o in inst.operands if o.array.elements]
    return make(
        computation, "concatenate", inst.shape, *filled, dimensions=inst.attributes.dimensions
    )


def _is_nested(inst: Instruction, operand: Instruction) -> bool:
    return (
        operand.opcode is inst.opcode
        and operand.attributes == inst.attributes
        and has_one_user(operand)
    )


def _has_nested(inst: Instruction, _found: Found) -> bool:
    return any(_is_nested(inst, operand) for operand in inst.operands)


def _flattened(computation: Computation, inst: Instruction, _found: Found) -> Instruction:
    operands: list[Instruction] = []
    for operand in inst.operands:
        operands += operand.operands if _is_nested(inst, operand) else (operand,)
    return make(
        computation, "concatenate", inst.shape, *operands, dimensions=inst.attributes.dimensions
    )


def _joined(inst: Instruction, left: Instruction, right: Instruction) -> bool:
    """True if `left` and `right` are neighbouring slices of one array along the dimension."""
    if not left.opcode.name == right.opcode.name == "slice" or left.operands != right.operands:
        return False
    (dim,) = inst.attributes.dimensions
    pairs = enumerate(zip(left.attributes.slice, right.attributes.slice, strict=True))
    return all(
        (a.limit == b.start and a.stride == b.stride == 1) if d == dim else a == b
        for d, (a, b) in pairs
    )


def _all_joined(inst: Instruction, _found: Found) -> bool:
    operands = inst.operands
    return len(operands) > 1 and all(_joined(inst, a, b) for a, b in pairwise(operands))


def _one_slice(computation: Computation, inst: Instruction, _found: Found) -> Instruction:
    first, last = inst.operands[0], inst.operands[-1]
    (dim,) = inst.attributes.dimensions
    parts = list(first.attributes.slice)
    parts[dim] = SliceDimension(parts[dim].start, last.attributes.slice[dim].limit)
    return make(computation, "slice", inst.shape, first.operands[0], slice=tuple(parts))


def _all_one_splat(inst: Instruction, _found: Found) -> bool:
    values = [splat_value(o) for o in inst.operands]
    return values[0] is not None and all(
        v is not None and v.tobytes() == values[0].tobytes() for v in values
    )


def _one_splat(computation: Computation, inst: Instruction, _found: Found) -> Instruction:
    return splat(computation, inst.array, splat_value(inst.operands[0]))


SLICE_PAD_CONCAT = (
    Rule("slice-everything", P("slice", (x,)), answer("x"), when=same_shape),
    Rule(
        "slice-slice",
        P("slice", (P("slice", (x,), bind="y"),)),
        apply("slice", "x", slice=_merged_slices),
    ),
    Rule(
        "slice-broadcast",
        P("slice", (P("broadcast", (x,), bind="y"),)),
        _slice_of_broadcast,
        when=_whole_or_one_user,
    ),
    Rule(
        "slice-concatenate",
        P("slice", (P("concatenate", bind="y"),)),
        _slice_of_operand,
        when=_within_one_operand,
    ),
    Rule(
        "slice-pad",
        P("slice", (P("pad", (x, P()), bind="y"),)),
        _slice_before_pad,
        when=_within_operand_of_pad,
    ),
    Rule(
        "slice-reverse",
        P("slice", (P("reverse", (x,), bind="y"),)),
        _slice_before_reverse,
        when=_one_user,
    ),
    Rule("pad-nothing", P("pad", (x, P())), answer("x"), when=_pads_nothing),
    Rule("pad-with-same", P("pad", (x, y)), computed("y", lambda y: y, "y"), when=_pads_with_same),
    Rule(
        "pad-as-slice",
        P("pad", (x, P())),
        apply("slice", "x", slice=_what_is_left),
        when=_only_cuts,
    ),
    Rule(
        "pad-pad",
        P("pad", (P("pad", (x, P()), bind="y", when=has_one_user), P())),
        _merge_pads,
        when=_pads_alike,
    ),
    Rule("concatenate-one", P("concatenate", (x,)), answer("x")),
    Rule("concatenate-empty", P("concatenate"), _without_empty, when=_has_empty_operand),
    Rule("concatenate-nested", P("concatenate"), _flattened, when=_has_nested),
    Rule("concatenate-slices", P("concatenate"), _one_slice, when=_all_joined),
    Rule("concatenate-splats", P("concatenate"), _one_splat, when=_all_one_splat),
)
