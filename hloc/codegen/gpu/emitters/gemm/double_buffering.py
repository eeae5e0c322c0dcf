"""Double buffering in shared memory: one tile is multiplied while the next is loaded."""

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
    """Emit a loop over steps.

    Args:
        k: of the kernel; all threads of a block run the loop together.
        count: number of steps, at least one.
        read: starts to load the data of a step into registers.
        put: stores the loaded data into buffer 0 or 1.
        multiply: runs a step on the data in a buffer.
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
