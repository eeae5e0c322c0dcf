"""Laws of dot: empty and missing contractions, transposed operands."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.opt.make import make, reshaped
from hloc.opt.pattern import Found, P
from hloc.opt.rule import Build, Rule
from hloc.opt.rules.builders import filled
from hloc.opt.values import default_layout, has_one_user
from hloc.shapes import ArrayShape

x, y = P(bind="x"), P(bind="y")


def _contracted_size(inst: Instruction) -> int:
    dims = inst.operands[0].array.dims
    return prod([dims[dim] for dim in inst.attributes.lhs_contracting_dims])


def _contracts_nothing(inst: Instruction, _found: Found) -> bool:
    return _contracted_size(inst) == 0 and inst.array.elements > 0


def _contracts_one(inst: Instruction, found: Found) -> bool:
    """Each result is one product; types without a wide product keep their dot."""
    dtype = inst.array.dtype
    return (
        _contracted_size(inst) == 1
        and inst.array.elements > 0
        and default_layout(inst, found["x"], found["y"])
        and dtype is found["x"].array.dtype is found["y"].array.dtype
        and not dtype.is_complex
    )


def _product(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    """`x * y`, both broadcast to the dimensions of the result."""
    attributes = inst.attributes
    batch = len(attributes.lhs_batch_dims)
    left = _spread(
        computation,
        inst,
        found["x"],
        attributes.lhs_batch_dims,
        attributes.lhs_contracting_dims,
        batch,
    )
    lhs_free = found["x"].array.rank - batch - len(attributes.lhs_contracting_dims)
    right = _spread(
        computation,
        inst,
        found["y"],
        attributes.rhs_batch_dims,
        attributes.rhs_contracting_dims,
        batch + lhs_free,
    )
    return make(computation, "multiply", inst.shape, left, right)


def _spread(
    computation: Computation,
    inst: Instruction,
    operand: Instruction,
    batch: tuple[int, ...],
    contracting: tuple[int, ...],
    first_free: int,
) -> Instruction:
    """Broadcast an operand, without its contracted dimensions of size 1, to the result's shape."""
    place = {dim: i for i, dim in enumerate(batch)}
    free = [d for d in range(operand.array.rank) if d not in batch and d not in contracting]
    place |= {dim: first_free + i for i, dim in enumerate(free)}
    kept = [dim for dim in range(operand.array.rank) if dim in place]
    shape = ArrayShape(operand.array.dtype, tuple(operand.array.dims[dim] for dim in kept))
    small = reshaped(computation, operand, shape)
    dims = tuple(place[dim] for dim in kept)
    if small.shape == inst.shape and dims == tuple(range(len(dims))):
        return small
    return make(computation, "broadcast", inst.shape, small, dimensions=dims)


def _transposed(side: str) -> Any:
    """Return a condition: the free dimensions of that operand keep their order untransposed."""

    def condition(inst: Instruction, found: Found) -> bool:
        permutation = found["t"].attributes.dimensions
        attributes = inst.attributes
        bound = (
            *getattr(attributes, f"{side}_batch_dims"),
            *getattr(attributes, f"{side}_contracting_dims"),
        )
        free = [source for dim, source in enumerate(permutation) if dim not in bound]
        return free == sorted(free)

    return condition


def _untranspose(side: str) -> Build:
    """dot(transpose(s), y) -> dot(s, y) with the dimensions of s."""

    def build(computation: Computation, inst: Instruction, found: Found) -> Instruction:
        permutation = found["t"].attributes.dimensions
        changes: dict[str, Any] = {
            name: tuple(permutation[dim] for dim in getattr(inst.attributes, name))
            for name in (f"{side}_batch_dims", f"{side}_contracting_dims")
        }
        operands = [found["s"] if side == "lhs" else inst.operands[0]]
        operands.append(found["s"] if side == "rhs" else inst.operands[1])
        return computation.add(
            inst.opcode,
            inst.shape,
            operands,
            replace(inst.attributes, **changes),
            common=inst.common,
        )

    return build


def _swaps_sides(inst: Instruction, found: Found) -> bool:
    """The transpose puts the free dimensions of rhs before those of lhs, and no more."""
    dot = found["d"]
    attributes = dot.attributes
    batch = len(attributes.lhs_batch_dims)
    bound = batch + len(attributes.lhs_contracting_dims)
    lhs_free = dot.operands[0].array.rank - bound
    rank = dot.array.rank
    order = (*range(batch), *range(batch + lhs_free, rank), *range(batch, batch + lhs_free))
    plain = type(attributes)(
        lhs_contracting_dims=attributes.lhs_contracting_dims,
        rhs_contracting_dims=attributes.rhs_contracting_dims,
        lhs_batch_dims=attributes.lhs_batch_dims,
        rhs_batch_dims=attributes.rhs_batch_dims,
    )
    return bool(inst.attributes.dimensions == order) and attributes == plain


def _swapped(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    dot = found["d"]
    attributes = dot.attributes
    return computation.add(
        dot.opcode,
        inst.shape,
        dot.operands[::-1],
        replace(
            attributes,
            lhs_contracting_dims=attributes.rhs_contracting_dims,
            rhs_contracting_dims=attributes.lhs_contracting_dims,
            lhs_batch_dims=attributes.rhs_batch_dims,
            rhs_batch_dims=attributes.lhs_batch_dims,
        ),
        common=dot.common,
    )


transposed = P("transpose", (P(bind="s"),), bind="t")

DOT = (
    Rule("dot-of-nothing", P("dot", (x, y)), filled(0), when=_contracts_nothing),
    Rule("dot-of-one", P("dot", (x, y)), _product, when=_contracts_one),
    Rule(
        "dot-transposed-lhs",
        P("dot", (transposed, P())),
        _untranspose("lhs"),
        when=_transposed("lhs"),
    ),
    Rule(
        "dot-transposed-rhs",
        P("dot", (P(), transposed)),
        _untranspose("rhs"),
        when=_transposed("rhs"),
    ),
    Rule(
        "transpose-dot",
        P("transpose", (P("dot", bind="d", when=has_one_user),)),
        _swapped,
        when=_swaps_sides,
    ),
)
