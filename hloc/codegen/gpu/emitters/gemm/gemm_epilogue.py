"""Gemm epilogues: elementwise instructions applied to the result in registers."""

from __future__ import annotations

from hloc.codegen.kernels.context import root_of
from hloc.ir.instruction import Instruction
from hloc.ops.folding import works_per_element
from hloc.shapes import ArrayShape

PRODUCTS = ("dot", "convolution")


def gemm_root(inst: Instruction) -> Instruction:
    """Return the gemm of `inst`: itself, the root of a fusion, or the only gemm inside."""
    root = root_of(inst)
    return root if root.is_a(*PRODUCTS) else _products(inst)[0]


def is_gemm(inst: Instruction) -> bool:
    """True for a gemm, and for a fusion whose root is a gemm or an elementwise epilogue of one."""
    if root_of(inst).is_a(*PRODUCTS):
        return True
    return inst.opcode.name == "fusion" and _is_epilogue(inst)


def has_epilogue(inst: Instruction) -> bool:
    """True if the gemm has an epilogue."""
    return not root_of(inst).is_a(*PRODUCTS)


def _products(inst: Instruction) -> list[Instruction]:
    return [member for member in inst.called[0].instructions if member.is_a(*PRODUCTS)]


def _is_epilogue(inst: Instruction) -> bool:
    root, products = inst.called[0].root, _products(inst)
    if len(products) != 1 or not isinstance(root.shape, ArrayShape):
        return False
    pending, seen = list(products), set(products)
    while pending:
        for user in pending.pop().users:
            if user in seen:
                continue
            if not works_per_element(user) or not _fits(user, products[0]):
                return False
            seen.add(user)
            pending.append(user)
    return root in seen


def _fits(user: Instruction, product: Instruction) -> bool:
    """True if element i of `user` needs element i of the gemm, in the same layout."""
    if not isinstance(user.shape, ArrayShape) or user.array.dims != product.array.dims:
        return False
    return user.array.minor_to_major == product.array.minor_to_major
