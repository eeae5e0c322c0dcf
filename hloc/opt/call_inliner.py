"""Inline calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count

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

    What the callee computes without its parameters is copied once for all calls in one computation.
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
    known: dict[tuple[Computation, Computation], dict[Instruction, Instruction]] = {}
    channels: Iterator[int] | None = None
    for call in calls:
        (called,) = call.called
        place = (call.computation, called)
        body = bodies.get(called)
        with context.rewriting(module, by):
            found = inline(call, known.get(place))
            if body is not None and body.exchanging:
                channels = channels or count(_last_channel(module) + 1)
                _take_channels([found[inst] for inst in body.exchanging], channels)
        if body is None:
            body = bodies[called] = _Body.of(called, effectful)
        if place not in known:
            known[place] = {inst: found[inst] for inst in body.free}


@dataclass(frozen=True, slots=True)
class _Body:
    """What an inlined computation computes without its parameters, and what exchanges data."""

    free: tuple[Instruction, ...]
    exchanging: tuple[Instruction, ...]

    @staticmethod
    def of(body: Computation, effectful: frozenset[Computation]) -> _Body:
        free: dict[Instruction, None] = {}
        for inst in post_order(body):
            row = inst.opcode
            if row.name == "parameter" or row.control_flow or row.exchange is not None:
                continue
            if inst.control_predecessors or has_side_effect(inst, effectful):
                continue
            if all(operand in free for operand in inst.operands):
                free[inst] = None
        exchanging = tuple(inst for inst in body.instructions if _channel(inst))
        return _Body(tuple(free), exchanging)


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
