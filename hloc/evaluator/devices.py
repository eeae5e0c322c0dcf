"""The evaluator on several devices: every device runs the module, collectives are rendezvous.

`hloc/ops/exchanges.py` defines what each collective exchanges, `hloc/ir/device_groups.py` which
devices take part. The key of a rendezvous is opcode, group and channel, as in XLA:CPU, so devices
in different branches of a conditional may join one rendezvous from different instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hloc.errors import Diagnostic, HloError
from hloc.evaluator.arguments import bound_arguments
from hloc.evaluator.least_work import check_work
from hloc.evaluator.lockstep import Lockstep
from hloc.evaluator.mailboxes import Mailboxes
from hloc.evaluator.run import Plans, Run
from hloc.ir.device_groups import (
    TRANSFERS,
    device_groups,
    device_pairs,
    devices_text,
    module_devices,
)
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import CallFunction, HostValue, Operands, Rendezvous
from hloc.ir.verifier.devices import check_group_sizes
from hloc.lazy_dataclass import dataclass
from hloc.limits import current_limits
from hloc.ops.array_values import zeros_of
from hloc.ops.custom_calls.custom_call_targets import flat_arrays
from hloc.ops.exchanges import exchanged, result_apart
from hloc.ops.rendezvous import mismatch

MAX_DEVICES = 1024
"""Maximum number of devices of one run; each is a thread."""

Arrays = Sequence[np.ndarray[Any, Any]]


def evaluate_devices(
    module: Module,
    arguments: Sequence[Arrays],
    *,
    fill_constants: str = "error",
) -> list[list[np.ndarray[Any, Any]]]:
    """Run the entry computation of `module` on all of its devices.

    Args:
        module: the program of each device, as a partitioner or `pmap` writes it; verified.
        arguments: `arguments[i][device]` is leaf i of the parameters on a device; devices by
            flattened id, replica * num_partitions + partition.
        fill_constants: `zeros` makes elided constants zero, `error` rejects them.

    Returns:
        `results[j][device]`, leaf j of the result; tokens are left out.

    Raises:
        HloError: arguments do not fit the parameters or the devices; groups do not fit the shapes
            of their collective; the devices deadlock; shapes differ within a collective; a device
            fails.
        UnsupportedError: no device can run an instruction; the message says which and why.
    """
    count = module_devices(module).total
    if count > MAX_DEVICES:
        raise HloError(f"the module is for {count} devices; the evaluator runs {MAX_DEVICES}")
    check_group_sizes(module)
    for number, parts in enumerate(arguments):
        if len(parts) != count:
            raise HloError(
                f"argument {number} has {len(parts)} parts, but the module runs on {count} devices"
            )
    own = [
        bound_arguments(module.entry, [parts[device] for parts in arguments])
        for device in range(count)
    ]
    limits = current_limits()
    check_work(module.entry)
    world = _World(module, count)
    plans: Plans = {}

    def body(device: int) -> list[np.ndarray[Any, Any]]:
        run = Run(fill_constants, limits, plans, device=_Device(world, device))
        try:
            with np.errstate(all="ignore"):
                result = run.call(module.entry, *own[device])
        except HloError as error:
            raise _on_device(error, device) from None
        return [np.array(array) for array in flat_arrays(result)]

    results = world.lockstep.run(body)
    return [list(leaf) for leaf in zip(*results, strict=True)]


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A device at a collective: its operands, and the devices it waits for."""

    inst: Instruction
    group: tuple[int, ...]
    operands: Operands

    @property
    def key(self) -> tuple[Any, ...]:
        """The key of the rendezvous, equal for all of its members."""
        name = self.inst.opcode.name.removesuffix("-start")
        return name, self.group, self.inst.attributes.channel_id


