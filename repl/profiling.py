"""A profile of a state: each kernel of the entry computation alone, on random inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.report.inputs import random_inputs
from hloc.report.kernel_times import SECONDS, KernelTime, kernel_times
from hloc.report.no_gain import bound_text
from repl.running import Bench, check_runnable, options_of

if TYPE_CHECKING:
    from repl.session import Session
    from repl.state import State


@dataclass(frozen=True, slots=True)
class Profile:
    """Times of the kernels with the largest modelled cost, slowest first; `left` were not timed."""

    label: str
    kernels: tuple[KernelTime, ...]
    left: int


def profile(session: Session, state: State) -> Profile:
    """Time the kernels of a state one by one in the child process.

    Raises:
        HloError: the state is invalid, or has no kernels.
    """
    check_runnable(session, state)

    def times(module: Module) -> Sequence[float]:
        inputs = random_inputs(module, session.inputs.seed)
        timeout = session.settings.number("timeout")
        options = options_of(session)
        return session.child.run(module, options, inputs, timeout=timeout, seconds=SECONDS).seconds

    kernels, left = kernel_times(state.module, times)
    if not kernels:
        raise HloError(f"the entry computation of {state.label} has no kernels")
    return Profile(state.label, tuple(kernels), left)


def with_reason(session: Session, found: Bench) -> Bench:
    """If a state is not faster, add the reason: the kernel that bounds its time."""
    if len(found.rows) < 2 or found.is_faster:
        return found
    first, last = (session.state(row.label) for row in (found.rows[0], found.rows[-1]))
    try:
        kernels = profile(session, last).kernels
    except HloError:
        return found
    return replace(found, no_gain=bound_text(first.module, last.module, kernels))
