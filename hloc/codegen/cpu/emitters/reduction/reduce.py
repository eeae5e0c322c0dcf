"""Reductions: the call of a routine where one fits, else the loops of `kernels/reduce`."""

from __future__ import annotations

from hloc.codegen.cpu.emitters.reduction.plain_reduction import emit_plain
from hloc.codegen.kernels import reduce
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import emitter_of, no_scratch


def emit(k: KernelContext) -> None:
    """Write a call of a routine, or else the loops."""
    if not emit_plain(k, reduce.extent(k.inst)):
        reduce.emit(k)


EMITTER = emitter_of("reduce", reduce.can_emit, emit, reduce.extent, no_scratch)
