"""Make bounded dynamic dimensions static: arrays at their bound, sizes as `s32[]` values.

The rules per opcode are in `opt/dynamic/`; this file has the walk and the boundaries: loops and
branches carry sizes with their values, the entry converts with the custom calls `PadToStatic` and
`SliceToDynamic`, as in XLA.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from hloc.analysis.call_graph import control_flow_computations, has_opcode
from hloc.dtypes import S32
from hloc.errors import HloError
from hloc.ir.clone import inline
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order
from hloc.ops.custom_calls.custom_call_targets import is_call_of
from hloc.opt.calls.call_inliner import CallInliner
from hloc.opt.calls.flatten_call_graph import FlattenCallGraph
from hloc.opt.dce import DeadCodeElimination
from hloc.opt.dynamic.rules import rule_for
from hloc.opt.dynamic.scope import Scope, has_dynamic, static
from hloc.opt.make import make
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.shapes import ArrayShape, Shape, ShapeIndex, TupleShape, leaves

MAX_NESTING = 100
"""Deepest nesting of loops and branches around dynamic sizes."""

_SIZES_ARE_VALUES = ("set-dimension-size", "dynamic-reshape", "get-dimension-size")

Place: TypeAlias = tuple[ShapeIndex, int]
"""A dimension of a leaf."""


class DynamicPadder(RewritingPass):
    """Make every shape static except those of entry parameters and results.

    Inlines fusions and calls first; a module without dynamic shapes is left alone. Cost:
    O(instructions made).
    """

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Make the entry static; raises `UnsupportedError` for an opcode without a rule."""
        if context.spent or not module.derived(_is_dynamic):
            return
        DeadCodeElimination().run(module, context)
        CallInliner().run(module, context)
        FlattenCallGraph().run(module, context)
        if not context.spent and module.derived(_is_dynamic):
            with context.rewriting(module, self.name):
                for computation in control_flow_computations(module):
                    _inline_fusions(computation)
                scope = Scope(module.entry)
                order = [i for i in post_order(module.entry) if not _is_taken(i)]
                _take_parameters(scope)
                _resolve_in_order(scope, order, 0)
                _give_results(scope)
                DeadCodeElimination().run(module, context)


def _is_dynamic(module: Module) -> bool:
    has_values = has_opcode(module, *_SIZES_ARE_VALUES)
    for computation in control_flow_computations(module):
        for inst in computation.instructions:
            if has_values and inst.is_a(*_SIZES_ARE_VALUES):
                return True
            shape = inst.shape
            if isinstance(shape, ArrayShape) and not shape.dynamic:
                continue  # most instructions
            if has_dynamic(shape) and not _is_boundary(inst):
                return True
    return False


def _is_boundary(inst: Instruction) -> bool:
    """True for the dynamic shapes that the pass does not change."""
    return (
        _is_taken(inst)
        or is_call_of(inst, "SliceToDynamic")
        or (inst.is_a("tuple") and inst.is_root)
    )


def _is_taken(inst: Instruction) -> bool:
    """True for a part of an entry parameter whose dynamic leaves only `PadToStatic` reads."""
    if not inst.is_a("parameter", "get-tuple-element") or not has_dynamic(inst.shape):
        return False
    return bool(inst.users) and all(
        is_call_of(user, "PadToStatic")
        or _is_taken(user)
        or (user.is_a("get-tuple-element") and not has_dynamic(user.shape))
        for user in inst.users
    )


def _inline_fusions(computation: Computation) -> None:
    for inst in computation.instructions:
        if inst.is_a("fusion"):
            inline(inst)


# ---------------------------------------------------------------- the walk


def _resolve_computation(scope: Scope, depth: int) -> None:
    """Resolve every instruction of a computation that a loop or branch runs."""
    _resolve_in_order(scope, post_order(scope.computation), depth)


def _resolve_in_order(scope: Scope, order: Sequence[Instruction], depth: int) -> None:
    """Resolve the instructions in `order`, operands first."""
    for inst in order:
        if inst.is_a("while") and _touches(scope, inst):
            _resolve_while(scope, inst, depth)
        elif inst.is_a("conditional") and _touches(scope, inst):
            _resolve_conditional(scope, inst, depth)
        elif inst.opcode.control_flow and not inst.is_a("call"):
            _resolve_called(inst, depth)
        elif inst.is_a("parameter"):
            continue
        elif inst.is_a("constant", "iota", "rng"):
            scope.make_static(inst)
        elif _concerns_sizes(scope, inst):
            rule_for(inst)(scope, inst)


