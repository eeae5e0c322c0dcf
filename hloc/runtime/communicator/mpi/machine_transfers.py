"""Transfers between devices over MPI, without Python: translated to machine code like `machine.py`.

A device that sends does not wait: it sends a copy of the data, which is freed once MPI has sent it.
A header precedes the data. By it the receiver recognises data of another shape, and data of an
earlier run, which nobody received then.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Device: TypeAlias = Any
Message: TypeAlias = Any
Words: TypeAlias = Any
call = cast = free = malloc = memcpy = stack = size_of = Words
Fault_: Any = None


def post(device: Device, values: Words) -> int:
    """Send a copy of data: a header, then the data in messages of at most `most_bytes`."""
    data = values[0]
    data_bytes = values[1]
    process = values[2]
    tag = values[3]
    communicator = values[4]
    byte = values[5]
    exchange = values[6]
    kind = values[7]
    most_bytes = values[8]
    messages = values[9]
    isend = values[10]
    request_bytes = values[11]
    sweep(device, values[12], values[13])
    requests_bytes = messages * request_bytes
    message = cast(Message, malloc(size_of(Message) + requests_bytes + data_bytes))
    if message is None:
        return Fault_.MEMORY  # type: ignore[no-any-return]
    message.messages = messages
    message.run = device.run
    message.exchange = exchange
    message.kind = kind
    message.size_bytes = data_bytes
    message.next = device.mail
    request = message + size_of(Message)
    first = request + requests_bytes
    memcpy(first, data, data_bytes)
    status = call(isend, message + 16, 32, byte, process, tag, communicator, request)
    left = data_bytes
    while left > 0 and status & 4294967295 == 0:
        size = min(left, most_bytes)
        request += request_bytes
        status = call(isend, first, size, byte, process, tag, communicator, request)
        first += size
        left -= size
    device.mail = message
    return status  # type: ignore[no-any-return]


def sweep(device: Device, testall: int, statuses: int) -> int:
    """Free the messages that MPI has sent; returns 1 if some are still in transit."""
    flag = stack(1)
    last = cast(Message, 0)
    message = device.mail
    while message is not None:
        following = message.next
        flag[0] = 0
        call(testall, message.messages, message + size_of(Message), flag, statuses)
        if flag[0] & 4294967295 == 0:
            last = message
        else:
            if last is None:
                device.mail = following
            else:
                last.next = following
            free(message)
        message = following
    if device.mail is None:
        return 0
    return 1


def fetch(device: Device, values: Words) -> int:
    """Receive data; that of an earlier run is dropped.

    0 result, 1 bytes, 2 process, 3 tag, 4 communicator, 5 type of a byte, 6 kind of data, 7 bytes
    of a message, 8 MPI_Recv, 9 status.
    """
    header = stack(4)
    status = receive(values, header, 32, 32)
    while status & 4294967295 == 0 and header[0] < device.run:
        dropped = malloc(header[3])
        if dropped == 0 and header[3] > 0:
            return Fault_.MEMORY  # type: ignore[no-any-return]
        status = receive(values, dropped, header[3], values[7])
        free(dropped)
        if status & 4294967295 == 0:
            status = receive(values, header, 32, 32)
    if status & 4294967295 != 0:
        return status
    device.other_number = header[1]
    if header[0] > device.run:
        return Fault_.LATER  # type: ignore[no-any-return]
    if header[2] != values[6]:
        return Fault_.MISMATCH  # type: ignore[no-any-return]
    return receive(values, values[0], values[1], values[7])


def receive(values: Words, target: int, size_bytes: int, most_bytes: int) -> int:
    """Receive bytes as they were sent, in messages of at most `most_bytes`."""
    status = 0
    left = size_bytes
    while left > 0 and status & 4294967295 == 0:
        size = min(left, most_bytes)
        status = call(
            values[8], target, size, values[5], values[2], values[3], values[4], values[9]
        )  # fmt: skip
        target += size
        left -= size
    return status
