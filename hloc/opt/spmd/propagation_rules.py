"""Links between the arrays of an instruction, along which shardings are propagated.

More than the factors in which an instruction can be computed in parts (`Opcode.factors`): a
dimension of a reshape may have several factors, and dimensions whose elements move to neighbours
(slices, pads, concatenations, windows) have one as well, since equal shardings are best for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from hloc.ir.factors import WHOLE
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.factors import factor_rule
from hloc.opt.spmd.array_classes import FORWARDING, Leaf, array_of, result_leaves
from hloc.opt.spmd.reshape_factors import reshape_factors
from hloc.opt.spmd.tiling import Dims
from hloc.shapes import ArrayShape, leaves

SAME, OTHERS, BROADCASTS = 0, 1, 2
"""Kinds of rules in the order of application: those that keep dimensions come first."""

_KEEPS_DIMS = frozenset({"reshape", "transpose", "copy", "bitcast-convert", "concatenate"})
_FORWARDING = frozenset({"tuple", "get-tuple-element", "call", "while", "conditional", *FORWARDING})


@dataclass(frozen=True, slots=True)
class Side:
    """One operand or result: the factors of each of its dimensions, major first."""

    leaf: Leaf
    dims: tuple[Dims, ...]
    is_result: bool


@dataclass(frozen=True, slots=True)
class PropagationRule:
    """Sides whose dimensions of the same factor should be sharded along the same axes.

    Attributes:
        sizes: the elements along each factor.
        reductions: factors that no result has.
        kind: `SAME`, `OTHERS` or `BROADCASTS`.
        forward, backward: whether operands influence results, and results operands.
    """

    sides: tuple[Side, ...]
    sizes: Dims
    reductions: frozenset[int]
    kind: int = OTHERS
    forward: bool = True
    backward: bool = True


@dataclass(slots=True)
class _Draft:
    sides: list[list[list[int]]]
    sizes: list[int] = field(default_factory=list)

    def factor(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1


def identity_rule(
    one: Leaf, two: Leaf, *, forward: bool = True, backward: bool = True
) -> PropagationRule:
    """Return the rule of two arrays of the same dimensions; `two` is the result."""
    dims = array_of(two).dims
    factors = tuple((dim,) for dim in range(len(dims)))
    sides = (Side(one, factors, False), Side(two, factors, True))
    return PropagationRule(sides, dims, frozenset(), SAME, forward, backward)


def propagation_rule(inst: Instruction) -> PropagationRule | None:
    """Return the rule of an instruction, None if it links nothing."""
    if inst.opcode.name in _FORWARDING or not inst.operands:
        return None
    if not all(isinstance(operand.shape, ArrayShape) for operand in inst.operands):
        return None
    results = result_leaves(inst)
    if len(results) != sum(1 for _ in leaves(inst.shape)):
        return None
    arrays = [(operand, ()) for operand in inst.operands] + results
    reductions: frozenset[int] = frozenset()
    if inst.is_a("reshape"):
        draft = _Draft([[[] for _ in array_of(leaf).dims] for leaf in arrays])
        _reshape(draft, inst)
    else:
        rule = factor_rule(inst)
        if len(rule.operands) + len(rule.results) != len(arrays):
            return None
        sides = [[[f] if f != WHOLE else [] for f in s] for s in (*rule.operands, *rule.results)]
        draft = _Draft(sides, list(rule.sizes))
        reductions = rule.reductions
        if inst.opcode.name in _MOVED:
            _MOVED[inst.opcode.name](draft, inst)
    count = len(inst.operands)
    split_arrays = tuple(
        Side(leaf, tuple(map(tuple, dims)), i >= count)
        for i, (leaf, dims) in enumerate(zip(arrays, draft.sides, strict=True))
        if any(dims)
    )
    if len(split_arrays) < 2:
        return None
    return PropagationRule(split_arrays, tuple(draft.sizes), reductions, _kind(inst))


def _kind(inst: Instruction) -> int:
    if inst.is_a("broadcast"):
        return BROADCASTS
    return SAME if inst.opcode.elementwise or inst.opcode.name in _KEEPS_DIMS else OTHERS


def _reshape(draft: _Draft, inst: Instruction) -> None:
    sides, draft.sizes = reshape_factors(inst.operands[0].array.dims, inst.array.dims)
    draft.sides = [[list(dim) for dim in side] for side in sides]


def _same_places(draft: _Draft, inst: Instruction) -> None:
    """Link dimensions at the same position in the result and in operands of its rank."""
    dims = inst.array.dims if isinstance(inst.shape, ArrayShape) else ()
    for dim, size in enumerate(dims):
        linked = [side for side in draft.sides if len(side) == len(dims) and not side[dim]]
        if len(linked) > 1 and not draft.sides[-1][dim]:
            factor = draft.factor(size)
            for side in linked:
                side[dim].append(factor)


def _updated(draft: _Draft, inst: Instruction) -> None:
    """Link the updated operands of a scatter or dynamic-update-slice with the results."""
    results = draft.sides[len(inst.operands) :]
    for dim, size in enumerate(inst.operands[0].array.dims):
        if not draft.sides[0][dim]:
            factor = draft.factor(size)
            for side in (*draft.sides[: len(results)], *results):
                side[dim].append(factor)


def _spatial(draft: _Draft, inst: Instruction) -> None:
    """Link the spatial dimensions of a convolution, and the features of a depthwise one."""
    labels = inst.attributes.dim_labels
    pairs = zip(labels.input_spatial, labels.output_spatial, strict=True)
    for source, target in ((labels.input_batch, labels.output_batch), *pairs):
        if not draft.sides[0][source] and inst.attributes.batch_group_count == 1:
            factor = draft.factor(inst.array.dims[target])
            draft.sides[0][source].append(factor)
            draft.sides[-1][target].append(factor)
    kernel = inst.operands[1].array.dims
    if inst.attributes.feature_group_count > 1 and kernel[labels.kernel_input_feature] == 1:
        factor = draft.factor(inst.attributes.feature_group_count)
        draft.sides[0][labels.input_feature] = [factor]
        draft.sides[1][labels.kernel_output_feature] = [factor]
        draft.sides[-1][labels.output_feature] = [factor]


_MOVED: dict[str, Callable[[_Draft, Instruction], None]] = {
    "concatenate": _same_places,
    "convolution": _spatial,
    "dynamic-update-slice": _updated,
    "pad": _same_places,
    "reduce-window": _same_places,
    "reverse": _same_places,
    "scatter": _updated,
    "select-and-scatter": _same_places,
    "slice": _same_places,
}
"""Opcode -> rule, for opcodes whose elements move between parts."""
