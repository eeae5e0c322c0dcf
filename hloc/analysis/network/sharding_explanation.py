"""The data of `hloc explain-sharding`: the collectives of a module and their cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hloc.analysis.compute_time import ComputeTime
from hloc.analysis.network.collective_cost import axes_of, bytes_sent, exchange_of, members
from hloc.analysis.network.collective_reason import reason_of
from hloc.analysis.network.links import Network
from hloc.analysis.network.overlap import CollectiveTiming, OrderOf, timeline
from hloc.analysis.network.sharding_axes import axes_by_dimension, sharding_text
from hloc.analysis.run_counts import run_counts
from hloc.ir.device_groups import device_groups
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.origin import origin_of
from hloc.ir.sharding import LeafSharding, TupleSharding
from hloc.lazy_dataclass import dataclass
from hloc.parser.value_grammar import parse_value
from hloc.parser.value_tools import BadText, BadValue
from hloc.shapes import ArrayShape, Shape, leaves

_MOST_GROUPS = 64
"""Maximum number of groups, and of devices in them, in the data; pictures of larger meshes show a
corner."""


@dataclass(frozen=True, slots=True)
class CollectiveRow:
    """One collective of the text, and the total cost of its runs.

    Attributes:
        name: the collective, or the instruction that starts it.
        computation: the computation that contains it.
        text_line: of the HLO text, 0 if unknown.
        source: `train.py:31 in loss`, "" if the text does not say.
        op_name: name in the user's program, as JAX writes it.
        value: the instruction whose result is moved.
        needed_by: the instruction that needs it.
        reason: a sentence.
        before, after: shardings, as far as they are known.
        operands, result: shapes on one device.
        axes: mesh axes that it exchanges along.
        members: size of the largest group; there are `groups` of them.
        group_of: for each device its group, -1 for none; () for large meshes. Pairs of a permute
            that share a device count as one group.
        times: runs of it in one run of the module; `exact` if that is known.
        size_bytes: bytes that a device sends, in all runs together.
        seconds, exposed_seconds: modelled time of all runs, and the part that the device waits.
        slack_seconds: independent work that could overlap with it, in all runs.
        is_async: True if it is split into start and done.
    """

    name: str
    opcode: str
    computation: str
    text_line: int
    source: str
    op_name: str
    value: str
    needed_by: str
    reason: str
    before: str
    after: str
    operands: str
    result: str
    axes: tuple[str, ...]
    members: int
    groups: int
    group_of: tuple[int, ...]
    times: int
    exact: bool
    size_bytes: int
    seconds: float
    exposed_seconds: float
    slack_seconds: float
    is_async: bool

    @property
    def verdict(self) -> str:
        """`hidden`, `partly hidden`, `exposed`, or `could hide` if there is slack."""
        if self.exposed_seconds <= 0.01 * self.seconds:
            return "hidden"
        if self.exposed_seconds < 0.99 * self.seconds:
            return "partly hidden"
        return "could hide" if self.slack_seconds >= 0.1 * self.seconds else "exposed"


@dataclass(frozen=True, slots=True)
class ArrayRow:
    """An argument or result: its part on one device, and its sharding.

    Attributes:
        split: for each dimension the mesh axes that shard it, None if axes cannot express it.
    """

    name: str
    shape: str
    sharding: str
    size_bytes: int
    split: tuple[tuple[str, ...], ...] | None


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes on one device: the sum is what the program needs besides its code."""

    parameter_bytes: int
    output_bytes: int
    constant_bytes: int
    temporary_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.parameter_bytes + self.output_bytes + self.constant_bytes + self.temporary_bytes


@dataclass(frozen=True, slots=True)
class Advice:
    """A sharding that was tried on one value, and the bytes per device of all collectives then."""

    value: str
    shape: str
    sharding: str
    source: str
    size_bytes: int
    saved_bytes: int


@dataclass(frozen=True, slots=True)
class ShardingExplanation:
    """A partitioned module on a mesh.

    Attributes:
        mesh: axes and sizes.
        links: name of the link of each axis.
        device: the device whose peaks are used for compute time.
        seconds: modelled time of one run.
        advice: the annotations that save most bytes, best first; () if none was tried or helps.
        tried: how many were tried.
    """

    module: str
    devices: int
    mesh: tuple[tuple[str, int], ...]
    links: tuple[str, ...]
    device: str
    collectives: tuple[CollectiveRow, ...]
    arguments: tuple[ArrayRow, ...]
    results: tuple[ArrayRow, ...]
    seconds: float
    memory: DeviceMemory | None = None
    advice: tuple[Advice, ...] = ()
    tried: int = 0

    @property
    def total_bytes(self) -> int:
        """Bytes that a device sends in one run."""
        return sum(row.size_bytes for row in self.collectives)

    @property
    def collective_seconds(self) -> float:
        """Modelled time of all collectives."""
        return sum(row.seconds for row in self.collectives)

    @property
    def exposed_seconds(self) -> float:
        """The part of it that no independent work hides."""
        return sum(row.exposed_seconds for row in self.collectives)

    @property
    def mesh_text(self) -> str:
        return ",".join(f"{name}={size}" for name, size in self.mesh)


