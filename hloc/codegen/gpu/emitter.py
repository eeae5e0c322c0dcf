"""Plans of GPU emitters."""

from __future__ import annotations

from collections.abc import Callable

from hloc.codegen.gpu.context import LaunchWriter
from hloc.codegen.gpu.library_call import LibraryCall
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.codegen.llvm.target import Target
from hloc.lazy_dataclass import dataclass


def _one(target: Target) -> int:
    return 1


@dataclass(frozen=True, slots=True)
class GpuPlan(KernelPlan[LaunchWriter]):
    """The plan of the launches of one instruction or fusion.

    Attributes:
        choices: number of alternative kernels; all but the first are for autotuning.
        library: the library call that precedes the launches.
    """

    choices: Callable[[Target], int] = _one
    library: LibraryCall | None = None
