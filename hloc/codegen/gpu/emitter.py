"""Plans of GPU emitters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hloc.codegen.gpu.context import LaunchWriter
from hloc.codegen.gpu.library_call import LibraryCall
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.llvm.target import Target
from hloc.ir.instruction import Instruction


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


def gpu_emitter_of(
    name: str,
    can_emit: Callable[[Instruction], bool],
    emit: Callable[[LaunchWriter], None],
    scratch_bytes: Callable[[Instruction], int],
) -> Emitter[LaunchWriter]:
    """Return an emitter of functions that each look at the instruction anew."""

    def plan(inst: Instruction) -> GpuPlan | None:
        return GpuPlan(emit, scratch_bytes=scratch_bytes(inst)) if can_emit(inst) else None

    return Emitter(name, plan)
