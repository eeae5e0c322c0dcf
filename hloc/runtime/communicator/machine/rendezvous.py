"""The rendezvous of a group (`Rendezvous`): members arrive, wait, share the work and leave.

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
    Opcode_,
    Rendezvous,
    Stop_,
    World,
    pause,
    sleep,
    wake,
)


def meet(world: World, device: Device, number: int, arrays: Words) -> int:
    """Do an exchange with the other members of the group; returns 1 if the run has been stopped."""
    what = world.exchange[number]
    rendezvous = world.rendezvous[what.rendezvous_of[device.number]]
    rank = what.rank_of[device.number]
    rendezvous.arrays[rank] = arrays
    rendezvous.exchanges[rank] = number
    phase = atomic_load(rendezvous.phase)
    if atomic_add(rendezvous.arrived, 1) == rendezvous.members - 1:
        rendezvous.combiners = what.combiners_of[device.number]
        return begin_work(world, what, rendezvous, number, phase)
    device.waits_at = number + 1
    count_idle(world)
    if wait_past(world, rendezvous, phase) != 0:
        return 1
    if atomic_load(rendezvous.phase) == phase + 1:
        do_pieces(world, what, rendezvous, phase)
        if wait_past(world, rendezvous, phase + 1) != 0:
            return 1
    if atomic_load(world.stopped) != 0:
        return 1
    device.waits_at = 0
    return 0


def count_idle(world: World) -> None:
    """Count one more idle device; when all are and some have not finished, it is a deadlock."""
    last = world.devices - 1
    if atomic_add(world.idle, 1) == last and atomic_load(world.finished) <= last:
        stop(world, Stop_.DEADLOCK)


def begin_work(
    world: World, what: Exchange, rendezvous: Rendezvous, number: int, phase: int
) -> int:
    """Begin the work of a rendezvous at which all members have arrived."""
    atomic_add(world.idle, 1 - rendezvous.members)
    rendezvous.arrived = 0
    for rank in range(rendezvous.members):
        other = rendezvous.exchanges[rank]
        if world.exchange[other].kind != what.kind:
            world.fault_exchange = number
            world.fault_count = other
            world.fault_device = rendezvous.devices[rank]
            stop(world, Stop_.MISMATCH)
            return 1
    if what.opcode == Opcode_.ragged_all_to_all and ragged_fault(world, what, rendezvous) != 0:
        world.fault_exchange = number
        stop(world, Stop_.ROWS)
        return 1
    pieces = piece_count(what, rendezvous)
    if pieces <= 0:  # small: one thread is faster than waking another
        for piece in range(-pieces):
            run_piece(what, rendezvous, piece)
        release(rendezvous, phase)
        return 0
    rendezvous.pieces = pieces
    rendezvous.next = 0
    rendezvous.left = pieces
    exchange(rendezvous.phase, phase + 1)
    if atomic_load(rendezvous.sleepers) > 0:
        wake(at(rendezvous.phase), world.helpers)
    do_pieces(world, what, rendezvous, phase)
    return wait_past(world, rendezvous, phase + 1)


def do_pieces(world: World, what: Exchange, rendezvous: Rendezvous, phase: int) -> None:
    """Do pieces of the work until all are taken; the last one done ends the rendezvous."""
    while atomic_load(world.stopped) == 0:
        piece = atomic_add(rendezvous.next, 1)
        if piece >= rendezvous.pieces:
            return
        run_piece(what, rendezvous, piece)
        if atomic_add(rendezvous.left, -1) == 1:
            release(rendezvous, phase)
            return


def release(rendezvous: Rendezvous, phase: int) -> None:
    """Wake the members that arrived in `phase`."""
    exchange(rendezvous.phase, phase + 2)
    if atomic_load(rendezvous.sleepers) > 0:
        wake(at(rendezvous.phase), rendezvous.members)


def wait_past(world: World, rendezvous: Rendezvous, phase: int) -> int:
    """Wait until a phase has ended; returns 1 if the run has been stopped."""
    while atomic_load(rendezvous.phase) == phase:
        if wait_once(world, rendezvous, phase) != 0:
            return 1
    return 0


def wait_once(world: World, rendezvous: Rendezvous, phase: int) -> int:
    """Spin, then sleep until woken, unless the phase ends; returns 1 if the run is stopped."""
    for _spin in range(world.spins):
        if atomic_load(rendezvous.phase) != phase:
            return 0
        pause()
    atomic_add(rendezvous.sleepers, 1)
    stopped: int = atomic_load(world.stopped)
    if stopped == 0:
        sleep(at(rendezvous.phase), phase)
        stopped = atomic_load(world.stopped)
    atomic_add(rendezvous.sleepers, -1)
    if stopped != 0:
        return 1
    return 0


def stop(world: World, why: int) -> None:
    """End the run of all devices and wake those that sleep; only the first reason counts."""
    if atomic_add(world.stops, 1) != 0:
        return
    exchange(world.stopped, why)
    for i in range(world.devices):
        world.states[i].stop[0] = 1
    for i in range(world.rendezvous_count):
        rendezvous = world.rendezvous[i]
        atomic_add(rendezvous.phase, 1 << 30)
        wake(at(rendezvous.phase), world.devices)


def reset(world: World) -> None:
    """Prepare for a run; after one that was stopped, a rendezvous may still have members."""
    world.idle = 0
    world.finished = 0
    for i in range(world.rendezvous_count):
        box = world.rendezvous[i]
        while box.first is not None:
            message = box.first
            box.first = message.next
            free(message)
    if world.stopped != 0:
        for i in range(world.rendezvous_count):
            rendezvous = world.rendezvous[i]
            rendezvous.phase = 0
            rendezvous.arrived = 0
            rendezvous.sleepers = 0
            rendezvous.waiting = 0
    for i in range(world.devices):
        world.states[i].waits_at = 0
        world.states[i].stop[0] = 0
    world.stops = 0
    world.stopped = 0


def finish(world: World, device: Device) -> None:
    """Count a device that has finished; if all others wait for it, that is a deadlock."""
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
