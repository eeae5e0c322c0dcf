"""The participants of a collective: its groups as ordered lists of flattened device ids.

A module runs on `replica_count * num_partitions` devices; flattened id = replica *
num_partitions + partition. The position in the list is the rank, which concatenation,
scattering and broadcasting follow. Source: XLA's `collective_ops_utils.cc`.

    channel_id  use_global_device_ids   the numbers are   a device meets
    absent      absent or false         replicas          the same partition of these replicas
    present     the opcode has none     partitions        these partitions of its replica
    present     false                   replicas          all partitions of these replicas
    present     true                    flattened ids     these
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum
from typing import TypeAlias

from hloc.errors import HloError
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.ir.replica_groups import MAX_DEVICES, GroupLists, Lists, ReplicaGroups
from hloc.ir.traversal import all_instructions
from hloc.lazy_dataclass import dataclass

Pairs: TypeAlias = tuple[tuple[int, int], ...]

PERMUTES = ("collective-permute", "collective-permute-start")
TRANSFERS = ("send", "send-done", "recv", "recv-done")

_SEND_RECV_PAIRS = "_xla_send_recv_source_target_pairs"
_PAIR = re.compile(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}")


class GroupMode(Enum):
    """The meaning of the numbers in replica groups, by XLA's names."""

    REPLICAS = "cross-replica"
    PARTITIONS = "cross-partition"
    BOTH = "cross-replica-and-partition"
    FLATTENED = "flattened-id"


@dataclass(frozen=True, slots=True)
class DeviceCounts:
    """The devices of a module: `replica_count` by `num_partitions`."""

    replicas: int
    partitions: int

    @property
    def total(self) -> int:
        return self.replicas * self.partitions

    def numbered(self, mode: GroupMode) -> int:
        """Return how many ids the groups of `mode` refer to."""
        if mode is GroupMode.PARTITIONS:
            return self.partitions
        return self.total if mode is GroupMode.FLATTENED else self.replicas


def header_devices(module: Module) -> DeviceCounts:
    """Return the device counts of the header; many texts have lost theirs and say 1."""
    return DeviceCounts(module.config.replica_count, module.config.num_partitions)


def module_devices(module: Module) -> DeviceCounts:
    """Return the devices that a module runs on.

    A header with one device is taken as unset, as by XLA's verifier: then the largest id
    that collectives name determines the count.
    """
    counts = header_devices(module)
    return module.derived(_named_devices) if counts.total == 1 else counts


def count_devices(module: Module) -> None:
    """Write the device counts into the header, before passes remove the collectives."""
    counts = module_devices(module)
    if counts != header_devices(module):
        module.set_config(
            replace(module.config, replica_count=counts.replicas, num_partitions=counts.partitions)
        )


