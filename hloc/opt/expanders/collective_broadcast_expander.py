"""Expand broadcasts from a device that is known only at run time."""

from __future__ import annotations

from typing import Any

from hloc.dtypes import S32
from hloc.errors import UnsupportedError
from hloc.ir.device_groups import GroupMode, device_groups, group_mode, module_devices
from hloc.ir.instruction import Instruction
from hloc.ir.replica_groups import GroupLists
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander, tuple_like
from hloc.shapes import ArrayShape, TupleShape


class CollectiveBroadcastExpander(Expander):
    """Replace a collective-broadcast with a dynamic root by an all-gather and a dynamic-slice.

    Each device takes the part of the rank in its own last operand. Cost: the bytes of an
    all-gather, which are those of the broadcast times the size of the group.
    """

    acts_on = frozenset({"collective-broadcast"})

    def when(self, inst: Instruction) -> bool:
        """Replace those with a dynamic root; the others have a kernel."""
        return bool(inst.attributes.has_dynamic_root)

    def expand(self, inst: Instruction) -> Instruction:
        """Gather each operand along a new dimension and take one row of it.

        Raises:
            UnsupportedError: the groups differ in size or leave a device out.
        """
        groups = device_groups(inst)
        size = len(groups[0])
        devices = module_devices(inst.computation.module).total
        if any(len(group) != size for group in groups) or size * len(groups) != devices:
            raise UnsupportedError(
                f"{inst.name}: with has_dynamic_root all devices are in groups of one size",
                inst.span,
            )
        b = Builder(inst.computation)
        *values, roots = inst.operands
        found = []
        for number, value in enumerate(values):
            root = b.reshape(b.slice(roots, (number,), (number + 1,)), ())
            found.append(_row(b, _gathered(b, inst, value, size), root))
        return tuple_like(b, inst, found) if isinstance(inst.shape, TupleShape) else found[0]


def _gathered(b: Builder, inst: Instruction, value: Instruction, size: int) -> Instruction:
    """Return `value` of every device of the group, by rank along a new first dimension."""
    dtype, dims = value.array.dtype, value.array.dims
    attributes: dict[str, Any] = {"replica_groups": inst.attributes.replica_groups}
    if group_mode(inst) is not GroupMode.REPLICAS:
        # An all-gather has no mode for partitions alone.
        attributes = {
            "replica_groups": GroupLists(device_groups(inst)),
            "channel_id": inst.attributes.channel_id,
            "use_global_device_ids": True,
        }
    return b.instruction(
        "all-gather", (b.reshape(value, (1, *dims)),), shape=ArrayShape(dtype, (size, *dims)),
        dimensions=(0,), **attributes,
    )  # fmt: skip


def _row(b: Builder, gathered: Instruction, root: Instruction) -> Instruction:
    _, *dims = gathered.array.dims
    starts = (root, *[b.constant(0, S32)] * len(dims))
    return b.reshape(b.dynamic_slice(gathered, starts, (1, *dims)), tuple(dims))
