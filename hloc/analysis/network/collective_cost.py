"""The cost of collectives: the bytes that a device sends, and the time on a network.

Bytes are those of ring algorithms (n members, `s` bytes of operands per device): all-reduce
2(n-1)/n s, all-gather (n-1) s, reduce-scatter and all-to-all (n-1)/n s, collective-permute s times
the share of devices that send. Over several mesh axes data is scattered along the fastest axis
first and gathered along it last, so that slow links carry the least; the sum is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, log2

from hloc.analysis.network.links import Link, Network
from hloc.ir.device_groups import device_groups, device_pairs, module_devices
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Transfer:
    """Part of a collective along one mesh axis.

    Attributes:
        axis: number of the axis, -1 if the group follows none.
        size_bytes: sent by a device.
        rounds: messages sent one after the other.
    """

    axis: int
    link: Link
    size_bytes: float
    rounds: int

    @property
    def seconds(self) -> float:
        return self.link.seconds(self.size_bytes, self.rounds)


def exchange_of(inst: Instruction) -> Instruction | None:
    """Return the collective that `inst` is or starts; None if it is none.

    For an `async-start` this is the root of the computation it calls.
    """
    if inst.opcode.exchange is not None:
        return inst
    if inst.is_a("async-start") and inst.called[0].root.opcode.exchange is not None:
        return inst.called[0].root
    return None


def operand_bytes(collective: Instruction) -> int:
    """Return the operand bytes per device; for a ragged-all-to-all those of operand 0, a bound."""
    operands = collective.operands[: 1 if collective.is_a("ragged-all-to-all") else None]
    return sum(operand.shape.size_bytes for operand in operands)


def members(collective: Instruction) -> int:
    """Return the size of the largest group."""
    return max(map(len, device_groups(collective)), default=1)


def bytes_sent(collective: Instruction) -> int:
    """Return the bytes that a device sends in one run, by the ring formulas.

    A collective-permute counts the average over all devices, other collectives the largest group.
    """
    size: float = operand_bytes(collective)
    if "shift" in collective.opcode.phases:
        pairs = [pair for pair in device_pairs(collective) if pair[0] != pair[1]]
        return ceil(size * len(pairs) / module_devices(collective.computation.module).total)
    total, n = 0.0, members(collective)
    for phase in collective.opcode.phases:
        sent, size = _phase(phase, size, n)
        total += sent
    return ceil(total)


def _phase(phase: str, size: float, n: int) -> tuple[float, float]:
    """Return the bytes that a device sends, and those that it holds afterwards."""
    if phase == "scatter":
        return size * (n - 1) / n, size / n
    if phase == "gather":
        return size * (n - 1), size * n
    return size * (n - 1) / n, size


def transfers(collective: Instruction, network: Network) -> tuple[Transfer, ...]:
    """Return the transfers of a collective along each mesh axis, in order."""
    if "shift" in collective.opcode.phases:
        return tuple(_shift(collective, network))
    groups = device_groups(collective)
    if not groups:
        return ()
    group = max(groups, key=len)
    axes = _axes(network, group)
    found: list[Transfer] = []
    size: float = operand_bytes(collective)
    for phase in collective.opcode.phases:
        inward = phase in ("scatter", "relay")  # from fast links to slow ones
        for axis, n in sorted(axes, key=lambda a: -_rate(network, a[0]), reverse=not inward):
            sent, left = _phase(phase, size, n)
            link = network.links[axis]
            found.append(Transfer(axis, link, sent, _rounds(phase, n)))
            size = size / n if phase in ("swap", "relay") else left
    return tuple(found)


def _rate(network: Network, axis: int) -> float:
    return network.links[axis].bytes_per_second


def _axes(network: Network, group: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return (axis, devices along it) of the axes that `group` spans.

    A group that is not a sub-mesh counts as one ring over the slowest link it needs.
    """
    extents = network.spans(group)
    if extents is not None:
        return [(axis, n) for axis, n in enumerate(extents) if n > 1]
    at = network.coordinates(group)
    wide = [axis for axis in range(at.shape[1]) if len(set(at[:, axis].tolist())) > 1]
    return [(network.slowest(wide), len(group))]


def _rounds(phase: str, n: int) -> int:
    """Return the number of rounds: halving and doubling send the bytes of a ring in log2 n.

    All-to-all sends to all members at once, a relay sends in a pipeline.
    """
    return 1 if phase == "swap" else ceil(log2(n))


def _shift(collective: Instruction, network: Network) -> Iterator[Transfer]:
    """Yield the transfer along the slowest link that a pair needs."""
    pairs = [pair for pair in device_pairs(collective) if pair[0] != pair[1]]
    needed = {axis for s, t in pairs for axis in network.differing(s, t)}
    if needed:
        axis = network.slowest(sorted(needed))
        yield Transfer(axis, network.links[axis], operand_bytes(collective), 1)


def seconds_of(collective: Instruction, network: Network) -> float:
    """Return the modelled time of one run."""
    return sum(transfer.seconds for transfer in transfers(collective, network))


def axes_of(collective: Instruction, network: Network) -> tuple[str, ...]:
    """Return the names of the mesh axes that a collective exchanges along, in mesh order."""
    used = {transfer.axis for transfer in transfers(collective, network)}
    return tuple(name for axis, (name, _) in enumerate(network.mesh.axes) if axis in used)


def group_count(collective: Instruction) -> int:
    """Return the number of groups, each of which communicates on its own."""
    return len(device_groups(collective))
