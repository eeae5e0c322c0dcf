"""The loop of kernels with two tiles in shared memory: one is used while the next is loaded."""

from __future__ import annotations

from collections.abc import Callable

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.gpu.context import GpuContext


def double_buffered(
    k: GpuContext,
    count: IndexValue,
    read: Callable[[IndexValue], None],
    put: Callable[[IndexValue], None],
    multiply: Callable[[IndexValue, IndexValue], None],
) -> None:
    """Write a loop over steps, of which there is at least one.

    Args:
        k: of the kernel; all threads of a block go through the loop together.
        count: steps.
        read: begins to read what a step needs, into registers.
        put: stores what was read into buffer 0 or 1.
        multiply: does a step with what lies in a buffer.
    """
    m = k.math
    read(0)
    put(0)
    k.barrier()
    with k.body.loop(0, count) as step:
        following = m.add(step, 1)
        has_next = m.compare("LT", following, count)
        with k.body.when(has_next):
            read(following)
        multiply(step, m.rem(step, 2))
        with k.body.when(has_next):
            put(m.rem(following, 2))
        k.barrier()
