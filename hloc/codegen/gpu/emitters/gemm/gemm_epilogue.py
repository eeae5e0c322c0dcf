"""Fusions around one product: elementwise instructions applied to its result in registers."""

from __future__ import annotations

from hloc.codegen.kernels.context import root_of
from hloc.ir.instruction import Instruction
from hloc.ops.folding import works_per_element
from hloc.shapes import ArrayShape

PRODUCTS = ("dot", "convolution")


def gemm_root(inst: Instruction) -> Instruction:
    """Return the product of `inst`: itself, the root of a fusion, or the only one before it."""
    root = root_of(inst)
    return root if root.is_a(*PRODUCTS) else _products(inst)[0]


def is_gemm(inst: Instruction) -> bool:
    """True for a product, and for a fusion whose root is one or works on one per element."""
    if root_of(inst).is_a(*PRODUCTS):
        return True
    return inst.opcode.name == "fusion" and _is_epilogue(inst)


def has_epilogue(inst: Instruction) -> bool:
    """True if there is more to do than to write the product."""
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
    """True if element i of `user` needs element i of the product, in the same order of memory."""
    if not isinstance(user.shape, ArrayShape) or user.array.dims != product.array.dims:
        return False
    return user.array.minor_to_major == product.array.minor_to_major
