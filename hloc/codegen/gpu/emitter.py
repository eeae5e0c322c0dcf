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
    """How an emitter writes the launches of one instruction or fusion.

    Attributes:
        choices: how many kernels a chip may choose from; all but the first are for measuring.
        library: what a library does before the launches.
    """

    choices: Callable[[Target], int] = _one
    library: LibraryCall | None = None
