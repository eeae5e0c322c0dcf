"""Epilogues that libraries support: a bias along one dimension, and relu."""

from __future__ import annotations

from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.values import is_zero


@dataclass(frozen=True, slots=True)
class Epilogue:
    """The epilogue of a gemm or convolution.

    Attributes:
        bias: parameter of the fused computation with an element per index of the dimension.
        relu: negative results become 0.
    """

    bias: Instruction | None = None
    relu: bool = False


def epilogue_of(inst: Instruction, product: Instruction, dimension: int) -> Epilogue | None:
    """Return the epilogue of `product` in `inst`, None if libraries do not support it.

    Args:
        inst: the dot or convolution itself, or a fusion around it.
        product: the dot or convolution.
        dimension: the dimension along which a bias may run.
    """
    if inst.opcode.name != "fusion":
        return Epilogue()
    last = inst.called[0].root
    relu = last.is_a("maximum")
    if relu:
        inner = [operand for operand in last.operands if not is_zero(operand)]
        if len(inner) != 1:
            return None
        last = inner[0]
    if last is product:
        return Epilogue(None, relu)
    if not last.is_a("add") or last.array.dtype is not product.array.dtype:
        return None
    others = [operand for operand in last.operands if operand is not product]
    bias = _bias(others[0], product, dimension) if len(others) == 1 else None
    return None if bias is None else Epilogue(bias, relu)


def _bias(inst: Instruction, product: Instruction, dimension: int) -> Instruction | None:
    """Return the parameter that `inst` broadcasts along `dimension`, else None."""
    if not inst.is_a("broadcast") or not inst.operands[0].is_a("parameter"):
        return None
    (source,) = inst.operands
    fits = tuple(inst.attributes.dimensions) == (dimension,)
    return source if fits and source.array.dtype is product.array.dtype else None
