"""Fold transposes into the dimension numbers of dots and convolutions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ops import names_of
from hloc.opt.contraction.convolution_numbers import Places, places_of
from hloc.opt.contraction.dot_numbers import Side, numbered, sides
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction

_CONTRACTIONS = names_of(lambda row: row.contraction)


class TransposeFolding(RewritingPass):
    """Fold transposed operands into dots and convolutions: `dot(transpose(x), y)` reads `x`.

    The free dimensions of a dot keep the order of the operand, so a transpose that reorders them
    stays. A convolution labels every dimension, so every operand transpose folds; so does a
    transpose of the result if it is the only user. Exact. Cost: O(instructions). Dead transposes
    are left to `dce`. Source: XLA's pass of this name.
    """

    acts_on = frozenset({"transpose"})

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Fold in every computation."""
        for inst in each_instruction(module, context, "transpose", *_CONTRACTIONS):
            change = self._change(inst, context)
            if change is not None:
                with context.rewriting(module, self.name):
                    operands, attributes = change
                    inst.computation.set_operands(inst, operands)
                    inst.computation.set_attributes(inst, attributes)
            elif _is_transposed_convolution(inst):
                with context.rewriting(module, self.name):
                    _fold_result(inst)

    def _change(
        self, inst: Instruction, context: PassContext
    ) -> tuple[list[Instruction], Any] | None:
        """Return operands and attributes with transposes folded, None if none folds."""
        if not inst.is_a("dot", "convolution") or len(inst.operands) != 2:
            return None
        folded = [operand.is_a("transpose") for operand in inst.operands]
        if inst.is_a("dot"):
            for number, side in enumerate(sides(inst)):
                if folded[number] and not _keeps_free_order(side):
                    folded[number] = False
                    text = f"operand {number} has free dimensions in another order"
                    context.remark("missed", self.name, inst, text)
        if not any(folded):
            return None
        operands = [
            operand.operands[0] if fold else operand
            for operand, fold in zip(inst.operands, folded, strict=True)
        ]
        moved = _moved_dot if inst.is_a("dot") else _moved_convolution
        return operands, moved(inst, folded)


def _keeps_free_order(side: Side) -> bool:
    permutation = side.operand.attributes.dimensions
    free = [permutation[dim] for dim in side.free]
    return free == sorted(free)


def _sources(transpose: Instruction, dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return the operand dimensions of `dims` of a transpose."""
    permutation = transpose.attributes.dimensions
    return tuple(permutation[dim] for dim in dims)


def _moved_dot(inst: Instruction, folded: list[bool]) -> Any:
    new = [
        replace(
            side,
            batch=_sources(side.operand, side.batch),
            contracting=_sources(side.operand, side.contracting),
        )
        if fold
        else side
        for side, fold in zip(sides(inst), folded, strict=True)
    ]
    return numbered(inst.attributes, *new)


def _moved_convolution(inst: Instruction, folded: list[bool]) -> Any:
    places = places_of(inst)
    lhs, rhs = inst.operands
    if folded[0]:
        places = replace(places, input=_sources(lhs, places.input))
    if folded[1]:
        places = replace(places, kernel=_sources(rhs, places.kernel))
    return replace(inst.attributes, dim_labels=places.labels)


def _is_transposed_convolution(inst: Instruction) -> bool:
    if not inst.is_a("transpose") or not (inst.users or inst.is_root):
        return False
    (operand,) = inst.operands
    return (
        operand.is_a("convolution")
        and len(operand.users) == 1
        and not operand.is_root
        and not inst.control_predecessors
        and not operand.control_predecessors
    )


def _fold_result(inst: Instruction) -> None:
    """Fold a transpose of the result into the convolution's output labels."""
    (convolution,) = inst.operands
    permutation = inst.attributes.dimensions
    places = places_of(convolution)
    output = tuple(permutation.index(dim) for dim in places.output)
    labels = Places(places.input, places.kernel, output).labels
    new = inst.computation.add(
        convolution.opcode,
        inst.shape,
        convolution.operands,
        replace(convolution.attributes, dim_labels=labels),
        common=convolution.common,
    )
    inst.computation.replace(inst, new)
