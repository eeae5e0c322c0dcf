"""Exchanges: what a collective is to the engine that runs it, as frozen data.

Group modes, shapes and reducers are resolved here, once; an engine (`hloc/runtime/communicator/`)
sees ordered lists of devices, bytes, and functions that combine them. Generated code calls

    i32 exchange(state, i64 number, ptr *arrays)

through the state of its device, which `DEVICE_SLOT` of the pointer table points to; a result other
than 0 ends the run. `arrays` are the operands, then the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from hloc.errors import HloError
from hloc.ir.computation import Computation
from hloc.ir.device_groups import TRANSFERS, device_groups, device_pairs
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.transfers import start_of, transferred
from hloc.shapes import ArrayShape, leaves

MOST_COMBINED = 4096
"""Elements that one call of a combiner takes at most."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """An array in memory as an exchange cuts it: `outer` times `count` pieces of `inner_bytes`.

    Attributes:
        dtype: name of the element type.
        count: members of the group along the dimension that is cut or concatenated, else 1.
    """

    dtype: str
    outer: int
    count: int
    inner_bytes: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole array."""
        return self.outer * self.count * self.inner_bytes


@dataclass(frozen=True, slots=True)
class Combiner:
    """A compiled reduction, `void symbol(ptr *arrays, i64 count)`.

    `arrays` are `members` inputs in the order of the ranks, then the result, which may not overlap
    them; `count` elements, at most `MOST_COMBINED`.

    Attributes:
        operand: which operand of the exchange it is for.
        kernel: its number in the plan.
    """

    operand: int
    members: int
    kernel: int

    @property
    def symbol(self) -> str:
        """The function's name."""
        return combiner_symbol(self.kernel)


def combiner_symbol(kernel: int) -> str:
    """Return the name of the function of a combiner."""
    return f"hloc_combine_{kernel}"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One collective of a program.

    Attributes:
        opcode: `all-reduce`, `all-gather`, `reduce-scatter`, `all-to-all`, `collective-permute`,
            `collective-broadcast` or `ragged-all-to-all`; never one that only starts. `send` has
            one operand and does not wait; `recv` has one result: it is what a `recv-done` does.
        name, place: of the instruction, and `file:line:column`, "" if unknown; for messages.
        groups: flattened device ids (replica * partitions + partition) by rank. A device that is in
            no group gets zeros at once.
        channel: devices meet by opcode, group and channel, so branches of a conditional may each
            have an instruction of their own for one meeting.
        meaning: what instructions that meet must have in common, as text.
        pairs: of a collective-permute, `send` or `recv`: the devices that send and receive.
        operands, results: array leaves; result i belongs to operand i, save that a ragged
            all-to-all has one result, which starts as a copy of operand 1.
        reducer: opcode of a reducer of two parameters, `add`; "" if it is anything else.
        combiners: per operand and size of group.
        may_diverge: devices may come to it unequally often (`analysis/divergence.py`).
    """

    opcode: str
    name: str
    place: str
    groups: tuple[tuple[int, ...], ...]
    channel: int | None = None
    meaning: str = ""
    pairs: tuple[tuple[int, int], ...] = ()
    operands: tuple[Pieces, ...] = ()
    results: tuple[Pieces, ...] = ()
    reducer: str = ""
    combiners: tuple[Combiner, ...] = ()
    may_diverge: bool = False

    def with_kernels(self, numbers: Sequence[int]) -> Exchange:
        """Return the exchange whose combiners are the kernels `numbers`, one for each."""
        pairs = zip(self.combiners, numbers, strict=True)
        return replace(self, combiners=tuple(replace(c, kernel=n) for c, n in pairs))


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
        tuple(_pieces(inst, shape, groups, "result") for shape in _array_leaves(inst)),
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


def _array_leaves(inst: Instruction) -> list[ArrayShape]:
    if isinstance(inst.shape, ArrayShape):
        return [inst.shape]
    return [leaf for _, leaf in leaves(inst.shape) if isinstance(leaf, ArrayShape)]
