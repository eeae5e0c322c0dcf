"""One kernel of a state in the PTX interpreter, seen at any step of any thread."""

from __future__ import annotations

from math import prod
from typing import Any

from hloc.analysis.kernel_count import is_kernel
from hloc.errors import printable
from hloc.web.limits import MOST_KERNELS, SHOWN_BYTES
from hloc.web.walks import Walked
from repl.kernels.gpu import kernel_steps
from repl.kernels.steps import PLACES, KernelSteps
from repl.kernels.view import registers, view, whereabouts
from repl.render import rendered_text
from repl.state import State


def kernel_view(walked: Walked, state: State, question: dict[str, Any]) -> dict[str, Any]:
    """Return a kernel at a step: its next instruction, what the last one did, its registers.

    The question names the instruction (all of the state if none), launch, block, thread and step,
    each from 0, and in `to` where to go on from there.

    Raises:
        HloError: there is no such instruction, place or kernel, or the step is never reached.
    """
    steps = walked.kernel(state, question["name"], kernel_steps)
    _go(steps, question)
    grid = steps.launches[steps.launch].grid
    ptx = steps.compiled.ptx
    return {
        "text": rendered_text(view(steps, opening=True)),
        "registers": rendered_text(registers(steps)),
        "where": rendered_text(whereabouts(steps)),
        "ptx": ptx[:SHOWN_BYTES],
        "at": {key: getattr(steps, key) for key in ("launch", "block", "thread", "at")},
        "last": {
            "launch": len(steps.launches) - 1,
            "block": prod(grid) - 1,
            "thread": steps.function.threads - 1,
            "at": len(steps.steps),
        },
        "places": PLACES,
        "kernels": [
            printable(inst.name) for inst in state.module.entry.instructions if is_kernel(inst)
        ][:MOST_KERNELS],
    }


def _go(steps: KernelSteps, question: dict[str, Any]) -> None:
    """Look at the thread and step of `question`; another block makes the launch run again."""
    if question["launch"] != steps.launch:
        steps.choose_launch(str(question["launch"] + 1))
    if question["block"] != steps.block:
        steps.choose_block(str(question["block"]))
    if question["thread"] != steps.thread:
        steps.choose_thread(str(question["thread"]))
    steps.at = max(0, min(question["at"], len(steps.steps)))
    if question["to"]:
        steps.go_to(question["to"])
