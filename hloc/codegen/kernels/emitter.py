"""What an emitter is: a way to write the kernel of an instruction or fusion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hloc.codegen.kernels.context import KernelContext
from hloc.ir.instruction import Instruction


@dataclass(frozen=True, slots=True)
class Emitter:
    """A way to write kernels.

    Attributes:
        can_emit: true if it can write the kernel of an instruction or fusion.
        emit: writes it.
        extent: size of the outermost loop that may be split between threads, 1 if none.
        scratch_bytes: memory the kernel needs beside operands and results.
        repeated_bytes: what every part of the outermost loop brings into scratch memory again,
            about; 0 if the parts together do no more than the whole.
    """

    name: str
    can_emit: Callable[[Instruction], bool]
    emit: Callable[[KernelContext], None]
    extent: Callable[[Instruction], int]
    scratch_bytes: Callable[[Instruction], int]
    repeated_bytes: Callable[[Instruction], int] = lambda inst: 0


def no_scratch(inst: Instruction) -> int:
    """Return 0: the emitter needs no memory of its own."""
    return 0


def no_split(inst: Instruction) -> int:
    """Return 1: the kernel runs on one thread."""
    return 1
