"""Plans of CPU emitters."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.codegen.llvm.target import Target
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LoopSchedule:
    """How many vectors an iteration of a loop over elements computes, one beside the other.

    Several hide the latency of long chains, such as the polynomial of an elementary function.
    """

    vectors: int

    def __str__(self) -> str:
        return f"{self.vectors} {'vector' if self.vectors == 1 else 'vectors'} per iteration"


LOOP_SCHEDULES = tuple(LoopSchedule(vectors) for vectors in (1, 2, 4))


def _one(_target: Target) -> tuple[Hashable, ...]:
    return (None,)


def _unknown(_target: Target) -> Hashable:
    return None


def _never(_target: Target) -> KernelPlan[KernelContext] | None:
    return None


@dataclass(frozen=True, slots=True)
class CpuPlan(KernelPlan[KernelContext]):
    """The plan of a kernel that can be emitted in several ways.

    Attributes:
        choices: the ways on a machine, all with the same result and the same scratch memory, each
            a value that `str` describes. The first is the one that is taken without autotuning.
        usual: that one on a machine, or None if the emitter finds it.
        rows_in_lanes: the plan that computes rows side by side, one in each lane of a vector, None
            where that is slower or impossible. Operands and results share no memory; the scratch
            memory is that of this plan.
        apart: the plan if operands and results share no memory, None for this one.
    """

    choices: Callable[[Target], tuple[Hashable, ...]] = _one
    usual: Callable[[Target], Hashable] = _unknown
    rows_in_lanes: Callable[[Target], KernelPlan[KernelContext] | None] = _never
    apart: KernelPlan[KernelContext] | None = None