def total_bytes_sent(module: Module) -> int:
    """Return the bytes that a device sends in one run of `module`, by the ring formulas."""
    counts = run_counts(module)
    return sum(
        bytes_sent(inst) * counts[computation].times
        for computation in counts
        for inst in computation.instructions
        if inst.opcode.exchange is not None
    )


def explain_partitioned(
    module: Module, network: Network, compute: ComputeTime, order_of: OrderOf, device: str
) -> ShardingExplanation:
    """Return what the collectives of a partitioned module cost, in the order of the text."""
    model = timeline(module, compute, network, order_of)
    counts = run_counts(module)
    rows = []
    for timing in model.collectives:
        count = counts[timing.inst.computation]
        if count.times:
            rows.append(_row(timing, network, count.times, count.exact))
    rows.sort(key=lambda row: row.text_line)
    entry = module.entry
    arguments = tuple(_arguments(entry.parameters, network))
    return ShardingExplanation(
        module.name,
        network.mesh.count,
        network.mesh.axes,
        tuple(link.name for link in network.links),
        device,
        tuple(rows),
        arguments,
        tuple(_arrays("result", entry.root.shape, entry.root.common.sharding, network)),
        model.seconds,
    )


def _row(timing: CollectiveTiming, network: Network, times: int, exact: bool) -> CollectiveRow:
    """Return the row of one collective; bytes and seconds are of all `times` that it runs."""
    start = timing.inst
    collective = exchange_of(start)
    assert collective is not None
    axes = axes_of(collective, network)
    reason = reason_of(start, axes)
    groups = device_groups(collective)
    metadata = start.common.metadata or collective.common.metadata
    return CollectiveRow(
        start.name,
        collective.opcode.name,
        start.computation.name,
        _text_line(start),
        origin_of(start) or origin_of(collective),
        metadata.op_name if metadata is not None else "",
        reason.value,
        reason.needed_by,
        reason.text,
        _in_mesh_words(reason.before, network),
        _in_mesh_words(reason.after, network),
        ", ".join(operand.shape.text_without_layout for operand in start.operands),
        collective.shape.text_without_layout,
        axes,
        members(collective),
        len(groups),
        _group_of(groups, network.mesh.count),
        times,
        exact,
        bytes_sent(collective) * times,
        timing.seconds * times,
        timing.exposed_seconds * times,
        timing.slack_seconds * times,
        timing.is_async,
    )


def _in_mesh_words(text: str, network: Network) -> str:
    """Return a sharding as mesh axes per dimension; other texts unchanged."""
    if not text.startswith("{"):
        return text
    try:
        sharding = parse_value("sharding", text)
    except (BadText, BadValue, ValueError):  # from another tool
        return text
    return sharding_text(sharding, network.mesh) if isinstance(sharding, LeafSharding) else text


def _text_line(inst: Instruction) -> int:
    if inst.span is None:
        return 0
    return inst.span.source.line_column(inst.span.start)[0]


def _group_of(groups: Sequence[Sequence[int]], devices: int) -> tuple[int, ...]:
    if devices > _MOST_GROUPS:
        return ()
    found = [-1] * devices
    for number, group in enumerate(groups):
        met = {found[device] for device in group} - {-1}  # the pairs of a permute form chains
        found = [number if own in met else own for own in found]
        for device in group:
            found[device] = number
    numbers = {old: new for new, old in enumerate(dict.fromkeys(n for n in found if n >= 0))}
    return tuple(numbers.get(number, -1) for number in found)


def _arguments(parameters: Sequence[Instruction], network: Network) -> Iterator[ArrayRow]:
    for parameter in parameters:
        named = parameter.op_name or parameter.name
        yield from _arrays(named, parameter.shape, parameter.common.sharding, network)


def _arrays(
    name: str, shape: Shape, sharding: LeafSharding | TupleSharding | None, network: Network
) -> Iterator[ArrayRow]:
    parts = [(index, leaf) for index, leaf in leaves(shape) if isinstance(leaf, ArrayShape)]
    each: Sequence[LeafSharding | None] = [None] * len(parts)
    if sharding is not None:
        each = sharding.for_leaves(len(parts)).elements
    for (index, leaf), own in zip(parts, each, strict=False):
        place = "".join(f"{{{i}}}" for i in index)
        split = None if own is None else axes_by_dimension(own, network.mesh)
        text = sharding_text(own, network.mesh)
        yield ArrayRow(name + place, leaf.text_without_layout, text, leaf.size_bytes, split)