def _named_devices(module: Module) -> DeviceCounts:
    largest = dict.fromkeys(GroupMode, 1)
    rows = map(opcode_row, module.opcodes)
    naming = {row for row in rows if row.exchange is not None or row.name in ("send", "recv")}
    for inst in all_instructions(module) if naming else ():
        if inst.opcode in naming:
            mode = group_mode(inst)
            largest[mode] = max(largest[mode], _named(inst))
    replicas = max(largest[GroupMode.REPLICAS], largest[GroupMode.BOTH])
    partitions = max(largest[GroupMode.PARTITIONS], -(-largest[GroupMode.FLATTENED] // replicas))
    return DeviceCounts(replicas, partitions)


def _named(inst: Instruction) -> int:
    """Return the largest id that a collective names, plus one; 0 if it names none."""
    if inst.is_a(*PERMUTES, *TRANSFERS):
        return max((i + 1 for pair in _written_pairs(inst) for i in pair), default=0)
    groups: ReplicaGroups = inst.attributes.replica_groups
    if isinstance(groups, GroupLists):
        return max((i + 1 for group in groups.groups for i in group), default=0)
    return groups.count


def exchanges_data(module: Module) -> bool:
    """Tell whether a module has collectives, or reads device ids."""
    return any(
        inst.opcode.exchange is not None
        or inst.is_a("partition-id", "replica-id")
        or (inst.is_a("send", "recv") and bool(_written_pairs(inst)))
        for computation in module.computations
        for inst in computation.instructions
    )


def group_mode(inst: Instruction) -> GroupMode:
    """Return the mode of a collective, `send` or `recv`; channel 0 is no channel."""
    attributes = inst.attributes
    has_channel = bool(attributes.channel_id)
    is_global = getattr(attributes, "use_global_device_ids", None)
    if not has_channel:
        return GroupMode.REPLICAS
    if is_global is None:
        return GroupMode.PARTITIONS
    return GroupMode.FLATTENED if is_global else GroupMode.BOTH


def device_groups(inst: Instruction) -> Lists:
    """Return the groups of a collective, each in the order of its ranks.

    A device in no list exchanges nothing: its collective-permute or collective-broadcast gives
    zeros. The groups of a collective-permute are the devices that its pairs connect, in the order
    of their ids.

    Raises:
        HloError: the groups are malformed, or name devices that the module does not have.
    """
    if inst.is_a(*PERMUTES, *TRANSFERS):
        return _connected(device_pairs(inst))
    counts, mode = module_devices(inst.computation.module), group_mode(inst)
    check_total(counts.total)
    groups: ReplicaGroups = inst.attributes.replica_groups
    lists = groups.lists()
    if not lists:
        if mode is GroupMode.FLATTENED:
            raise HloError(f"{inst.name}: flattened ids need replica_groups", inst.span)
        lists = (tuple(range(counts.numbered(mode))),)
    _check_ids(inst, (i for group in lists for i in group), counts.numbered(mode))
    replicas, partitions = range(counts.replicas), range(counts.partitions)
    if mode is GroupMode.REPLICAS:
        return tuple(
            tuple(r * counts.partitions + p for r in group) for group in lists for p in partitions
        )
    if mode is GroupMode.PARTITIONS:
        return tuple(
            tuple(r * counts.partitions + p for p in group) for group in lists for r in replicas
        )
    if mode is GroupMode.BOTH:
        return tuple(
            tuple(r * counts.partitions + p for r in group for p in partitions) for group in lists
        )
    return lists


def device_pairs(inst: Instruction) -> Pairs:
    """Return (source, target) of a collective-permute, `send` or `recv` in flattened ids.

    `send` and `recv` between devices have theirs in
    `frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2}}}`; without, () is
    returned: a transfer to or from the host.

    Raises:
        HloError: a pair names a device that the module does not have.
    """
    pairs = _written_pairs(inst)
    counts, mode = module_devices(inst.computation.module), group_mode(inst)
    check_total(counts.total)
    _check_ids(inst, (i for pair in pairs for i in pair), counts.numbered(mode))
    width = counts.partitions
    if mode is GroupMode.REPLICAS:
        return tuple((s * width + p, t * width + p) for s, t in pairs for p in range(width))
    return tuple((r * width + s, r * width + t) for s, t in pairs for r in range(counts.replicas))


def _written_pairs(inst: Instruction) -> Pairs:
    if inst.is_a(*PERMUTES):
        pairs: Pairs = inst.attributes.source_target_pairs
        return pairs
    text = dict(inst.common.frontend_attributes).get(_SEND_RECV_PAIRS, "")
    return tuple((int(pair[1]), int(pair[2])) for pair in _PAIR.finditer(text))


def devices_text(numbers: Sequence[int]) -> str:
    """Return `device 3` or `devices 0-3, 7`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] + 1 == number:
            runs[-1].append(number)
        else:
            runs.append([number])
    text = ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
    return f"device {text}" if len(numbers) == 1 else f"devices {text}"


def _connected(pairs: Pairs) -> Lists:
    """Return the connected components of pairs, sorted, ordered by their smallest device."""
    group_of: dict[int, list[int]] = {}
    for source, target in pairs:
        group = group_of.setdefault(source, [source])
        other = group_of.setdefault(target, [target])
        if group is not other:
            small, large = sorted((group, other), key=len)
            large += small
            for device in small:
                group_of[device] = large
    distinct = {id(group): sorted(group) for group in group_of.values()}
    return tuple(sorted(map(tuple, distinct.values())))


def _check_ids(inst: Instruction, ids: Iterable[int], count: int) -> None:
    for i in ids:
        if not 0 <= i < count:
            raise HloError(
                f"{inst.opcode.name} '{inst.name}' names {_noun(inst, 1)} {i}, but the module has "
                f"{count} {_noun(inst, count)}",
                inst.span,
            )


def _noun(inst: Instruction, count: int) -> str:
    """Return the noun for the numbers of the groups."""
    mode = group_mode(inst)
    noun = {GroupMode.PARTITIONS: "partition", GroupMode.FLATTENED: "device"}.get(mode, "replica")
    return noun if count == 1 else noun + "s"


def check_total(count: int) -> None:
    """Raise HloError if there are more devices than can be listed."""
    if count > MAX_DEVICES:
        raise HloError(f"the module is for {count} devices, more than {MAX_DEVICES}")
