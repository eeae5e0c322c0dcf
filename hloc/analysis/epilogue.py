"""Fusions of a product and its elementwise epilogue."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ops.folding import works_per_element
from hloc.shapes import ArrayShape

PRODUCTS = ("dot", "convolution")


def product_in(body: Computation) -> Instruction | None:
    """Return the matrix product that the results of a fused computation depend on, else None.

    There is one product, it is not the root, and `follows` holds for the results.
    """
    return body.derived(_product_in)


def _product_in(body: Computation) -> Instruction | None:
    products = [member for member in body.instructions if member.is_a(*PRODUCTS)]
    if len(products) != 1 or body.root is products[0]:
        return None
    (product,) = products
    return product if follows(product, results_of(body)) else None


def results_of(body: Computation) -> tuple[Instruction, ...]:
    """Return the members whose values are results of the fusion."""
    return tuple(body.root.operands) if body.root.is_a("tuple") else (body.root,)


def follows(source: Instruction, results: Sequence[Instruction], *, in_place: bool = True) -> bool:
    """True if `results` read `source` at their own index only, and have its sizes and layout.

    Args:
        source: a matrix product.
        results: instructions that depend on it.
        in_place: one must have its element type, so that `source` can use the memory of that
            result until it is overwritten.
    """
    if in_place and place_of(source, results) is None:
        return False
    if not all(_is_like(r, source) for r in results):
        return False
    pending, seen = [source], {source}
    while pending:
        for user in pending.pop().users:
            if user in seen or user.is_a("tuple"):
                continue
            if not works_per_element(user) or not _is_like(user, source):
                return False
            seen.add(user)
            pending.append(user)
    return any(result in seen for result in results)


def place_of(source: Instruction, results: Sequence[Instruction]) -> int | None:
    """Return the number of the first result of the element type of `source`, None if none is."""
    for number, result in enumerate(results):
        if isinstance(result.shape, ArrayShape) and result.shape.dtype is source.array.dtype:
            return number
    return None


def _is_like(inst: Instruction, source: Instruction) -> bool:
    return (
        isinstance(inst.shape, ArrayShape)
        and inst.array.dims == source.array.dims
        and inst.array.minor_to_major == source.array.minor_to_major
    )
