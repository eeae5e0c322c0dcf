"""rng-bit-generator: every thread encrypts one counter and writes the bits.

The bits of an element depend only on its number, so threads are independent.
"""

from __future__ import annotations

from math import prod

from hloc.codegen.gpu.context import LaunchWriter
from hloc.codegen.gpu.emitter import GpuPlan
from hloc.codegen.kernels.context import root_of
from hloc.codegen.kernels.emitter import Emitter
from hloc.codegen.kernels.random_bits import loops_of, read_state, write_bits, write_state
from hloc.ir.instruction import Instruction


def plan(inst: Instruction) -> GpuPlan | None:
    """Plan a generator of random bits."""
    return GpuPlan(emit) if root_of(inst).is_a("rng-bit-generator") else None


def emit(w: LaunchWriter) -> None:
    """Emit one launch; the first thread also writes the new state."""
    loops = loops_of(root_of(w.inst))
    with w.each(max(prod(loops), 1)) as (k, thread):
        state = read_state(k)
        if prod(loops):
            write_bits(k, state, k.math.delinear(thread, loops))
        with k.body.when(k.math.compare("EQ", thread, 0)):
            write_state(k, state)


EMITTER = Emitter("rng-bit-generator", plan)