class _World:
    """The state that the devices of a run share."""

    def __init__(self, module: Module, count: int) -> None:
        self.counts = module_devices(module)
        self.lockstep: Lockstep[list[np.ndarray[Any, Any]]] = Lockstep(count, self._deadlock)
        self.mailboxes = Mailboxes()
        self._arrivals: dict[int, _Arrival] = {}
        self._results: dict[int, HostValue] = {}
        self._groups: dict[Instruction, dict[int, tuple[int, ...]]] = {}

    def group_of(self, inst: Instruction, device: int) -> tuple[int, ...]:
        """Return the group of a device, () if it is in none."""
        groups = self._groups.get(inst)
        if groups is None:
            groups = {member: group for group in device_groups(inst) for member in group}
            self._groups[inst] = groups
        return groups.get(device, ())

    def meet(
        self, device: int, inst: Instruction, operands: Operands, call: CallFunction
    ) -> HostValue:
        """Return the result of a collective on a device, once its whole group has arrived."""
        group = self.group_of(inst, device)
        if not group:
            return result_apart(inst, device)
        self._arrivals[device] = own = _Arrival(inst, group, operands)
        if all(self._has_come(member, own) for member in group):
            self._finish(group, call)
        else:
            self.lockstep.wait(device)
        return self._results.pop(device)

    def _has_come(self, member: int, own: _Arrival) -> bool:
        other = self._arrivals.get(member)
        return other is not None and (other.inst is own.inst or other.key == own.key)

    def _finish(self, group: tuple[int, ...], call: CallFunction) -> None:
        """Exchange the operands of a complete group, and wake its members with their results.

        Raises:
            HloError: the members are at instructions that do not fit together.
        """
        arrivals = [self._arrivals[member] for member in group]
        for member, arrival in zip(group, arrivals, strict=True):
            message = mismatch(arrivals[0].inst, arrival.inst)
            if message:
                raise HloError(
                    f"devices {group[0]} and {member} meet with different {message}",
                    arrival.inst.span,
                    notes=(
                        f"device {group[0]} is at {_place(arrivals[0].inst)}",
                        f"device {member} is at {_place(arrival.inst)}",
                    ),
                )
        parts = [arrival.operands for arrival in arrivals]
        results = exchanged(arrivals[0].inst, Rendezvous(parts, group, call))
        for member, result in zip(group, results, strict=True):
            del self._arrivals[member]
            self._results[member] = result
            self.lockstep.wake(member)

    def receive(self, device: int, inst: Instruction, ticket: int) -> HostValue:
        """Return the data of a started `recv`, once the source device has sent it."""
        if not self.mailboxes.has_come(ticket):
            self._arrivals[device] = _Arrival(inst, (self.mailboxes.source_of(ticket), device), ())
            self.mailboxes.wake_on(ticket, lambda: self.lockstep.wake(device))
            self.lockstep.wait(device)
            del self._arrivals[device]
        return self.mailboxes.take(ticket)

    def _deadlock(self) -> HloError:
        """Return the error for a deadlock: where each device is, and which devices it waits for."""
        at: dict[tuple[Instruction, tuple[int, ...]], list[int]] = {}
        for device, arrival in sorted(self._arrivals.items()):
            missing = tuple(
                member
                for member in arrival.group
                if member != device
                and (arrival.inst.is_a("recv-done") or not self._has_come(member, arrival))
            )
            at.setdefault((arrival.inst, missing), []).append(device)
        notes = [
            f"{devices_text(waiting)} at {_place(inst)}, waiting for {devices_text(missing)}"
            for (inst, missing), waiting in at.items()
        ]
        ended = [d for d in range(self.counts.total) if self.lockstep.has_ended(d)]
        if ended:
            notes.append(f"{devices_text(ended)} at the end of the program")
        first = next(iter(at))[0]
        message = f"deadlock: no device can continue past {first.opcode.name} '{first.name}'"
        return HloError([Diagnostic(message, first.span, tuple(notes))])


@dataclass(frozen=True, slots=True)
class _Device:
    """One device of a world, for the evaluator."""

    world: _World
    number: int

    def runs(self, inst: Instruction) -> bool:
        row = inst.opcode
        if row.name in TRANSFERS:
            return not inst.attributes.is_host_transfer
        return row.exchange is not None or row.name in ("partition-id", "replica-id")

    def check_going_on(self) -> None:
        self.world.lockstep.check_going_on()

    def evaluate(self, inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
        """Evaluate what differs between devices; collectives wait until their group is complete.

        `send` and `recv` do not wait, their `-done` halves do. Devices are numbered replica by
        replica.
        """
        world = self.world
        if inst.is_a("partition-id"):
            return np.asarray(self.number % world.counts.partitions, np.uint32)
        if inst.is_a("replica-id"):
            return np.asarray(self.number // world.counts.partitions, np.uint32)
        if inst.is_a("send"):
            channel, pairs = inst.attributes.channel_id, dict(device_pairs(inst))
            if self.number in pairs:
                world.mailboxes.send(channel, self.number, pairs[self.number], operands[0])
            return (operands[0], np.asarray(0, np.uint32), None)
        if inst.is_a("recv"):
            sources = {target: source for source, target in device_pairs(inst)}
            nothing, context, token = zeros_of(inst.shape)
            if self.number in sources:
                channel, source = inst.attributes.channel_id, sources[self.number]
                ticket = world.mailboxes.expect(channel, source, self.number)
            else:
                ticket = world.mailboxes.known(nothing)
            return (nothing, np.asarray(ticket, context.dtype), token)
        if inst.is_a("send-done"):
            return None
        if inst.is_a("recv-done"):
            return (world.receive(self.number, inst, int(operands[0][1])), None)
        return world.meet(self.number, inst, operands, call)


def _on_device(error: HloError, device: int) -> HloError:
    """Return `error` with a note that names the device."""
    note = f"found on device {device}"
    return type(error)([replace(d, notes=(*d.notes, note)) for d in error.diagnostics])


def _place(inst: Instruction) -> str:
    where = f" ({inst.span.place()})" if inst.span else ""
    return f"{inst.opcode.name} '{inst.name}' in '{inst.computation.name}'{where}"
