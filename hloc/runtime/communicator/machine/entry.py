"""The function that generated code calls for an exchange."""

from __future__ import annotations

from hloc.codegen.llvm.python_subset_stubs import Words, atomic_load
from hloc.runtime.communicator.machine.moves import fill_alone
from hloc.runtime.communicator.machine.rendezvous import meet, now
from hloc.runtime.communicator.machine.stubs import Device, Opcode_, World
from hloc.runtime.communicator.machine.transfers import receive, send


def exchange_data(device: Device, number: int, arrays: Words) -> int:
    """Take part in an exchange with operands and results; returns 1 if the run has been stopped."""
    world = device.world
    begin = now(world)
    stopped: int = take_part(world, device, number, arrays)
    device.nanoseconds[number] += now(world) - begin
    return stopped


def take_part(world: World, device: Device, number: int, arrays: Words) -> int:
    """Do the exchange in the group of the device: a transfer, or a rendezvous of all members."""
    if atomic_load(world.stopped) != 0:
        return 1
    what = world.exchange[number]
    place = what.rendezvous_of[device.number]
    if place < 0:
        fill_alone(what, arrays)
        return 0
    rendezvous = world.rendezvous[place]
    if what.opcode == Opcode_.send:
        return send(world, what, rendezvous, number, arrays)
    if what.opcode == Opcode_.recv:
        device.waits_at = number + 1
        return receive(world, what, rendezvous, device, arrays)
    return meet(world, device, number, arrays)
