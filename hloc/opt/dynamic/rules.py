"""Dynamic dimensions per opcode: sizes of the result, and masks.

A rule resolves one instruction whose operands are resolved. Source of semantics: XLA's
dynamic dimension inference and dynamic padder, checked by experiment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from hloc.errors import printable
from hloc.ir.instruction import Instruction
from hloc.ops.custom_calls.custom_call_targets import is_call_of, target_of
from hloc.opt.dynamic.movement import (
    broadcast,
    dynamic_slice,
    dynamic_update_slice,
    gather,
    pad,
    scatter,
    slice_,
    transpose,
)
from hloc.opt.dynamic.reorder import concatenate, reverse, sort
from hloc.opt.dynamic.reshape import dynamic_reshape, reshape
from hloc.opt.dynamic.scope import Scope, refuse, same_size
from hloc.opt.dynamic.sums import convolution, dot, reduce, reduce_window, sizes_of_any
from hloc.shapes import TupleShape

Rule: TypeAlias = Callable[[Scope, Instruction], None]


def rule_for(inst: Instruction) -> Rule:
    """Return the rule of an opcode; opcodes without one are refused if a size is dynamic."""
    if inst.opcode.name in _RULES:
        return _RULES[inst.opcode.name]
    return _elementwise if inst.opcode.elementwise or inst.is_a("map") else _batch_only


# ---------------------------------------------------------------- element by element


def _elementwise(scope: Scope, inst: Instruction) -> None:
    """Give each dimension the size that its operands have there.

    Where two operands may differ, an operand of size 1 at run time is repeated to the other's
    size, as XLA does for implicit broadcasts of dynamic dimensions.
    """
    rank = inst.array.rank
    operands = list(inst.operands)
    sizes: dict[int, Instruction] = {}
    for dim in range(rank):
        given = {
            i: scope.sizes(operand)[dim]
            for i, operand in enumerate(operands)
            if operand.array.rank == rank and dim in scope.sizes(operand)
        }
        if not given:
            continue
        sizes[dim], *others = given.values()
        if not all(same_size(sizes[dim], other) for other in others):
            for i, size in given.items():
                operands[i] = _repeated(scope, operands[i], dim, size)
                sizes[dim] = _common(scope, sizes[dim], size)
    scope.computation.set_operands(inst, operands)
    scope.make_static(inst, sizes)


def _common(scope: Scope, x: Instruction, y: Instruction) -> Instruction:
    """Return the size of the result of operands of sizes `x` and `y`; size 1 fits any."""
    if same_size(x, y):
        return x
    b, one = scope.b, scope.number(1)
    smaller = b.select(b.compare(y, one, "EQ"), x, b.minimum(x, y))
    return b.select(b.compare(x, one, "EQ"), y, smaller)


def _repeated(scope: Scope, inst: Instruction, dim: int, size: Instruction) -> Instruction:
    """Return `inst` with its first element along `dim` everywhere if `size` is 1."""
    b, dims = scope.b, inst.array.dims
    limits = [1 if d == dim else n for d, n in enumerate(dims)]
    first = b.reshape(
        b.slice(inst, [0] * len(dims), limits), [n for d, n in enumerate(dims) if d != dim]
    )
    wide = b.broadcast(first, dims, [d for d in range(len(dims)) if d != dim])
    alone = b.broadcast(b.compare(size, scope.number(1), "EQ"), dims)
    repeated = b.select(alone, wide, inst)
    scope.leaves[repeated] = scope.leaves.get(inst, {})
    return repeated


def _like_operand(scope: Scope, inst: Instruction) -> None:
    """Give the result the sizes of operand 0, leaf by leaf."""
    scope.make_leaves_static(inst, dict(scope.leaves.get(inst.operands[0], {})))


def _like_operands(scope: Scope, inst: Instruction) -> None:
    """Resolve a result that is operand 0, or a tuple of all operands."""
    if len(inst.operands) == 1 and not isinstance(inst.shape, TupleShape):
        return _like_operand(scope, inst)
    found = {
        (i, *index): sizes
        for i, operand in enumerate(inst.operands)
        for index, sizes in scope.leaves.get(operand, {}).items()
    }
    return scope.make_leaves_static(inst, found)


def _get_tuple_element(scope: Scope, inst: Instruction) -> None:
    index = inst.attributes.index
    found = scope.leaves.get(inst.operands[0], {})
    scope.make_leaves_static(
        inst, {key[1:]: sizes for key, sizes in found.items() if key[0] == index}
    )


# ---------------------------------------------------------------- sizes as values


def _get_dimension_size(scope: Scope, inst: Instruction) -> None:
    (dim,) = inst.attributes.dimensions
    scope.become(inst, scope.size(inst.operands[0], dim))


def _set_dimension_size(scope: Scope, inst: Instruction) -> None:
    operand, size = inst.operands
    (dim,) = inst.attributes.dimensions
    sizes = {d: s for d, s in scope.sizes(operand).items() if d != dim}
    if not same_size(size, scope.number(operand.array.dims[dim])):
        sizes[dim] = _clamped(scope, size, operand.array.dims[dim])
    scope.become(inst, scope.b.copy(operand), sizes)


def _clamped(scope: Scope, size: Instruction, bound: int) -> Instruction:
    """Return `size` clamped to its bound."""
    if size.is_a("constant") and 0 <= int(size.attributes.literal.array) <= bound:
        return size
    return scope.b.clamp(scope.number(0), size, scope.number(bound))


def _custom_call(scope: Scope, inst: Instruction) -> None:
    """Resolve the custom calls that convert between static and dynamic shapes; refuse unknown ones.

    `SliceToDynamic(array, sizes...)` is the array with these sizes; `PadToStatic(array)` is a
    tuple of the array with zeros outside, and its sizes. Targets that return an operand keep its
    sizes.
    """
    target = inst.attributes.custom_call_target
    if target in ("SliceToDynamic", "PadToStatic") and not is_call_of(inst, target):
        refuse(inst, f'custom-call target "{printable(target)}" is not known with these shapes')
    if target == "SliceToDynamic":
        array, *given = inst.operands
        sizes = {
            dim: _clamped(scope, size, array.array.dims[dim])
            for dim, size in enumerate(given)
            if not same_size(size, scope.number(array.array.dims[dim]))
        }
        scope.become(inst, scope.b.copy(array), sizes)
    elif target == "PadToStatic" and not inst.operands[0].is_a("parameter"):
        (array,) = inst.operands
        parts = [scope.size(array, dim) for dim in range(array.array.rank)]
        padded = scope.masked(array, scope.zero(array), list(range(array.array.rank)))
        scope.become(inst, scope.b.tuple([padded, *parts]))
    elif any(scope.is_dynamic(operand) for operand in inst.operands):
        known = target_of(inst)
        if known is None or not known.is_identity:
            refuse(inst, f'custom-call target "{printable(target)}" has no rule for them')
        _like_operands(scope, inst)


def _batch_only(scope: Scope, inst: Instruction) -> None:
    """Resolve opcodes with leading batch dimensions: only these may be dynamic."""
    used = _USED_DIMS.get(inst.opcode.name)
    sizes = sizes_of_any(scope, inst.operands)
    if not sizes:
        for operand in inst.operands:
            if scope.is_dynamic(operand):
                refuse(inst, "the opcode has no rule for them")
        scope.make_leaves_static(inst, {})
        return
    rank = inst.operands[0].array.rank
    first = rank if used is None else rank - used(inst)
    if used is None or any(dim >= first for dim in sizes):
        refuse(inst, "the opcode has no rule for them")
    scope.make_all_static(inst, sizes)


_USED_DIMS: dict[str, Callable[[Instruction], int]] = {
    "fft": lambda inst: len(inst.attributes.fft_length),
    "cholesky": lambda inst: 2,
    "triangular-solve": lambda inst: 2,
    "topk": lambda inst: 1,
}

_RULES: dict[str, Rule] = {
    "copy": _like_operand,
    "opt-barrier": _like_operand,
    "add-dependency": _like_operand,
    "domain": _like_operand,
    "all-reduce": _like_operands,
    "tuple": _like_operands,
    "get-tuple-element": _get_tuple_element,
    "get-dimension-size": _get_dimension_size,
    "set-dimension-size": _set_dimension_size,
    "custom-call": _custom_call,
    "broadcast": broadcast,
    "transpose": transpose,
    "reshape": reshape,
    "dynamic-reshape": dynamic_reshape,
    "slice": slice_,
    "dynamic-slice": dynamic_slice,
    "dynamic-update-slice": dynamic_update_slice,
    "pad": pad,
    "concatenate": concatenate,
    "reverse": reverse,
    "sort": sort,
    "gather": gather,
    "scatter": scatter,
    "reduce": reduce,
    "reduce-window": reduce_window,
    "dot": dot,
    "convolution": convolution,
}
