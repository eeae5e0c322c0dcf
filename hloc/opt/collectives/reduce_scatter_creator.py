"""Replace an all-reduce of which each device keeps one part by a reduce-scatter."""

from __future__ import annotations

from typing import Any

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.divergence import divergent_collectives
from hloc.evaluator import evaluate_computation
from hloc.ir.device_groups import device_groups, module_devices
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order_from
from hloc.ops import OPCODES
from hloc.ops.rows.collectives import ReduceScatterAttributes
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.shapes import ArrayShape

_LONGEST = 24
"""Limit on the instructions that compute the start of a slice."""

_MOST_DEVICES = 512
"""Limit on devices: the start of a slice is computed for each of them."""


class ReduceScatterCreator(RewritingPass):
    """Replace a dynamic-slice of an all-reduce by a reduce-scatter: half of the bytes.

    The slice is the only user, and each device takes the part of its rank in its group,
    in one dimension. The start is computed for every device, from partition-id, replica-id and
    constants. Cost: O(instructions), and a few operations per all-reduce and device.
    """

    acts_on = frozenset({"all-reduce"})

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Replace in every computation that all devices run equally often."""
        divergent = divergent_collectives(module)
        if module_devices(module).total > _MOST_DEVICES:
            return
        for computation in control_flow_computations(module):
            if computation in divergent:
                continue
            pinned = computation.awaited
            for inst in list(computation.instructions):
                if context.spent:
                    return
                if inst in pinned or inst.control_predecessors or (dim := _scattered(inst)) is None:
                    continue
                context.at = inst
                (part,) = inst.users
                with context.rewriting(module, self.name):
                    _scatter(inst, part, dim)


def _scatter(inst: Instruction, part: Instruction, dim: int) -> None:
    """Replace the all-reduce `inst` and its only user, the slice `part`, by a reduce-scatter.

    It splits dimension `dim`, in the same groups and with the same reduction.
    """
    computation, old = inst.computation, inst.attributes
    attributes = ReduceScatterAttributes(
        channel_id=old.channel_id,
        replica_groups=old.replica_groups,
        constrain_layout=old.constrain_layout,
        use_global_device_ids=old.use_global_device_ids,
        dimensions=(dim,),
    )
    found = computation.add(
        OPCODES["reduce-scatter"],
        part.shape,
        inst.operands,
        attributes,
        inst.called,
        common=inst.common,
    )
    computation.replace(part, found)
    computation.remove(part)
    computation.remove(inst)


def _scattered(inst: Instruction) -> int | None:
    """Return the dimension of which each device takes its part, None if there is none."""
    if not inst.is_a("all-reduce") or len(inst.operands) != 1 or len(inst.users) != 1:
        return None
    (part,) = inst.users
    whole = inst.shape
    if inst.is_root or not part.is_a("dynamic-slice") or part.operands.count(inst) != 1:
        return None
    if part.operands[0] is not inst or part.control_predecessors or not _is_plain(whole, part):
        return None
    sizes = part.attributes.dynamic_slice_sizes
    dims = [dim for dim, (n, m) in enumerate(zip(inst.array.dims, sizes, strict=True)) if n != m]
    if len(dims) != 1:
        return None
    dim, groups = dims[0], device_groups(inst)
    members = {len(group) for group in groups}
    if members != {inst.array.dims[dim] // max(sizes[dim], 1)}:
        return None
    if inst.array.dims[dim] % sizes[dim]:
        return None
    starts = _starts(part.operands[1 + dim])
    if starts is None:
        return None
    if all(starts.get(d) == rank * sizes[dim] for group in groups for rank, d in enumerate(group)):
        return dim
    return None


def _is_plain(whole: Any, part: Instruction) -> bool:
    """True if both arrays have static sizes and the same layout."""
    return (
        isinstance(whole, ArrayShape)
        and not whole.dynamic
        and not part.array.dynamic
        and whole.minor_to_major == part.array.minor_to_major
    )


def _starts(start: Instruction) -> dict[int, int] | None:
    """Return the value of a scalar on each device, by flattened id; None if it depends on data."""
    order = post_order_from([start])
    ids = ("partition-id", "replica-id")
    if len(order) > _LONGEST or any(inst.is_a("parameter") for inst in order):
        return None
    for inst in order:
        if inst.is_a(*ids):
            continue
        if inst.opcode.evaluate is None or inst.opcode.exchange is not None or inst.called:
            return None
        if inst.is_a("custom-call", "rng") or inst.opcode.side_effect:
            return None
    devices = module_devices(start.computation.module)
    found = {}
    for number in range(devices.total):
        replica, partition = divmod(number, devices.partitions)
        values: dict[Instruction, Any] = {}
        for inst in order:
            if inst.is_a(*ids):
                values[inst] = inst.array.dtype.numpy.type(
                    partition if inst.is_a("partition-id") else replica
                )
            else:
                operands = tuple(values[o] for o in inst.operands)
                assert inst.opcode.evaluate is not None
                values[inst] = inst.opcode.evaluate(inst, operands, evaluate_computation)
        found[number] = int(values[start])
    return found
