"""The calls of a device for a `send` or a `recv`, of functions in `machine_transfers.py`."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.plan.exchange import Exchange
from hloc.lazy_dataclass import dataclass
from hloc.runtime.communicator.mpi.call_lists import TRANSFERS, CallList
from hloc.runtime.communicator.mpi.calls import Buffer, Call, Handle, Operand
from hloc.runtime.communicator.mpi.transport import Processes


@dataclass(frozen=True, slots=True)
class Transfers:
    """The transfers of a program.

    Attributes:
        exchanges: all of the program.
        most_bytes: of one message.
    """

    exchanges: tuple[Exchange, ...]
    processes: Processes
    most_bytes: int

    def call_list(self, number: int, device: int) -> CallList:
        """Return the calls of `device` for exchange `number`; without a sender, it gets zeros."""
        exchange = self.exchanges[number]
        if exchange.opcode == "send":
            return self._send(number, device)
        result = exchange.results[0]
        source = next((source for source, target in exchange.pairs if target == device), None)
        if source is None:
            zeros = Call("set_zero", (Buffer("array"), result.size_bytes))
            return CallList((zeros,), (), 0, 0)
        call = Call(
            "fetch",
            (
                Buffer("array"), result.size_bytes,
                *self._envelope(exchange, source, device, source), self._kind(exchange),
                self.most_bytes, Handle("function", "MPI_Recv"), Buffer("statuses"),
            ),
        )  # fmt: skip
        peers = () if source == device else (source,)
        return CallList((call,), peers, 0, 1)

    def _send(self, number: int, device: int) -> CallList:
        exchange = self.exchanges[number]
        target = next((target for source, target in exchange.pairs if source == device), None)
        if target is None:
            return CallList((), (), 0, 0)
        size = exchange.operands[0].size_bytes
        messages = 1 + -(-size // self.most_bytes)
        call = Call(
            "post",
            (
                Buffer("array"), size, *self._envelope(exchange, device, target, target),
                number, self._kind(exchange), self.most_bytes, messages,
                Handle("function", "MPI_Isend"), Handle("request bytes"),
                Handle("function", "MPI_Testall"), Buffer("statuses"),
            ),
        )  # fmt: skip
        return CallList((call,), (), 0, messages)

    def _envelope(
        self, exchange: Exchange, source: int, target: int, other: int
    ) -> tuple[Operand, ...]:
        """Return process, tag, communicator and type of messages; each channel has its own tags."""
        channels = _numbers([e.channel for e in self.exchanges if e.opcode in TRANSFERS])
        tags = self.processes.per_process**2
        tag = channels[exchange.channel] * tags + self.processes.tag(source, target)
        return self.processes.process(other), tag, Handle("transfers"), Handle("type", "BYTE")

    def _kind(self, exchange: Exchange) -> int:
        """Return a number that identifies the shape of a transfer."""
        kinds = _numbers([e.meaning for e in self.exchanges if e.opcode in TRANSFERS])
        return kinds[exchange.meaning]


def _numbers(values: Sequence[object]) -> dict[object, int]:
    return {value: number for number, value in enumerate(dict.fromkeys(values))}
