"""Annotate loops with their trip counts, as XLA does."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hloc.analysis.trip_count import TripCount, trip_count
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction

_OURS = ("known_trip_count", "known_init_step", "known_induction_variable")


class WhileLoopTripCountAnnotator(RewritingPass):
    """Record the known trip count of a loop in `backend_config`.

    `{"known_trip_count":{"n":"5"},"known_init_step":{"init":"0","step":"1"},
    "known_induction_variable":{"tuple_index":"0"}}`, as XLA prints it; start and step only for
    counters that do not go below 0, the counter's place only where it is an element of the state.
    Other keys stay as they are; a config that is not a dictionary is left alone. Cost: O(bodies).
    """

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Annotate every loop that is reached."""
        for inst in each_instruction(module, context, "while"):
            self._annotate(inst, module, context)

    def _annotate(self, loop: Instruction, module: Module, context: PassContext) -> None:
        config = _config(loop.common.backend_config)
        trips = trip_count(loop)
        if config is None or trips is None:
            return
        others = {key: value for key, value in config.items() if key not in _OURS}
        text = json.dumps({**_known(trips), **others}, separators=(",", ":"))
        if config == json.loads(text):
            return
        with context.rewriting(module, self.name):
            loop.computation.set_common(loop, replace(loop.common, backend_config=text))


def _config(text: str | None) -> dict[str, Any] | None:
    """Return the config as a dictionary, None if it is something else."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _known(trips: TripCount) -> dict[str, dict[str, str]]:
    """Return what is known; numbers are texts, as 64-bit integers are in protobuf's JSON."""
    found = {"known_trip_count": {"n": str(trips.count)}}
    if trips.variable is not None:
        if trips.count and trips.start >= 0 and trips.step > 0:
            found["known_init_step"] = {"init": str(trips.start), "step": str(trips.step)}
        if len(trips.variable) == 1:
            found["known_induction_variable"] = {"tuple_index": str(trips.variable[0])}
    return found
