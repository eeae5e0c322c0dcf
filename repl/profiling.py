"""Where a state spends its time: each kernel of the entry computation alone, on random inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hloc.analysis.cost import Cost, costs_of, instruction_cost
from hloc.analysis.extract import extract
from hloc.analysis.kernel_count import is_kernel
from hloc.errors import HloError
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import reachable_computations
from hloc.lazy_dataclass import dataclass
from hloc.report.inputs import random_inputs
from repl.running import check_runnable, options_of

if TYPE_CHECKING:
    from repl.session import Session

_MOST_KERNELS = 24
_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class KernelTime:
    """One kernel and its median time; `fault` says why there is none."""

    name: str
    opcode: str
    shape: str
    cost: Cost
    seconds: float
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Profile:
    """Times of the kernels that cost most by count, the slowest first; `left` were not timed."""

    label: str
    kernels: tuple[KernelTime, ...]
    left: int


def profile(session: Session) -> Profile:
    """Time the kernels of the current state one by one in the child process.

    Calls, loops and branches have no kernel of their own, and are left out.

    Raises:
        HloError: the state is invalid, or has no kernels.
    """
    state = session.current
    check_runnable(session, state)
    costs = _costs(state.module)
    kernels = [inst for inst in state.module.entry.instructions if is_kernel(inst)]
    if not kernels:
        raise HloError(f"the entry computation of {state.label} has no kernels")
    kernels.sort(key=lambda inst: (-costs[inst].flops - costs[inst].bytes, inst.name))
    timed = [_timed(session, inst, costs[inst]) for inst in kernels[:_MOST_KERNELS]]
    timed.sort(key=lambda kernel: -kernel.seconds)
    return Profile(state.label, tuple(timed), len(kernels) - len(timed))


def _costs(module: Module) -> dict[Instruction, Cost]:
    below = costs_of(reachable_computations(module.entry))
    return {inst: instruction_cost(inst, below.__getitem__) for inst in module.entry.instructions}


def _timed(session: Session, inst: Instruction, cost: Cost) -> KernelTime:
    shape = inst.shape.text_without_layout
    module = extract(inst, 0)
    try:
        answer = session.child.run(
            module,
            options_of(session),
            random_inputs(module, session.inputs.seed),
            timeout=session.settings.number("timeout"),
            seconds=_SECONDS,
        )
    except HloError as fault:
        return KernelTime(inst.name, inst.opcode.name, shape, cost, 0.0, fault.message)
    seconds = sorted(answer.seconds[1:] or answer.seconds)
    return KernelTime(inst.name, inst.opcode.name, shape, cost, seconds[len(seconds) // 2])
