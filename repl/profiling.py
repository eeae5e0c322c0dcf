"""Where a state spends its time: each kernel of the entry computation alone, on random inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.report.inputs import random_inputs
from hloc.report.kernel_times import SECONDS, KernelTime, kernel_times
from repl.running import check_runnable, options_of

if TYPE_CHECKING:
    from repl.session import Session


@dataclass(frozen=True, slots=True)
class Profile:
    """Times of the kernels that cost most by count, the slowest first; `left` were not timed."""

    label: str
    kernels: tuple[KernelTime, ...]
    left: int


def profile(session: Session) -> Profile:
    """Time the kernels of the current state one by one in the child process.

    Raises:
        HloError: the state is invalid, or has no kernels.
    """
    state = session.current
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
