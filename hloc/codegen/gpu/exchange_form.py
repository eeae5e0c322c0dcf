"""Rewrites collectives for NCCL: contiguous pieces, and sums in the order of the ranks.

NCCL moves ranges of bytes, so a collective along an inner dimension becomes one along the first,
between transposes. Its order of summation is unspecified, so sums whose bits depend on the order
become an exchange of parts and a kernel of hloc, which adds them in the order of the ranks:

    all-reduce      all-gather and sum if it is small, else all-to-all, sum and all-gather
    reduce-scatter  all-to-all and sum; all-gather where the groups mix replicas and partitions
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from hloc.analysis.call_graph import control_flow_computations
from hloc.codegen.gpu.nccl_sums import nccl_operation
from hloc.codegen.lower.collectives import join_started_collectives
from hloc.codegen.plan.collective_exchange import reducer_name
from hloc.dtypes import S32, U32
from hloc.errors import UnsupportedError
from hloc.ir.computation import Computation
from hloc.ir.device_groups import GroupMode, device_groups, group_mode, module_devices
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.replica_groups import GroupLists
from hloc.ir.traversal import post_order
from hloc.lazy_dataclass import dataclass
from hloc.ops.builder import Builder
from hloc.ops.folding import result_types
from hloc.shapes import ArrayShape, TupleShape

SMALL_BYTES = 16384
"""Arrays up to this size are gathered and reduced on every device, in one exchange."""


def to_exchange_form(module: Module, *, fast: bool) -> None:
    """Change the collectives of `module` in place.

    Args:
        module: before it is lowered.
        fast: NCCL may sum floats in any order.

    Raises:
        UnsupportedError: NCCL does not support a collective, and hloc cannot rewrite it.
    """
    join_started_collectives(module)
    if not any(name in module.opcodes for name in _REWRITES):
        return
    with module.log.acting("exchange-form"):
        for computation in control_flow_computations(module):
            for inst in post_order(computation):
                if inst.opcode.name in _REWRITES:
                    _rewrite(inst, fast)


def _rewrite(inst: Instruction, fast: bool) -> None:
    """Replace a collective where its form for NCCL differs, operand by operand if variadic."""
    form = _Form(inst, fast)
    rewrite = _REWRITES[inst.opcode.name]
    if inst.is_a("all-to-all") and inst.attributes.dimensions is None:
        return
    results = [rewrite(form, operand, shape) for operand, shape in form.arrays()]
    if all(result is None for result in results):
        return
    computation = inst.computation
    of_shapes = [
        form.of_shape(form.alone(i) if result is None else result, shape)
        for i, (result, (_, shape)) in enumerate(zip(results, form.arrays(), strict=True))
    ]
    value = of_shapes[0]
    if isinstance(inst.shape, TupleShape):
        value = form.b.instruction("tuple", of_shapes, shape=inst.shape)
    for later in computation.controlled:
        if inst in later.control_predecessors:
            kept = [p for p in later.control_predecessors if p is not inst]
            computation.set_control_predecessors(later, [*kept, *of_shapes])
    computation.replace(inst, value)
    computation.remove(inst)


@dataclass(slots=True)
class _Form:
    """One collective, and the tools for its rewrite."""

    inst: Instruction
    fast: bool

    @property
    def b(self) -> Builder:
        return Builder(self.inst.computation)

    @property
    def members(self) -> int:
        """Size of the groups.

        Raises:
            UnsupportedError: they differ.
        """
        sizes = {len(group) for group in device_groups(self.inst)}
        if len(sizes) > 1:
            raise UnsupportedError(
                f"{self.inst.name}: sums over groups of unequal sizes need --fast-collectives",
                self.inst.span,
            )
        return max(sizes)

    def arrays(self) -> list[tuple[Instruction, ArrayShape]]:
        """Return operands and the shapes of their results."""
        shapes = self.inst.shape.elements if isinstance(self.inst.shape, TupleShape) else ()
        results = [s for s in shapes if isinstance(s, ArrayShape)] or [self.inst.array]
        return list(zip(self.inst.operands, results, strict=True))

    def exchange(
        self, opcode: str, operand: Instruction, shape: ArrayShape, **attributes: Any
    ) -> Instruction:
        """Add a collective of the same groups along dimension 0."""
        old = self.inst
        known = {"channel_id": old.attributes.channel_id, "dimensions": (0,)}
        if opcode == "all-to-all":
            known |= self._groups_without_ids()
        else:
            known["replica_groups"] = old.attributes.replica_groups
            known["use_global_device_ids"] = getattr(old.attributes, "use_global_device_ids", None)
        result = self.b.instruction(opcode, (operand,), shape=shape, **{**known, **attributes})
        if old.span is not None:
            result.span = old.span
        return result

    @property
    def has_pieces(self) -> bool:
        """Whether an all-to-all can have the same groups: it does not support flattened ids."""
        counts = module_devices(self.inst.computation.module)
        modes = (GroupMode.REPLICAS, GroupMode.PARTITIONS)
        return group_mode(self.inst) in modes or min(counts.replicas, counts.partitions) == 1

    def _groups_without_ids(self) -> dict[str, Any]:
        """Return the groups as replicas or as partitions."""
        assert self.has_pieces
        attributes = self.inst.attributes
        if group_mode(self.inst) in (GroupMode.REPLICAS, GroupMode.PARTITIONS):
            return {"replica_groups": attributes.replica_groups}
        counts = module_devices(self.inst.computation.module)
        channel = (attributes.channel_id or 1) if counts.replicas == 1 else None
        return {"replica_groups": GroupLists(device_groups(self.inst)), "channel_id": channel}

    def own_rank(self) -> Instruction:
        """Return the rank of the device in its group, from a table by flattened id."""
        counts = module_devices(self.inst.computation.module)
        table = np.zeros(counts.total, np.int32)
        for group in device_groups(self.inst):
            table[list(group)] = range(len(group))
        b, number = self.b, ArrayShape(U32, ())
        replica = b.instruction("replica-id", shape=number)
        partition = b.instruction("partition-id", shape=number)
        first = b.multiply(replica, b.constant(counts.partitions, U32))
        device = b.convert(b.add(first, partition), S32)
        one = b.instruction(
            "dynamic-slice",
            (b.constant(table), device),
            shape=ArrayShape(S32, (1,)),
            dynamic_slice_sizes=(1,),
        )
        return b.reshape(one, ())

    def alone(self, number: int) -> Instruction:
        """Return a collective of operand `number` of a variadic collective."""
        old, (operand, shape) = self.inst, self.arrays()[number]
        result = old.computation.add(
            old.opcode, shape, (operand,), old.attributes, old.called, span=old.span
        )
        return result

    def of_shape(self, value: Instruction, shape: ArrayShape) -> Instruction:
        """Return `value` in the layout and type of `shape`: sums may be wider than terms."""
        value = self.b.convert(value, shape.dtype)
        return value if value.shape == shape else self.b.instruction("copy", (value,), shape=shape)

    def plain(self, operand: Instruction) -> Instruction:
        """Return the operand in row-major order."""
        shape = operand.array
        return self.of_shape(operand, ArrayShape(shape.dtype, shape.dims))

    def combined(self, parts: Instruction) -> Instruction:
        """Return the sum over dimension 0 of `[members, n]`, in the order of the ranks.

        The reduction runs in the element type of the reducer; its result is converted once.
        """
        reducer, shape = self.inst.called[0], parts.array
        members, size = shape.dims
        b = Builder(self.inst.computation.module.add_computation("combine"))
        source = b.parameter(0, ArrayShape(shape.dtype, shape.dims))
        (inner,) = result_types(reducer.root.shape)
        total: Instruction | None = None
        for rank in range(members):
            row = b.reshape(b.slice(source, (rank, 0), (rank + 1, size)), (size,))
            row = b.convert(row, inner if members > 1 else shape.dtype)
            total = row if total is None else _applied(b, reducer, total, row)
        assert total is not None
        b.computation.set_root(b.convert(total, shape.dtype))
        result = ArrayShape(shape.dtype, (size,))
        called = (b.computation,)
        return self.b.fusion(parts, shape=result, called=called, kind="kLoop")


def _applied(b: Builder, reducer: Computation, x: Instruction, y: Instruction) -> Instruction:
    """Return `reducer` of two arrays: a single opcode if possible, else a map."""
    name = reducer_name(reducer)
    if name and reducer.parameters[0].array.dtype is reducer.root.array.dtype:
        operands = (x, y) if reducer.root.operands[0] is reducer.parameters[0] else (y, x)
        return b.instruction(name, operands, shape=x.shape)
    return b.map(x, y, shape=x.shape, called=(reducer,), dimensions=(0,))


def _dimension(form: _Form) -> int:
    (dim,) = form.inst.attributes.dimensions
    return int(dim)


def _is_plain(*shapes: ArrayShape) -> bool:
    return all(s.minor_to_major == ArrayShape(s.dtype, s.dims).minor_to_major for s in shapes)


def _all_gather(form: _Form, operand: Instruction, shape: ArrayShape) -> Instruction | None:
    dim, dims, b = _dimension(form), operand.array.dims, form.b
    outer = prod(dims[:dim])
    if outer == 1 and _is_plain(operand.array, shape):
        return None
    inner = prod(dims[dim:])
    whole = ArrayShape(shape.dtype, (form.members, outer, inner))
    own = b.reshape(form.plain(operand), (1, outer, inner))
    gathered = form.exchange("all-gather", own, whole)
    return b.reshape(b.transpose(gathered, (1, 0, 2)), shape.dims)


def _all_to_all(form: _Form, operand: Instruction, shape: ArrayShape) -> Instruction | None:
    dim, dims, b = _dimension(form), operand.array.dims, form.b
    outer, members = prod(dims[:dim]), form.members
    if outer == 1 and _is_plain(operand.array, shape):
        return None
    inner = prod(dims[dim:]) // members
    pieces = b.reshape(form.plain(operand), (outer, members, inner))
    first = b.transpose(pieces, (1, 0, 2))
    moved = form.exchange("all-to-all", first, first.array)
    return b.reshape(b.transpose(moved, (1, 0, 2)), shape.dims)


def _all_reduce(form: _Form, operand: Instruction, shape: ArrayShape) -> Instruction | None:
    """Return the sum over the devices in the order of the ranks, None if NCCL's own will do."""
    largest = max(map(len, device_groups(form.inst)))
    dtype = operand.array.dtype
    if _operation(form, dtype, largest) is not None or not shape.size_bytes:
        return None
    members, b = form.members, form.b
    size = prod(shape.dims)
    flat = b.reshape(form.plain(operand), (size,))
    if shape.size_bytes <= SMALL_BYTES or not form.has_pieces:
        whole = ArrayShape(dtype, (members, size))
        gathered = form.exchange("all-gather", b.reshape(flat, (1, size)), whole)
        return b.reshape(form.combined(gathered), shape.dims)
    share = -(-size // members)
    if share * members != size:
        flat = b.pad(flat, b.constant(0, dtype), (0,), (share * members - size,))
    parts = b.reshape(flat, (members, share))
    total = form.combined(form.exchange("all-to-all", parts, parts.array))
    gathered = form.exchange("all-gather", total, ArrayShape(dtype, (share * members,)))
    return b.reshape(b.slice(gathered, (0,), (size,)), shape.dims)


def _reduce_scatter(form: _Form, operand: Instruction, shape: ArrayShape) -> Instruction | None:
    """Return this device's piece of the sum, None if NCCL's own will do."""
    dim, dims, b = _dimension(form), operand.array.dims, form.b
    dtype, members = operand.array.dtype, form.members
    outer = prod(dims[:dim])
    inner = prod(dims[dim:]) // members
    is_native = _operation(form, dtype, members) is not None
    if is_native and outer == 1 and _is_plain(operand.array, shape):
        return None
    pieces = b.transpose(b.reshape(form.plain(operand), (outer, members, inner)), (1, 0, 2))
    parts = b.reshape(pieces, (members, outer * inner))
    if is_native:
        own = ArrayShape(dtype, (1, outer * inner))
        called = form.inst.called
        return b.reshape(form.exchange("reduce-scatter", parts, own, called=called), shape.dims)
    if form.has_pieces:
        moved = form.exchange("all-to-all", parts, parts.array)
    else:
        moved = _own_piece_of_all(form, parts)
    return b.reshape(form.combined(moved), shape.dims)


def _own_piece_of_all(form: _Form, parts: Instruction) -> Instruction:
    """Return the pieces `[members, n]` for this device, from a gather of all pieces."""
    b, (members, size), dtype = form.b, parts.array.dims, parts.array.dtype
    own = b.reshape(parts, (1, members, size))
    whole = form.exchange("all-gather", own, ArrayShape(dtype, (members, members, size)))
    zero = b.constant(0, S32)
    column = b.instruction(
        "dynamic-slice",
        (whole, zero, form.own_rank(), zero),
        shape=ArrayShape(dtype, (members, 1, size)),
        dynamic_slice_sizes=(members, 1, size),
    )
    return b.reshape(column, (members, size))


def _operation(form: _Form, dtype: Any, members: int) -> int | None:
    reducer = form.inst.called[0]
    name = reducer_name(reducer) if reducer.parameters[0].array.dtype is dtype else ""
    return nccl_operation(dtype, name, members, fast=form.fast)


_REWRITES: dict[str, Callable[[_Form, Instruction, ArrayShape], Instruction | None]] = {
    "all-gather": _all_gather,
    "all-reduce": _all_reduce,
    "all-to-all": _all_to_all,
    "reduce-scatter": _reduce_scatter,
}
