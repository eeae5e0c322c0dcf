"""The calls of one device for one collective.

A sum has the same bits as on every other engine: parts are gathered and combined in the order of
the ranks, unless MPI computes the sum (`native_sums.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hloc.codegen.plan.exchange import Exchange, Pieces
from hloc.dtypes import dtype_named
from hloc.runtime.communicator.mpi.calls import (
    Buffer,
    Call,
    Handle,
    Operand,
    Part,
    Row,
    contiguous_row,
)
from hloc.runtime.communicator.mpi.native_sums import native_sum
from hloc.runtime.communicator.mpi.transport import Collectives, Messages, Processes, Transport

SMALL_BYTES = 16384
"""Arrays up to this size are gathered and reduced on every device, in one round of messages."""

_ALIGNED_ELEMENTS = 64
"""Shares of a large reduction are a multiple of this."""


class CollectiveCalls:
    """The part of one device in one exchange; arrays are numbered as the program passes them."""

    def __init__(
        self,
        exchange: Exchange,
        group: tuple[int, ...],
        device: int,
        processes: Processes,
        *,
        fast: bool,
        most_bytes: int,
    ) -> None:
        self.exchange, self.group, self.device, self.fast = exchange, group, device, fast
        self.most_bytes = most_bytes
        self.rank = group.index(device) if group else 0
        self.messages = Messages(processes, group, self.rank, most_bytes=most_bytes)
        self.is_spread = processes.are_apart(group)
        self.scratch_bytes = 0

    def calls(self) -> tuple[Call, ...]:
        """Return the calls, array by array."""
        match self.exchange.opcode:
            case "collective-permute":
                return self._permute()
            case "ragged-all-to-all":
                return self._ragged()
            case "all-to-all" if self.exchange.operands[0].count == 1 < len(self.group):
                return self._all_to_all_arrays()
        one = _BY_ARRAY[self.exchange.opcode]
        return tuple(
            call
            for i, operand in enumerate(self.exchange.operands)
            if operand.size_bytes
            for call in one(self, i)
        )

    def peers(self) -> tuple[int, ...]:
        """Return the other devices that must take part."""
        if self.exchange.opcode != "collective-permute":
            return tuple(device for device in self.group if device != self.device)
        pairs = [pair for pair in self.exchange.pairs if self.device in pair]
        return tuple(dict.fromkeys(i for pair in pairs for i in pair if i != self.device))

    def zeros(self) -> Iterator[Call]:
        """Yield the calls that fill the results with zeros."""
        for i, result in enumerate(self.exchange.results):
            yield Call("set_zero", (self._result(i), result.size_bytes))

    def _transport(self, part_bytes: int) -> Transport:
        """Return the transport for parts of this size."""
        fits = self.is_spread and part_bytes <= self.most_bytes
        return Collectives(self.group) if fits else self.messages

    # ---- arrays

    def _operand(self, i: int) -> Buffer:
        return Buffer("array", i)

    def _result(self, i: int) -> Buffer:
        return Buffer("array", len(self.exchange.operands) + i)

    def _scratch(self, size_bytes: int, offset: int = 0) -> Buffer:
        self.scratch_bytes = max(self.scratch_bytes, offset + size_bytes)
        return Buffer("scratch", offset=offset)

    # ---- collectives of single arrays

    def _all_gather(self, i: int) -> tuple[Call, ...]:
        own = Part(self._operand(i), self.exchange.operands[i].size_bytes)
        row = _row(self._result(i), self.exchange.results[i])
        return self._transport(own.size_bytes).all_gather(own, row)

    def _all_to_all(self, i: int) -> tuple[Call, ...]:
        sent = _row(self._operand(i), self.exchange.operands[i])
        received = _row(self._result(i), self.exchange.results[i])
        return self._transport(sent.first.size_bytes).all_to_all(sent, received)

    def _broadcast(self, i: int) -> tuple[Call, ...]:
        part = Part(self._result(i), self.exchange.results[i].size_bytes)
        calls = self._transport(part.size_bytes).broadcast(part)
        if self.rank:
            return calls
        return (Call("copy", (part.buffer, self._operand(i), part.size_bytes)), *calls)

    def _all_reduce(self, i: int) -> tuple[Call, ...]:
        size = self.exchange.operands[i].size_bytes
        native = self._native_sum(i)
        if native is not None:
            operands = (self._operand(i), self._result(i), *native, self._communicator)
            return (Call("MPI_Allreduce", operands),)
        if size <= SMALL_BYTES or len(self.group) == 1:
            parts = contiguous_row(self._scratch(size * len(self.group)), size)
            own = Part(self._operand(i), size)
            gather = self._transport(size).all_gather(own, parts)
            return (*gather, self._combine(i, parts, self._result(i), size))
        return self._shared_all_reduce(i)

    def _shared_all_reduce(self, i: int) -> tuple[Call, ...]:
        """Reduce one share of the array and gather those of the others."""
        operand, members = self.exchange.operands[i], len(self.group)
        element = dtype_named(operand.dtype).storage_bytes
        unit = _ALIGNED_ELEMENTS * element
        share = -(-operand.size_bytes // (members * unit)) * unit
        others = [rank for rank in range(members) if rank != self.rank]

        def shares(buffer: Buffer) -> dict[int, Part]:
            sizes = (min(share, max(0, operand.size_bytes - k * share)) for k in range(members))
            return {k: Part(buffer.at(k * share), size) for k, size in enumerate(sizes)}

        sent, results = shares(self._operand(i)), shares(self._result(i))
        own = results[self.rank]
        parts = contiguous_row(self._scratch(share * members), share)
        received = {k: Part(parts.part(k).buffer, own.size_bytes) for k in others}
        reduced = self._combine(i, parts, own.buffer, own.size_bytes, sent[self.rank].buffer)
        return (
            *self.messages.exchange({k: sent[k] for k in others}, received),
            *((reduced,) if own.size_bytes else ()),
            *self.messages.exchange(dict.fromkeys(others, own), {k: results[k] for k in others}),
        )

    def _reduce_scatter(self, i: int) -> tuple[Call, ...]:
        operand, size = self.exchange.operands[i], self.exchange.results[i].size_bytes
        native = self._native_sum(i)
        if native is not None and operand.outer == 1:
            count, type_, op = native
            share = (count // len(self.group), type_, op, self._communicator)
            return (Call("MPI_Reduce_scatter_block", (self._operand(i), self._result(i), *share)),)
        parts = contiguous_row(self._scratch(size * len(self.group)), size)
        moves = self._transport(size).all_to_all(_row(self._operand(i), operand), parts)
        return (*moves, self._combine(i, parts, self._result(i), size))

    def _combine(
        self, i: int, parts: Row, result: Buffer, size_bytes: int, own: Operand = 0
    ) -> Call:
        """Return the call that reduces `parts`; that of this rank is in `own` if given."""
        members = len(self.group)
        combiner = next(
            c.symbol for c in self.exchange.combiners if (c.operand, c.members) == (i, members)
        )
        element = dtype_named(self.exchange.operands[i].dtype).storage_bytes
        return Call(
            "combine",
            (
                Handle("combiner", combiner), members, parts.first.buffer, parts.spacing_bytes,
                self.rank, own, result, size_bytes // element, element,
            ),
        )  # fmt: skip

    @property
    def _communicator(self) -> Handle:
        return Handle("communicator", self.group)

    def _native_sum(self, i: int) -> tuple[int, Handle, Handle] | None:
        """Return count, type and operation if MPI reduces operand `i`, else None."""
        pieces, members = self.exchange.operands[i], len(self.group)
        if not self.is_spread:
            return None
        reducer, most = self.exchange.reducer, self.most_bytes
        return native_sum(pieces, reducer, members, fast=self.fast, most_bytes=most)

    # ---- messages

    def _permute(self) -> tuple[Call, ...]:
        rank = self.group.index
        pairs = self.exchange.pairs
        targets = [rank(target) for source, target in pairs if source == self.device]
        sources = [rank(source) for source, target in pairs if target == self.device]
        calls: list[Call] = [] if sources else list(self.zeros())
        for i, operand in enumerate(self.exchange.operands):
            sent = dict.fromkeys(targets, Part(self._operand(i), operand.size_bytes))
            received = dict.fromkeys(sources, Part(self._result(i), operand.size_bytes))
            calls += self.messages.exchange(sent, received)
        return tuple(calls)

    def _all_to_all_arrays(self) -> tuple[Call, ...]:
        """Send operand k to rank k, receive result k from rank k."""
        sizes = list(enumerate(operand.size_bytes for operand in self.exchange.operands))
        return self.messages.exchange(
            {k: Part(self._operand(k), size) for k, size in sizes},
            {k: Part(self._result(k), size) for k, size in sizes},
        )

    def _ragged(self) -> tuple[Call, ...]:
        """Send each receiver the number of rows and their target, then the rows."""
        source, output, _, sizes, _, _ = self.exchange.operands
        members = len(self.group)
        dtype = dtype_named(sizes.dtype)
        element = dtype.storage_bytes
        updates = sizes.size_bytes // element // members
        part = updates * element
        counts = contiguous_row(self._scratch(sizes.size_bytes), part)
        places = contiguous_row(self._scratch(sizes.size_bytes, sizes.size_bytes), part)
        own = contiguous_row(self._operand(3), part), contiguous_row(self._operand(4), part)
        rows = source.inner_bytes
        transport = self._transport(part)
        messages = sum(-(-array.size_bytes // self.most_bytes) for array in (source, output))
        return (
            Call("copy", (self._result(0), self._operand(1), output.size_bytes)),
            *transport.all_to_all(own[0], counts),
            *transport.all_to_all(own[1], places),
            Call(
                "exchange_rows",
                (
                    members, updates, -element if dtype.is_signed else element, self.rank,
                    *self._peers(), Handle("world"),
                    Handle("type", "BYTE"), rows, self._operand(0), source.outer,
                    self._operand(2), self._operand(3), self._result(0), output.outer,
                    counts.first.buffer, places.first.buffer,
                    Handle("function", "MPI_Isend"), Handle("function", "MPI_Irecv"),
                    Handle("function", "MPI_Waitall"), Buffer("requests"),
                    Handle("request bytes"), Buffer("statuses"), self.most_bytes, messages,
                ),
            ),
        )  # fmt: skip

    def _peers(self) -> tuple[Handle, Handle, Handle]:
        """Return the processes of the group by rank, the tags to them and those from them."""
        processes = self.messages.processes
        return (
            Handle("words", tuple(processes.process(device) for device in self.group)),
            Handle("words", tuple(processes.tag(self.device, device) for device in self.group)),
            Handle("words", tuple(processes.tag(device, self.device) for device in self.group)),
        )


def _row(buffer: Buffer, pieces: Pieces) -> Row:
    """Return the pieces of an array."""
    stride = pieces.count * pieces.inner_bytes
    return Row(Part(buffer, pieces.inner_bytes, pieces.outer, stride), pieces.inner_bytes)


_BY_ARRAY: dict[str, Callable[[CollectiveCalls, int], tuple[Call, ...]]] = {
    "all-gather": CollectiveCalls._all_gather,
    "all-reduce": CollectiveCalls._all_reduce,
    "all-to-all": CollectiveCalls._all_to_all,
    "collective-broadcast": CollectiveCalls._broadcast,
    "reduce-scatter": CollectiveCalls._reduce_scatter,
}
