"""Point-to-point transfers: sent data waits in a mailbox until it is received.

The sender does not wait. The mailbox of a channel and a pair is the `Rendezvous` of the two
devices, in which only the receiver ever waits.
"""

from __future__ import annotations

from hloc.codegen.llvm.python_subset_stubs import (
    Words,
    at,
    atomic_add,
    atomic_load,
    cast,
    exchange,
    free,
    malloc,
    memcpy,
    sched_yield,
    size_of,
)
from hloc.runtime.communicator.machine.rendezvous import count_idle, stop, wait_past
from hloc.runtime.communicator.machine.stubs import (
    Device,
    Exchange,
    Message,
    Rendezvous,
    Stop_,
    World,
    wake,
)


def send(world: World, what: Exchange, box: Rendezvous, number: int, arrays: Words) -> int:
    """Put a copy of the data into the mailbox; returns 1 if there is no memory for it."""
    size = what.operand[0].inner_bytes
    message = cast(Message, malloc(size_of(Message) + size))
    if message is None:
        stop(world, Stop_.MEMORY)
        return 1
    message.next = None
    message.exchange = number
    memcpy(message + size_of(Message), arrays[0], size)
    lock_box(box)
    if box.first is None:
        box.first = message
    else:
        box.last.next = message
    box.last = message
    waiting = box.waiting
    box.waiting = 0
    unlock_box(box)
    if waiting:
        atomic_add(world.idle, -1)
    atomic_add(box.phase, 2)
    if atomic_load(box.sleepers) > 0:
        wake(at(box.phase), 1)
    return 0


def receive(world: World, what: Exchange, box: Rendezvous, device: Device, arrays: Words) -> int:
    """Wait for data in the mailbox and take the oldest; returns 1 if the run was stopped."""
    number = device.waits_at - 1
    device.waits_at = 0
    message = take_message(box)
    while message is None:
        phase = atomic_load(box.phase)
        lock_box(box)
        there = box.first
        if there is None:
            box.waiting = 1
        unlock_box(box)
        if there is None:
            device.waits_at = number + 1
            count_idle(world)
            if wait_past(world, box, phase) != 0:
                return 1
        if atomic_load(world.stopped) != 0:
            return 1
        device.waits_at = 0
        message = take_message(box)
    if world.exchange[message.exchange].kind != what.kind:
        world.fault_exchange = number
        world.fault_count = message.exchange
        world.fault_device = box.devices[0]
        free(message)
        stop(world, Stop_.MISMATCH)
        return 1
    memcpy(arrays[0], message + size_of(Message), what.result[0].inner_bytes)
    free(message)
    return 0


def take_message(box: Rendezvous) -> Message:
    """Remove and return the oldest message; null if there is none."""
    lock_box(box)
    message = box.first
    if message is not None:
        box.first = message.next
    unlock_box(box)
    return message


def lock_box(box: Rendezvous) -> None:
    """Acquire the lock of a mailbox, which is held for a few instructions only."""
    while exchange(box.lock, 1) != 0:
        sched_yield()


def unlock_box(box: Rendezvous) -> None:
    """Release the lock."""
    exchange(box.lock, 0)
