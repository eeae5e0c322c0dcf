"""The elements that attention computes from its scores, at a position along its axes."""

from __future__ import annotations

from collections.abc import Mapping

from hloc.codegen.builder.index import Index
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.elements.elemental import Frame
from hloc.codegen.kernels.context import KernelContext
from hloc.ir.instruction import Instruction
from hloc.opt.fusion.attention_match import Attention


def attention_element(
    k: KernelContext,
    attention: Attention,
    inst: Instruction,
    at: Mapping[int, IndexValue],
    known: Mapping[Instruction, Value],
) -> Value:
    """Return the element of `inst`, computed from the `known` elements.

    Args:
        k: the function.
        attention: the attention that contains `inst`.
        inst: a member; one that does not depend on the scores is a scalar.
        at: position along every axis, 0 by default.
        known: elements of instructions that are already computed.
    """
    frame = Frame({**k.frame.sources, **known})
    return k.g.element(frame, inst, _index(k, attention, inst, at))


def _index(
    k: KernelContext, attention: Attention, inst: Instruction, at: Mapping[int, IndexValue]
) -> Index:
    dims = attention.dims.get(inst)
    if dims is None:
        return ()
    index: list[IndexValue] = []
    for axes in dims:
        position: IndexValue = 0
        for axis in axes or ():
            position = k.math.add(k.math.mul(position, attention.sizes[axis]), at.get(axis, 0))
        index.append(position)
    return tuple(index)
