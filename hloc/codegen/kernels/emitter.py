"""Emitters: each plans the kernel of an instruction once, and emits code from that plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from hloc.codegen.kernels.context import root_of
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass

Context = TypeVar("Context")
"""The argument of `KernelPlan.emit`: a `KernelContext`, or a `LaunchWriter` for GPUs."""


@dataclass(frozen=True, slots=True)
class KernelPlan(Generic[Context]):
    """How an emitter writes the kernel of one instruction or fusion.

    Attributes:
        emit: emits the code; a closure over the analysis of the instruction.
        extent: iterations of the outermost loop, which threads may share; 1 if they may not.
        scratch_bytes: memory the kernel needs beside operands and results.
        repeated_bytes: estimate of the bytes that each part of the outermost loop copies into
            scratch memory; 0 if splitting the loop adds no work.
        library_function: name of the LAPACK routine whose address the kernel gets, "" if none.
        is_one_row: the loop runs over all arrays as one flat row, so that it fills any vector.
        nanoseconds: estimated time, on one thread, of work that the instruction's cost does not
            count.
    """

    emit: Callable[[Context], None]
    extent: int = 1
    scratch_bytes: int = 0
    repeated_bytes: int = 0
    library_function: str = ""
    is_one_row: bool = False
    nanoseconds: int = 0


@dataclass(frozen=True, slots=True)
class Emitter(Generic[Context]):
    """One way to emit kernels.

    Attributes:
        plan: returns the plan for an instruction or fusion, None if it does not support it.
        roots: opcodes that it supports, also as the root of a fusion; empty for any.
    """

    name: str
    plan: Callable[[Instruction], KernelPlan[Context] | None]
    roots: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedKernel(Generic[Context]):
    """The emitter of a kernel and its plan."""

    emitter: Emitter[Context]
    plan: KernelPlan[Context]

    @property
    def scratch_bytes(self) -> int:
        """Memory the kernel needs beside operands and results."""
        return self.plan.scratch_bytes

    @property
    def library_function(self) -> str:
        """Name of the LAPACK routine whose address the kernel gets, "" if none."""
        return self.plan.library_function


def first_plan(
    emitters: Iterable[Emitter[Context]], inst: Instruction
) -> PlannedKernel[Context] | None:
    """Return the plan of the first emitter that supports `inst`, or None."""
    root = root_of(inst).opcode.name
    for emitter in emitters:
        plan = emitter.plan(inst) if not emitter.roots or root in emitter.roots else None
        if plan is not None:
            return PlannedKernel(emitter, plan)
    return None
