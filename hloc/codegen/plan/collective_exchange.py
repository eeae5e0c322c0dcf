"""The exchange of a collective: its groups, shapes and reducer, resolved once."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hloc.codegen.plan.exchange import Combiner, Exchange, Pieces
from hloc.errors import HloError
from hloc.ir.computation import Computation
from hloc.ir.device_groups import TRANSFERS, device_groups, device_pairs
from hloc.ir.instruction import Instruction
from hloc.ops.transfers import start_of, transferred
from hloc.shapes import ArrayShape, array_leaves


def exchange_of(inst: Instruction) -> Exchange:
    """Return the exchange of a collective; its combiners have no kernels (-1) yet.

    Raises:
        HloError: the groups do not fit the shapes.
    """
    name = inst.opcode.name
    if inst.is_a(*TRANSFERS):
        return _transfer(inst)
    groups = device_groups(inst)
    reduces = bool(inst.called)
    operands = tuple(operand.array for operand in inst.operands)
    combiners = tuple(
        Combiner(operand, members, -1)
        for operand in range(len(operands) if reduces else 0)
        for members in sorted({len(group) for group in groups})
    )
    return Exchange(
        name,
        inst.name,
        inst.span.place() if inst.span is not None else "",
        groups,
        inst.attributes.channel_id,
        _meaning(inst),
        device_pairs(inst) if name == "collective-permute" else (),
        tuple(_pieces(inst, shape, groups, "operand") for shape in operands),
        tuple(_pieces(inst, shape, groups, "result") for shape in array_leaves(inst.shape)),
        reducer_name(inst.called[0]) if reduces else "",
        combiners,
    )


def _meaning(inst: Instruction) -> str:
    """Return operands and dimensions, and the pairs of a permute; reducers are in the combiners."""
    parts = [operand.shape.text_without_layout for operand in inst.operands]
    dimensions = getattr(inst.attributes, "dimensions", None)
    if dimensions is not None:
        parts.append(f"dimensions={{{','.join(map(str, dimensions))}}}")
    pairs = getattr(inst.attributes, "source_target_pairs", ())
    if pairs:
        parts.append(f"source_target_pairs={{{','.join(f'{{{s},{t}}}' for s, t in pairs)}}}")
    return ", ".join(parts)


def _transfer(inst: Instruction) -> Exchange:
    """Return the exchange of a `send` or a `recv-done`."""
    start = start_of(inst)
    assert start is not None
    shape = transferred(start)
    data = (Pieces(shape.dtype.name, 1, 1, shape.size_bytes),)
    is_send = inst.is_a("send")
    return Exchange(
        "send" if is_send else "recv",
        inst.name,
        inst.span.place() if inst.span is not None else "",
        (),
        start.attributes.channel_id,
        shape.text_without_layout,
        device_pairs(start),
        data if is_send else (),
        () if is_send else data,
    )


def reducer_name(reducer: Computation) -> str:
    """Return the opcode of a reducer that is one instruction of its two parameters, else ""."""
    root, parameters = reducer.root, reducer.parameters
    if not root.opcode.commutative or len(root.operands) != 2 or len(parameters) != 2:
        return ""
    return root.opcode.name if set(root.operands) == set(parameters) else ""


def _pieces(
    inst: Instruction, shape: ArrayShape, groups: Sequence[Sequence[int]], side: str
) -> Pieces:
    """Return how an operand or a result is cut."""
    name, dtype = inst.opcode.name, shape.dtype.name
    if name == "ragged-all-to-all":
        rows = shape.dims[0] if shape.dims else 1
        return Pieces(dtype, rows, 1, shape.size_bytes // max(rows, 1))
    dimensions = getattr(inst.attributes, "dimensions", None)
    if not dimensions:
        return Pieces(dtype, 1, 1, shape.size_bytes)
    (dim,) = dimensions
    members = len(groups[0])
    order = shape.minor_to_major
    minor = prod(shape.dims[d] for d in order[: order.index(dim)])
    outer = prod(shape.dims[d] for d in order[order.index(dim) + 1 :])
    whole = {"all-gather": "result", "reduce-scatter": "operand"}.get(name, side) == side
    count = members if whole else 1
    if shape.dims[dim] % count:
        raise HloError(
            f"{inst.name}: dimension {dim} of {shape.dims[dim]} elements does not divide into "
            f"{count} equal pieces",
            inst.span,
        )
    inner = shape.dims[dim] // count * minor
    return Pieces(dtype, outer, count, inner * shape.dtype.storage_bytes)