def _concerns_sizes(scope: Scope, inst: Instruction) -> bool:
    return (
        inst.is_a(*_SIZES_ARE_VALUES)
        or has_dynamic(inst.shape)
        or _has_dynamic_operand(scope, inst)
    )


def _has_dynamic_operand(scope: Scope, inst: Instruction) -> bool:
    return any(scope.is_dynamic(operand) for operand in inst.operands)


def _touches(scope: Scope, inst: Instruction) -> bool:
    """True if a dynamic size enters or leaves a loop or conditional."""
    shapes = [inst.shape]
    for computation in inst.called:
        shapes += [computation.root.shape, *(p.shape for p in computation.parameters)]
    return _has_dynamic_operand(scope, inst) or any(has_dynamic(shape) for shape in shapes)


def _resolve_called(inst: Instruction, depth: int) -> None:
    _check_depth(inst, depth)
    for computation in inst.called:
        _resolve_computation(Scope(computation), depth + 1)


def _check_depth(inst: Instruction, depth: int) -> None:
    if depth >= MAX_NESTING:
        raise HloError(f"dynamic sizes are nested more than {MAX_NESTING} deep", inst.span)


def _resolve_while(scope: Scope, inst: Instruction, depth: int) -> None:
    """Replace a loop by one whose state also holds the size of each dynamic dimension.

    A dimension is one of these if it is dynamic in the initial value or in the type of the loop,
    its condition or its body: all of them must have one type.
    """
    _check_depth(inst, depth)
    (init,) = inst.operands
    shapes = [inst.shape, *(c.parameters[0].shape for c in inst.called), inst.called[1].root.shape]
    places = _places(scope, init, shapes)
    condition, body = inst.called
    for computation in inst.called:
        inner = Scope(computation)
        _unpack_parameter(inner, places)
        _resolve_computation(inner, depth + 1)
        if computation is body:
            body.set_root(_packed(inner, body.root, places))
    packed = _packed(scope, init, places)
    loop = scope.computation.add(
        inst.opcode, packed.shape, [packed], None, (condition, body), common=inst.common
    )
    _unpack(scope, inst, loop, places)
    scope.computation.remove(inst)


def _resolve_conditional(scope: Scope, inst: Instruction, depth: int) -> None:
    """Replace a conditional by one whose operands and results also hold the dynamic sizes.

    The branches agree on the sizes that they return: all that are dynamic in any of them.
    """
    _check_depth(inst, depth)
    index, *arguments = inst.operands
    inner = []
    operands = [index]
    for branch, argument in zip(inst.called, arguments, strict=True):
        places = _places(scope, argument, [branch.parameters[0].shape])
        inner.append(Scope(branch))
        _unpack_parameter(inner[-1], places)
        _resolve_computation(inner[-1], depth + 1)
        operands.append(_packed(scope, argument, places))
    places = _union(_places(s, s.computation.root, [inst.shape]) for s in inner)
    for branch_scope in inner:
        root = _packed(branch_scope, branch_scope.computation.root, places)
        branch_scope.computation.set_root(root)
    shape = inst.called[0].root.shape
    both = scope.computation.add(
        inst.opcode, shape, operands, inst.attributes, inst.called, common=inst.common
    )
    _unpack(scope, inst, both, places)
    scope.computation.remove(inst)


# ---------------------------------------------------------------- sizes with values


def _places(scope: Scope, inst: Instruction, shapes: Sequence[Shape]) -> tuple[Place, ...]:
    """Return the dimensions that are dynamic in one of `shapes` or in the value `inst`."""
    found = {
        (index, dim): None
        for shape in shapes
        for index, leaf in leaves(shape)
        if isinstance(leaf, ArrayShape)
        for dim in range(leaf.rank)
        if leaf.is_dynamic(dim)
    }
    for index, sizes in scope.leaves.get(inst, {}).items():
        found.update({(index, dim): None for dim in sizes})
    return tuple(sorted(found))


def _union(places: Any) -> tuple[Place, ...]:
    return tuple(sorted({place for found in places for place in found}))


