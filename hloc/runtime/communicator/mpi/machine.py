"""Exchanges over MPI, without Python: this file is translated to machine code, and never run.

The structures are those of `native.py`. A function of MPI is called with nine 64-bit arguments, of
which it takes as many as it has parameters: the calling conventions of all machines that hloc runs
on allow that.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from hloc.codegen.llvm.python_subset_stubs import (
    Words,
    call,
    cast,
    clock_gettime,
    memcpy,
    memset,
    stack,
)

CallList: TypeAlias = Any
Device: TypeAlias = Any


def exchange_by_mpi(device: Device, number: int, arrays: Words) -> int:
    """Carry out exchange `number`; the result is not 0 if it failed."""
    if device.stopped:
        return 1
    begin = now(device)
    calls = cast(CallList, device.lists + number * 16)
    device.visits[device.rendezvous_of[number]] += 1
    device.number = number
    device.moves += 1
    values = stack(32)
    step = calls.first
    status = 0
    for i in range(calls.count):
        operand = step.operands
        for k in range(step.count):
            if operand.array < 0:
                values[k] = operand.value
            else:
                values[k] = arrays[operand.array] + operand.value
            operand = cast("Operand*", operand + 16)
        if step.is_own:
            status = call(step.function, device, values)
        else:
            status = call(
                step.function, values[0], values[1], values[2], values[3], values[4], values[5],
                values[6], values[7], values[8],
            )  # fmt: skip
        status = status & 4294967295
        if status != 0:
            device.failed_call = i
            device.status = status
            return 1
        step = cast("Call*", step + 32)
    device.moves += 1
    device.nanoseconds[number] += now(device) - begin
    return 0


def now(device: Device) -> int:
    """Return nanoseconds of the clock that only goes forward."""
    time = stack(2)
    clock_gettime(device.clock, time)
    return time[0] * 1000000000 + time[1]  # type: ignore[no-any-return]


def copy(device: Device, values: Words) -> int:
    """Copy: target, source, bytes."""
    memcpy(values[0], values[1], values[2])
    return 0


def set_zero(device: Device, values: Words) -> int:
    """Fill with zeros: target, bytes."""
    memset(values[0], 0, values[1])
    return 0


def set_word(device: Device, values: Words) -> int:
    """Store a number: target, number."""
    target = cast(Words, values[0])
    target[0] = values[1]
    return 0


def compare_words(device: Device, values: Words) -> int:
    """Compare numbers that were received with the own one: words, count, number."""
    words = cast(Words, values[0])
    for i in range(values[1]):
        if words[i] != values[2]:
            device.other_peer = i
            device.other_number = words[i]
            return 1
    return 0


def combine(device: Device, values: Words) -> int:
    """Reduce parts of all members in the order of their ranks.

    Function, members, first part, bytes from one to the next, own rank, own part if it does not
    lie among the others, result, elements, bytes of an element.
    """
    members = values[1]
    row = cast(Words, device.row)
    done = 0
    while done < values[7]:
        offset = done * values[8]
        for k in range(members):
            row[k] = values[2] + k * values[3] + offset
        if values[5] != 0:
            row[values[4]] = values[5] + offset
        row[members] = values[6] + offset
        count = min(values[7] - done, 4096)
        call(values[0], row, count)
        done += count
    return 0


def number_at(address: int, width: int, index: int) -> int:
    """Return element `index` of an array of integers; a negative width stands for signed ones."""
    if width == -4:
        return cast("int32_t*", address)[index]  # type: ignore[no-any-return]
    if width == 4:
        return cast("uint32_t*", address)[index]  # type: ignore[no-any-return]
    if width == -2:
        return cast("int16_t*", address)[index]  # type: ignore[no-any-return]
    if width == 2:
        return cast("uint16_t*", address)[index]  # type: ignore[no-any-return]
    if width == -1:
        return cast("int8_t*", address)[index]  # type: ignore[no-any-return]
    if width == 1:
        return cast("uint8_t*", address)[index]  # type: ignore[no-any-return]
    return cast("int64_t*", address)[index]  # type: ignore[no-any-return]


def rows_outside(device: Device, rank: int, count: int, start: int, place: int) -> int:
    """Keep what is wrong with rows that a member sends; the result is not 0."""
    device.fault_rank = rank
    device.fault_count = count
    device.fault_start = start
    device.fault_place = place
    return 1


def exchange_rows(device: Device, values: Words) -> int:
    """Send rows to the members of a group and receive theirs.

    0 members, 1 updates per member, 2 bytes of a number, negative for signed ones, 3 own rank,
    4 ranks in the communicator,
    5 tags to them, 6 tags from them, 7 communicator, 8 type of a byte, 9 bytes of a row,
    10 rows to send from, 11 how many there are, 12 starts, 13 counts to send, 14 result, 15 how
    many rows it has, 16 counts to receive, 17 places, 18 MPI_Isend, 19 MPI_Irecv, 20 MPI_Waitall,
    21 requests, 22 bytes of a request, 23 statuses, 24 bytes of a message, 25 messages that rows
    to and from one member take at most, which their memory is for.
    """
    width = values[2]
    tags_to = cast(Words, values[5])
    tags_from = cast(Words, values[6])
    requests = stack(2)
    requests[0] = values[21]
    requests[1] = 0
    for i in range(values[0] * values[1]):
        peer = i // values[1]
        count = number_at(values[16], width, i)
        place = number_at(values[17], width, i)
        if count < 0 or place < 0 or place + count > values[15]:
            return rows_outside(device, peer, count, 0, place)
        if count > 0 and peer != values[3]:
            first = values[14] + place * values[9]
            status = begin_rows(values, values[19], first, count, peer, tags_from[peer], requests)
            if status != 0:
                return status
    for i in range(values[0] * values[1]):
        peer = i // values[1]
        count = number_at(values[13], width, i)
        start = number_at(values[12], width, i)
        if count < 0 or start < 0 or start + count > values[11]:
            return rows_outside(device, values[3], count, start, 0)
        if count > 0 and peer == values[3]:
            place = number_at(values[17], width, i)
            memcpy(
                values[14] + place * values[9], values[10] + start * values[9], count * values[9]
            )
        elif count > 0:
            first = values[10] + start * values[9]
            status = begin_rows(values, values[18], first, count, peer, tags_to[peer], requests)
            if status != 0:
                return status
    return call(values[20], requests[1], values[21], values[23])  # type: ignore[no-any-return]


def begin_rows(
    values: Words, begin: int, first: int, count: int, peer: int, tag: int, requests: Words
) -> int:
    """Begin the messages of rows, by `MPI_Isend` or `MPI_Irecv`; `requests`: the next, how many."""
    peers = cast(Words, values[4])
    left = count * values[9]
    while left > 0:
        size = min(left, values[24])
        status = call(begin, first, size, values[8], peers[peer], tag, values[7], requests[0])
        if status & 4294967295 != 0:
            return status & 4294967295  # type: ignore[no-any-return]
        requests[0] += values[22]
        requests[1] += 1
        first += size
        left -= size
    return 0
