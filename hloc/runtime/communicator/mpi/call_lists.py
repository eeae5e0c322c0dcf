"""Exchanges over MPI as lists of calls, for each device and each exchange of a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hloc.codegen.plan.exchange import Exchange
from hloc.lazy_dataclass import dataclass
from hloc.runtime.communicator.mpi.calls import (
    MESSAGE_BYTES,
    Buffer,
    Call,
    Handle,
    Part,
    contiguous_row,
)
from hloc.runtime.communicator.mpi.collectives import CollectiveCalls
from hloc.runtime.communicator.mpi.transport import Messages, Processes

_WORD = 8
TRANSFERS = ("send", "recv")


@dataclass(frozen=True, slots=True)
class CallList:
    """The calls of one device for one exchange, and the memory they need.

    Attributes:
        peers: the other devices that must take part for it to complete.
    """

    calls: tuple[Call, ...]
    peers: tuple[int, ...]
    scratch_bytes: int
    requests: int


@dataclass(frozen=True, slots=True)
class ExchangeOptions:
    """Options of exchanges.

    Attributes:
        fast: MPI may sum in any order.
        checked: peers first check that they are at the same exchange; None: only in programs whose
            devices may diverge.
        most_bytes: most bytes of one message; larger data is sent in pieces.
    """

    fast: bool = False
    checked: bool | None = None
    most_bytes: int = MESSAGE_BYTES


IN_ORDER = ExchangeOptions()
"""Sums in the order of the ranks, checked if devices may diverge."""


def rendezvous_numbers(exchanges: Sequence[Exchange], device: int) -> tuple[int, ...]:
    """Return the rendezvous of each exchange for `device`, equal for all members of a group.

    It is the number of the first exchange with the same meaning for the group: the branches of a
    conditional may each have an instruction for one rendezvous.
    """
    first: dict[Exchange, int] = {}
    result = []
    for number, exchange in enumerate(exchanges):
        if exchange.opcode in TRANSFERS:
            result.append(first.setdefault(_end_of(exchange.opcode, exchange), number))
            continue
        groups = (_group(exchange, device),)
        shared = replace(exchange, name="", place="", groups=groups, pairs=(), may_diverge=False)
        result.append(first.setdefault(shared, number))
    return tuple(result)


def awaited(exchanges: Sequence[Exchange]) -> tuple[int, ...]:
    """Return for each exchange the rendezvous at which its peers must arrive.

    It is that of the exchange itself, except that a receive waits for the sends of others.
    """
    own = rendezvous_numbers(exchanges, -1)
    sends = {_end_of("send", e): own[n] for n, e in enumerate(exchanges) if e.opcode == "send"}
    return tuple(
        sends.get(_end_of("send", exchange), number) if exchange.opcode == "recv" else number
        for number, exchange in zip(own, exchanges, strict=True)
    )


def _end_of(opcode: str, exchange: Exchange) -> Exchange:
    """Return the key of all sends, or of all receives, of one channel."""
    return Exchange(opcode, "", "", (), exchange.channel)


def call_list(
    exchange: Exchange, rendezvous: int, device: int, processes: Processes, options: ExchangeOptions
) -> CallList:
    """Return the calls of `device` for a collective; checked peers compare `rendezvous`."""
    group = _group(exchange, device)
    task = CollectiveCalls(
        exchange, group, device, processes, fast=options.fast, most_bytes=options.most_bytes
    )
    if not group:
        return CallList(tuple(task.zeros()), (), 0, 0)
    peers = task.peers()
    calls = task.calls()
    scratch_bytes = task.scratch_bytes
    if options.checked and peers:
        calls = (*_check(task.messages, rendezvous, peers), *calls)
        scratch_bytes = max(scratch_bytes, _WORD * len(group))
    requests = max((_requests(call) for call in calls), default=0)
    return CallList(calls, peers, scratch_bytes, requests)


def _group(exchange: Exchange, device: int) -> tuple[int, ...]:
    """Return the group of `device`, () if it is in none."""
    return next((group for group in exchange.groups if device in group), ())


def _check(messages: Messages, number: int, peers: tuple[int, ...]) -> tuple[Call, ...]:
    """Return the calls that send the number of the rendezvous to the peers, and compare theirs."""
    messages = replace(messages, channel=Handle("check"))
    ranks = [messages.group.index(peer) for peer in peers]
    told = Part(Buffer("scratch"), _WORD)
    row = contiguous_row(Buffer("scratch", offset=_WORD), _WORD)
    heard = {rank: row.part(i) for i, rank in enumerate(ranks)}
    return (
        Call("set_word", (told.buffer, number)),
        *messages.exchange(dict.fromkeys(ranks, told), heard),
        Call("compare_words", (row.first.buffer, len(ranks), number)),
    )


def _requests(call: Call) -> int:
    """Return how many requests `call` waits for."""
    if call.function == "exchange_rows":
        members, updates, *_, requests = call.operands
        assert isinstance(members, int)
        assert isinstance(updates, int)
        assert isinstance(requests, int)
        return members * updates * requests
    first = call.operands[0]
    return first if call.function == "MPI_Waitall" and isinstance(first, int) else 0
