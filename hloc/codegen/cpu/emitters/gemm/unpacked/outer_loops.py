"""The loops around a gemm routine: batches, and axes that are not rows, columns or k."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.gemm_problem import Axis


@contextmanager
def outer_loops(
    k: KernelContext, axes: Sequence[Axis], at: tuple[IndexValue, ...], *, shared: bool
) -> Iterator[tuple[IndexValue, ...]]:
    """Run the region for every index of `axes`; yields the offsets in both sides and the result.

    Args:
        k: the kernel.
        axes: the loops, slowest first.
        at: the offsets of the first index.
        shared: threads share the first loop.
    """
    with ExitStack() as stack:
        for number, axis in enumerate(axes):
            part = (k.begin, k.end) if shared and number == 0 else (0, axis.size)
            i = stack.enter_context(k.body.loop(*part))
            steps = (axis.lhs, axis.rhs, axis.out)
            at = tuple(
                k.math.add(x, k.math.mul(i, step)) for x, step in zip(at, steps, strict=True)
            )
        yield at