def _packed(scope: Scope, inst: Instruction, places: Sequence[Place]) -> Instruction:
    """Return the tuple of `inst` and its sizes, `inst` itself if there are none to carry."""
    if not places:
        return inst
    return scope.b.tuple([inst, *(scope.size(inst, dim, index) for index, dim in places)])


def _unpack_parameter(scope: Scope, places: Sequence[Place]) -> None:
    """Make the only parameter a tuple of a value and its sizes."""
    (old,) = scope.computation.parameters
    if not places:
        return
    shape = TupleShape((static(old.shape), *(ArrayShape(S32) for _ in places)))
    new = scope.computation.add(
        old.opcode, shape, (), old.attributes, name=old.name, common=old.common
    )
    _unpack(scope, old, new, places)
    scope.computation.remove(old)


def _unpack(scope: Scope, old: Instruction, packed: Instruction, places: Sequence[Place]) -> None:
    """Replace `old` by the contents of `packed`."""
    if not places:
        scope.computation.replace(old, packed)
        return
    value = scope.b.get_tuple_element(packed, 0)
    found: dict[ShapeIndex, dict[int, Instruction]] = {}
    for number, (index, dim) in enumerate(places):
        size = scope.b.get_tuple_element(packed, 1 + number)
        found.setdefault(index, {})[dim] = size
    scope.computation.replace(old, value)
    scope.leaves[value] = dict(found)


# ---------------------------------------------------------------- the entry


def _take_parameters(scope: Scope) -> None:
    """Put `PadToStatic` after every dynamic leaf of the entry's parameters."""
    for parameter in scope.computation.parameters:
        if has_dynamic(parameter.shape) and not _is_taken(parameter):
            users = list(parameter.users)
            found: dict[ShapeIndex, dict[int, Instruction]] = {}
            value = _padded(scope, parameter, (), found)
            for user in users:
                operands = [value if o is parameter else o for o in user.operands]
                scope.computation.set_operands(user, operands)
            if parameter.is_root:
                scope.computation.set_root(value)
            scope.leaves[value] = dict(found)


def _padded(
    scope: Scope,
    inst: Instruction,
    index: ShapeIndex,
    found: dict[ShapeIndex, dict[int, Instruction]],
) -> Instruction:
    """Return `inst` with static leaves, and put their sizes into `found`."""
    if not has_dynamic(inst.shape):
        return inst
    if isinstance(inst.shape, TupleShape):
        return scope.b.tuple(
            [
                _padded(scope, scope.b.get_tuple_element(inst, i), (*index, i), found)
                for i in range(len(inst.shape.elements))
            ]
        )
    shape = inst.array
    sizes = tuple(ArrayShape(S32) for _ in shape.dims)
    call = _call(scope, "PadToStatic", [inst], TupleShape((static(shape), *sizes)))
    found[index] = {
        dim: scope.b.get_tuple_element(call, 1 + dim)
        for dim in range(shape.rank)
        if shape.is_dynamic(dim)
    }
    return scope.b.get_tuple_element(call, 0)


def _give_results(scope: Scope) -> None:
    """Put `SliceToDynamic` before every leaf of the result that has dynamic sizes."""
    root = scope.computation.root
    if scope.is_dynamic(root):
        scope.computation.set_root(_sliced(scope, root, scope.leaves[root]))


def _sliced(scope: Scope, inst: Instruction, found: Any) -> Instruction:
    if isinstance(inst.shape, TupleShape):
        parts = []
        for i in range(len(inst.shape.elements)):
            inner = {index[1:]: sizes for index, sizes in found.items() if index[0] == i}
            parts.append(_sliced(scope, scope.b.get_tuple_element(inst, i), inner))
        return scope.b.tuple(parts)
    sizes = found.get((), {})
    if not sizes:
        return inst
    shape = inst.array
    dynamic = tuple(dim in sizes for dim in range(shape.rank))
    operands = [sizes.get(dim) or scope.number(shape.dims[dim]) for dim in range(shape.rank)]
    result = ArrayShape(shape.dtype, shape.dims, shape.layout, dynamic)
    return _call(scope, "SliceToDynamic", [inst, *operands], result)


def _call(scope: Scope, target: str, operands: Sequence[Instruction], shape: Shape) -> Instruction:
    return make(scope.computation, "custom-call", shape, *operands, custom_call_target=target)
