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
    """Make the calls of exchange `number`; the result is not 0 if one failed."""
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
    """Return the nanoseconds of the monotonic clock."""
    time = stack(2)
    clock_gettime(device.clock, time)
    return time[0] * 1000000000 + time[1]  # type: ignore[no-any-return]


def copy(device: Device, values: Words) -> int:
    """Copy bytes; the values are target, source, bytes."""
    memcpy(values[0], values[1], values[2])
    return 0


def set_zero(device: Device, values: Words) -> int:
    """Fill with zeros; the values are target, bytes."""
    memset(values[0], 0, values[1])
    return 0


def set_word(device: Device, values: Words) -> int:
    """Store a number; the values are target, number."""
    target = cast(Words, values[0])
    target[0] = values[1]
    return 0


def compare_words(device: Device, values: Words) -> int:
    """Compare received numbers with the own one; the values are words, count, number."""
    words = cast(Words, values[0])
    for i in range(values[1]):
        if words[i] != values[2]:
            device.other_peer = i
            device.other_number = words[i]
            return 1
    return 0


def combine(device: Device, values: Words) -> int:
    """Reduce parts of all members in the order of their ranks, 4,096 elements at a time.

    Part k is at `first + k * stride`, except that of this rank if `own` is not 0.
    """
    reducer = values[0]
    members = values[1]
    first = values[2]
    stride = values[3]
    rank = values[4]
    own = values[5]
    result = values[6]
    elements = values[7]
    element_bytes = values[8]
    row = cast(Words, device.row)
    done = 0
    while done < elements:
        offset = done * element_bytes
        for k in range(members):
            row[k] = first + k * stride + offset
        if own != 0:
            row[rank] = own + offset
        row[members] = result + offset
        count = min(elements - done, 4096)
        call(reducer, row, count)
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
    """Record that rows of a member lie outside of an array; return the status of a failure."""
    device.fault_rank = rank
    device.fault_count = count
    device.fault_start = start
    device.fault_place = place
    return 1


def exchange_rows(device: Device, values: Words) -> int:
    """Send rows to the members of a group and receive theirs.

    From 18 on, the values are what `begin_rows` needs: 18 MPI_Isend, 19 MPI_Irecv, 20 MPI_Waitall,
    21 requests, 22 bytes of a request, 23 statuses, 24 bytes of a message, 25 messages that rows
    to and from one member take at most, which is the size of the requests' memory. Before them are
    4 ranks in the communicator, 7 communicator and 8 type of a byte.
    """
    members = values[0]
    updates = values[1]  # per member
    width = values[2]  # of a number in bytes, negative for signed ones
    own_rank = values[3]
    tags_to = cast(Words, values[5])
    tags_from = cast(Words, values[6])
    row_bytes = values[9]
    source = values[10]
    source_rows = values[11]
    starts = values[12]
    counts_to_send = values[13]
    result = values[14]
    result_rows = values[15]
    counts_to_receive = values[16]
    places = values[17]
    requests = stack(2)
    requests[0] = values[21]
    requests[1] = 0
    for i in range(members * updates):
        peer = i // updates
        count = number_at(counts_to_receive, width, i)
        place = number_at(places, width, i)
        if count < 0 or place < 0 or place + count > result_rows:
            return rows_outside(device, peer, count, 0, place)
        if count > 0 and peer != own_rank:
            first = result + place * row_bytes
            status = begin_rows(values, values[19], first, count, peer, tags_from[peer], requests)
            if status != 0:
                return status
    for i in range(members * updates):
        peer = i // updates
        count = number_at(counts_to_send, width, i)
        start = number_at(starts, width, i)
        if count < 0 or start < 0 or start + count > source_rows:
            return rows_outside(device, own_rank, count, start, 0)
        first = source + start * row_bytes
        if count > 0 and peer == own_rank:
            place = number_at(places, width, i)
            memcpy(result + place * row_bytes, first, count * row_bytes)
        elif count > 0:
            status = begin_rows(values, values[18], first, count, peer, tags_to[peer], requests)
            if status != 0:
                return status
    return call(values[20], requests[1], values[21], values[23])  # type: ignore[no-any-return]


def begin_rows(
    values: Words, begin: int, first: int, count: int, peer: int, tag: int, requests: Words
) -> int:
    """Begin the messages of some rows by `begin`, `MPI_Isend` or `MPI_Irecv`.

    `requests[0]` is the address of the next request, `requests[1]` the number of them so far.
    """
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
