"""How many devices must work together: the participants of a collective, the number behind an id.

Source of the modes of groups: XLA's `collective_ops_utils.h`.
"""

from __future__ import annotations

import re

from hloc.ir.instruction import Instruction

_GROUPED = frozenset(
    (
        "all-gather",
        "all-gather-start",
        "all-reduce",
        "all-reduce-start",
        "all-to-all",
        "collective-broadcast",
        "ragged-all-to-all",
        "reduce-scatter",
    )
)
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
    if name in _GROUPED:
        count = participants(inst)
        return f"it exchanges data between {count} devices; {ADVICE}" if count != 1 else ""
    if name == "partition-id" and config.num_partitions > 1:
        return f"it tells {config.num_partitions} partitions apart; {ADVICE}"
    if name == "replica-id" and config.replica_count > 1:
        return f"it tells {config.replica_count} replicas apart; {ADVICE}"
    return ""


def participants(inst: Instruction) -> int:
    """Return the size of the largest group of a collective that has `replica_groups`.

    `{}` is one group of all replicas, or of all partitions, or of both.
    """
    attributes, config = inst.attributes, inst.computation.module.config
    name, has_channel = inst.opcode.name, bool(attributes.channel_id)
    text = str(attributes.replica_groups).replace(" ", "")
    has_both = name in _OF_BOTH and has_channel
    replicas, partitions = config.replica_count, config.num_partitions
    if text == "{}":
        if has_both:
            return replicas * partitions
        return partitions if has_channel else replicas
    size = _group_size(text, replicas * partitions)
    spans_partitions = has_both and not attributes.use_global_device_ids
    return size * (partitions if spans_partitions else 1)


def _group_size(text: str, devices: int) -> int:
    """Return the size of the largest of some groups; groups along a mesh count as `devices`."""
    found = _IOTA.match(text)
    if found:
        return int(found[1])
    lists: list[str] = _LIST.findall(text)
    if text.startswith("mesh") or not lists:
        return max(devices, 2)
    return max(group.count(",") + 1 for group in lists)
