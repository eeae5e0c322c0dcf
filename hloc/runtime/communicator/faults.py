"""The errors of engines for exchanges that cannot take place."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.plan.exchange import Exchange
from hloc.errors import HloError
from hloc.ir.device_groups import devices_text
from hloc.runtime.communicator.interface import ExchangeProgram

_MOST_NOTES = 8


def deadlock(program: ExchangeProgram, waits_at: Sequence[int]) -> HloError:
    """Return the error of a deadlock.

    Args:
        program: the program.
        waits_at: per device the number of its exchange, counted from 1, or -1 if it has finished.
    """
    at: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for device, number in enumerate(waits_at):
        if number > 0:
            missing = tuple(_missing(program, waits_at, device))
            at.setdefault((number - 1, missing), []).append(device)
    notes = [
        f"{devices_text(waiting)} at {described(program.exchanges[number])}, "
        f"waiting for {devices_text(missing)}"
        for (number, missing), waiting in at.items()
    ]
    if len(notes) > _MOST_NOTES:
        notes = [*notes[:_MOST_NOTES], f"and {len(notes) - _MOST_NOTES} more groups of devices"]
    finished = [device for device, number in enumerate(waits_at) if number < 0]
    if finished:
        notes.append(f"{devices_text(finished)} at the end of the program")
    first = program.exchanges[next(iter(at))[0]]
    return HloError(
        f"deadlock: no device can continue past {_opcode(first)} '{first.name}'", notes=notes
    )


def _missing(program: ExchangeProgram, waits_at: Sequence[int], device: int) -> list[int]:
    """Return the members of a device's group that are not where it waits."""
    own = program.exchanges[waits_at[device] - 1]
    if own.opcode == "recv":
        return [source for source, target in own.pairs if target == device]
    group = next(group for group in own.groups if device in group)

    def has_come(member: int) -> bool:
        if waits_at[member] <= 0:
            return False
        other = program.exchanges[waits_at[member] - 1]
        same = (other.opcode, other.channel) == (own.opcode, own.channel)
        return same and group in other.groups

    return [member for member in group if not has_come(member)]


def mismatch(own: Exchange, other: Exchange, device: int) -> HloError:
    """Return the error of a rendezvous of two instructions that are not the same collective."""
    what = (own.meaning, other.meaning) if own.meaning != other.meaning else ("", "another reducer")
    return HloError(
        f"device {device} meets the others with {what[1]}{', not ' + what[0] if what[0] else ''}",
        notes=(f"device {device} is at {described(other)}", f"others are at {described(own)}"),
    )


def rows_outside(exchange: Exchange, sender: int, numbers: tuple[int, int, int]) -> HloError:
    """Return the error of a ragged all-to-all whose counts do not fit the arrays."""
    count, start, target = numbers
    return HloError(
        f"{described(exchange)}: {count} rows that device {sender} sends from row {start} do not "
        f"fit at row {target}"
    )


def described(exchange: Exchange) -> str:
    """Return opcode, name and place of an exchange: `all-reduce 'sum.1' (m.hlo:12:3)`."""
    where = f" ({exchange.place})" if exchange.place else ""
    return f"{_opcode(exchange)} '{exchange.name}'{where}"


def _opcode(exchange: Exchange) -> str:
    return "recv-done" if exchange.opcode == "recv" else exchange.opcode
