"""How many devices must work together: the participants of a collective, the number behind an id.

Source of the modes of groups: XLA's `collective_ops_utils.h`.
"""

from __future__ import annotations

import re

from hloc.ir.instruction import Instruction
from hloc.shapes import ArrayShape, leaves

_OF_BOTH = frozenset(
    ("all-gather", "all-gather-start", "all-reduce", "all-reduce-start", "reduce-scatter")
)
"""Collectives whose groups of replicas hold all partitions of each, if they have a channel."""

_IOTA = re.compile(r"\[\d+,(\d+)\]<=")
_LIST = re.compile(r"\{([\d,]+)\}")


ADVICE = (
    "hloc runs a program on one device: export it for one "
    "(in JAX without a mesh), or run it with XLA"
)
"""What to do about it, in a message."""


def devices_reason(inst: Instruction) -> str:
    """Return why one device cannot run `inst`, "" if no other takes part in it."""
    name, config = inst.opcode.name, inst.computation.module.config
    if inst.opcode.exchange is not None:
        count = participants(inst)
        return f"it exchanges data between {count} devices; {ADVICE}" if count != 1 else ""
    if name == "partition-id" and config.num_partitions > 1:
        return f"it tells {config.num_partitions} partitions apart; {ADVICE}"
    if name == "replica-id" and config.replica_count > 1:
        return f"it tells {config.replica_count} replicas apart; {ADVICE}"
    return ""


def participants(inst: Instruction) -> int:
    """Return how many devices take part in a collective: the largest group that is written.

    `{}` is one group of all replicas, or of all partitions, or of both; shapes may tell of more
    participants than the module's header, which then is wrong.
    """
    attributes, config = inst.attributes, inst.computation.module.config
    name, has_channel = inst.opcode.name, bool(attributes.channel_id)
    replicas, partitions = config.replica_count, config.num_partitions
    devices = partitions if has_channel else replicas
    if name.startswith("collective-permute"):
        ids: list[int] = [i for pair in attributes.source_target_pairs for i in pair]
        return max([devices, *(i + 1 for i in ids)])
    has_both = name in _OF_BOTH and has_channel
    text = str(attributes.replica_groups).replace(" ", "")
    if text == "{}":
        count = replicas * partitions if has_both else devices
    else:
        spans_partitions = has_both and not attributes.use_global_device_ids
        count = _group_size(text, replicas * partitions) * (partitions if spans_partitions else 1)
    return max(count, _participants_of_shapes(inst))


def _participants_of_shapes(inst: Instruction) -> int:
    """Return how many devices the shapes tell of: `f32[8] all-gather(f32[2])` has four."""
    if inst.is_a("all-to-all") and inst.attributes.dimensions is None:
        return len(inst.operands)
    if not inst.is_a("all-gather", "all-gather-start", "reduce-scatter"):
        return 1
    result = [shape for _, shape in leaves(inst.shape)][-1]
    operand = inst.operands[-1].array
    assert isinstance(result, ArrayShape)
    (dim,) = inst.attributes.dimensions
    small, large = sorted((operand.dims[dim], result.dims[dim]))
    return large // small if small > 0 else 1


def _group_size(text: str, devices: int) -> int:
    """Return the size of the largest of some groups; groups along a mesh count as `devices`."""
    found = _IOTA.match(text)
    if found:
        return int(found[1])
    lists: list[str] = _LIST.findall(text)
    if text.startswith("mesh") or not lists:
        return max(devices, 2)
    return max(group.count(",") + 1 for group in lists)
