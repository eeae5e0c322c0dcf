"""The rendezvous of a group (`Meeting`): members arrive, wait, share the work and leave.

The last member to arrive starts the work. It does small work alone while the others sleep; large
work is split into pieces, a few others are woken to do some, and the last finished piece ends the
rendezvous. A waiting device is counted as idle; when all devices are idle, the run is stopped as a
deadlock. A release removes the members from the count before it wakes them, so the count is never
too high.
"""

from __future__ import annotations

from hloc.codegen.llvm.python_subset_stubs import (
    Words,
    at,
    atomic_add,
    atomic_load,
    clock_gettime,
    exchange,
    free,
    stack,
)
from hloc.runtime.communicator.machine.moves import (
    piece_count,
    ragged_fault,
    run_piece,
)
from hloc.runtime.communicator.machine.stubs import (
    Device,
    Exchange,
    Meeting,
    Opcode_,
    Stop_,
    World,
    pause,
    sleep,
    wake,
)


def meet(world: World, device: Device, number: int, arrays: Words) -> int:
    """Meet the other members of the group."""
    what = world.exchange[number]
    meeting = world.meeting[what.meeting_of[device.number]]
    rank = what.rank_of[device.number]
    meeting.arrays[rank] = arrays
    meeting.exchanges[rank] = number
    phase = atomic_load(meeting.phase)
    if atomic_add(meeting.arrived, 1) == meeting.members - 1:
        meeting.combiners = what.combiners_of[device.number]
        return lead(world, what, meeting, number, phase)
    device.waits_at = number + 1
    count_idle(world)
    while atomic_load(meeting.phase) == phase:
        if rest(world, meeting, phase) != 0:
            return 1
    if atomic_load(meeting.phase) == phase + 1:
        help_with(world, what, meeting, phase)
        while atomic_load(meeting.phase) == phase + 1:
            if rest(world, meeting, phase + 1) != 0:
                return 1
    if atomic_load(world.stopped) != 0:
        return 1
    device.waits_at = 0
    return 0


def count_idle(world: World) -> None:
    """Count one more idle device; if that is the last and not all have finished, none can go on."""
    last = world.devices - 1
    if atomic_add(world.idle, 1) == last and atomic_load(world.finished) <= last:
        stop(world, Stop_.DEADLOCK)


def lead(world: World, what: Exchange, meeting: Meeting, number: int, phase: int) -> int:
    """Begin the work of a meeting that is complete."""
    atomic_add(world.idle, 1 - meeting.members)
    meeting.arrived = 0
    for rank in range(meeting.members):
        other = meeting.exchanges[rank]
        if world.exchange[other].kind != what.kind:
            world.fault_exchange = number
            world.fault_count = other
            world.fault_device = meeting.devices[rank]
            stop(world, Stop_.MISMATCH)
            return 1
    if what.opcode == Opcode_.ragged_all_to_all and ragged_fault(world, what, meeting) != 0:
        world.fault_exchange = number
        stop(world, Stop_.ROWS)
        return 1
    pieces = piece_count(what, meeting)
    if pieces <= 0:  # small: one thread is faster than waking another
        for piece in range(-pieces):
            run_piece(what, meeting, piece)
        release(meeting, phase)
        return 0
    meeting.pieces = pieces
    meeting.next = 0
    meeting.left = pieces
    exchange(meeting.phase, phase + 1)
    if atomic_load(meeting.sleepers) > 0:
        wake(at(meeting.phase), world.helpers)
    help_with(world, what, meeting, phase)
    while atomic_load(meeting.phase) == phase + 1:
        if rest(world, meeting, phase + 1) != 0:
            return 1
    return 0


def help_with(world: World, what: Exchange, meeting: Meeting, phase: int) -> None:
    """Do pieces of the work until none is left to take; who does the last one ends the meeting."""
    while atomic_load(world.stopped) == 0:
        piece = atomic_add(meeting.next, 1)
        if piece >= meeting.pieces:
            return
        run_piece(what, meeting, piece)
        if atomic_add(meeting.left, -1) == 1:
            release(meeting, phase)
            return


def release(meeting: Meeting, phase: int) -> None:
    """Let all members go that gathered in `phase`."""
    exchange(meeting.phase, phase + 2)
    if atomic_load(meeting.sleepers) > 0:
        wake(at(meeting.phase), meeting.members)


def rest(world: World, meeting: Meeting, phase: int) -> int:
    """Wait a while for the end of a phase; returns 1 if the run has been stopped."""
    for _look in range(world.spins):
        if atomic_load(meeting.phase) != phase:
            return 0
        pause()
    atomic_add(meeting.sleepers, 1)
    stopped: int = atomic_load(world.stopped)
    if stopped == 0:
        sleep(at(meeting.phase), phase)
        stopped = atomic_load(world.stopped)
    atomic_add(meeting.sleepers, -1)
    if stopped != 0:
        return 1
    return 0


def stop(world: World, why: int) -> None:
    """End the run of all devices, and wake those that sleep; the first reason is kept."""
    if atomic_add(world.stops, 1) != 0:
        return
    exchange(world.stopped, why)
    for i in range(world.devices):
        world.states[i].stop[0] = 1
    for i in range(world.meetings):
        meeting = world.meeting[i]
        atomic_add(meeting.phase, 1 << 30)
        wake(at(meeting.phase), world.devices)


def reset(world: World) -> None:
    """Get ready for a run; after one that was stopped, meetings may have members."""
    world.idle = 0
    world.finished = 0
    for i in range(world.meetings):
        box = world.meeting[i]
        while box.first is not None:
            message = box.first
            box.first = message.next
            free(message)
    if world.stopped != 0:
        for i in range(world.meetings):
            meeting = world.meeting[i]
            meeting.phase = 0
            meeting.arrived = 0
            meeting.sleepers = 0
            meeting.waiting = 0
    for i in range(world.devices):
        world.states[i].waits_at = 0
        world.states[i].stop[0] = 0
    world.stops = 0
    world.stopped = 0


def finish(world: World, device: Device) -> None:
    """Count a device that has come to its end; others may wait for it in vain."""
    if atomic_load(world.stopped) == 0:
        device.waits_at = -1
    atomic_add(world.finished, 1)
    count_idle(world)


def now(world: World) -> int:
    """Return the time in nanoseconds."""
    time = stack(2)
    clock_gettime(world.clock, time)
    nanoseconds: int = time[0] * 1000000000 + time[1]
    return nanoseconds
