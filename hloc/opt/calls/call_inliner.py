"""Inline calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from hloc.analysis.call_graph import effectful_computations, has_side_effect
from hloc.ir.clone import inline
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import all_instructions, post_order
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction


@dataclass(frozen=True)
class CallInliner(RewritingPass):
    """Inline every `call`, callees first.

    What two calls in one computation compute from the same operands, or from none, is copied once.
    Collectives get channels of their own where a callee is copied again.
    Calls stay once this has added `max-instructions` to the module: nested calls can grow a module
    exponentially. Leaves the called computations to `dce`. Cost: O(instructions made).
    """

    acts_on = frozenset({"call"})
    max_instructions: int = 200_000

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Inline callees first, so that every copied body is complete."""
        inline_calls(module, self._calls(module, context), context, self.name)

    def _calls(self, module: Module, context: PassContext) -> Iterator[Instruction]:
        room = self.max_instructions
        for call in each_instruction(module, context, "call"):
            growth = len(call.called[0])
            if growth <= room:
                room -= growth
                yield call


def inline_calls(
    module: Module, calls: Iterable[Instruction], context: PassContext, by: str
) -> None:
    """Inline `calls` of `module`, a rewrite of pass `by` each."""
    effectful = effectful_computations(module)
    bodies: dict[Computation, _Body] = {}
    channels: Iterator[int] | None = None
    for call in calls:
        (called,) = call.called
        body = bodies.get(called)
        is_first = body is None
        body = body or bodies.setdefault(called, _Body(called, effectful))
        with context.rewriting(module, by):
            found = inline(call, body.known(call))
            if body.exchanging and not is_first:
                channels = channels or count(_last_channel(module) + 1)
                _take_channels([found[inst] for inst in body.exchanging], channels)
        body.note(call.computation, found)


class _Body:
    """A computation that is inlined, and the copies of its instructions so far.

    Attributes:
        pure: instructions that give the same value for the same operands, operands first.
        exchanging: instructions that exchange data between devices.
    """

    def __init__(self, body: Computation, effectful: frozenset[Computation]) -> None:
        self.parameters = body.parameters
        self.pure = [inst for inst in post_order(body) if _is_pure(inst, effectful)]
        self.exchanging = [inst for inst in body.instructions if _channel(inst)]
        self._copies: dict[tuple[Any, ...], Instruction] = {}

    def known(self, call: Instruction) -> dict[Instruction, Instruction]:
        """Return the instructions of which there is a copy with the operands that `call` gives."""
        found = dict(zip(self.parameters, call.operands, strict=True))
        for inst in self.pure:
            copy = self._copies.get((call.computation, inst, *map(found.get, inst.operands)))
            if copy is not None:
                found[inst] = copy
        return {inst: found[inst] for inst in self.pure if inst in found}

    def note(self, into: Computation, found: Mapping[Instruction, Instruction]) -> None:
        """Remember the copies that were made."""
        for inst in self.pure:
            self._copies[into, inst, *map(found.get, inst.operands)] = found[inst]


def _is_pure(inst: Instruction, effectful: frozenset[Computation]) -> bool:
    row = inst.opcode
    tied = row.name == "parameter" or row.control_flow or row.exchange is not None
    return not (tied or inst.control_predecessors or has_side_effect(inst, effectful))


def _channel(inst: Instruction) -> int:
    """Return the number of the channel on which `inst` exchanges data, 0 for none."""
    return getattr(inst.attributes, "channel_id", None) or 0


def _last_channel(module: Module) -> int:
    return max(map(_channel, all_instructions(module)))


def _take_channels(copies: Sequence[Instruction], channels: Iterator[int]) -> None:
    """Give the second and later copies of what exchanges data channels of their own."""
    fresh: dict[int, int] = {}
    for inst in copies:
        old = _channel(inst)
        if old not in fresh:
            fresh[old] = next(channels)
        attributes = replace(inst.attributes, channel_id=fresh[old])
        inst.computation.set_attributes(inst, attributes)
