"""One thread per element of the result: small gemms, narrow ones, and grouped convolutions.

A thread runs over the whole depth. Adjacent threads compute adjacent elements, so that their loads
coalesce if the operands allow it.
"""

from __future__ import annotations

from contextlib import ExitStack
from math import prod

from hloc.codegen.gpu.context import LaunchWriter
from hloc.codegen.gpu.emitters.gemm.gemm_reader import Reader, ResultWriter
from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem
from hloc.lazy_dataclass import dataclass


def emit_elements(w: LaunchWriter, p: MatrixProblem) -> None:
    """Write one launch over all elements."""
    loops = _loops_of_result(p)
    with w.each(prod(loop.size for loop in loops)) as (k, number):
        result = k.math.delinear(number, [loop.size for loop in loops])
        at = {loop.place: index for loop, index in zip(loops, result, strict=True)}
        batches, rows, columns = (
            [at[space, n] for n in range(len(sizes))] for space, sizes in enumerate(_spaces(p))
        )
        readers = [Reader(k, p, side, 1) for side in (p.left, p.right)]
        total = k.b.allocate(p.sums)
        k.b.store(total, 0, k.b.const(p.sums, 0))
        with ExitStack() as stack:
            depths = [stack.enter_context(k.body.loop(0, size)) for size in p.depth.sizes]
            positions = [
                reader.locate_at(batches, lines, depths)
                for reader, lines in zip(readers, (rows, columns), strict=True)
            ]
            with k.body.when(k.body.all_of([exists for _, exists in positions])):
                x, y = (
                    k.b.convert(reader.at(position)[0], p.sums)
                    for reader, (position, _) in zip(readers, positions, strict=True)
                )
                k.b.store(total, 0, k.b.multiply_add(x, y, k.b.load(total, p.sums, 0)))
        ResultWriter(k, p).write_at(batches, rows, columns, [k.b.load(total, p.sums, 0)])


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop of the result: its stride, its space, and its number in that space."""

    size: int
    step: int
    place: tuple[int, int]


def _spaces(p: MatrixProblem) -> tuple[tuple[int, ...], ...]:
    return p.batch.sizes, p.rows.sizes, p.columns.sizes


def _loops_of_result(p: MatrixProblem) -> list[_Loop]:
    """Return the loops of the result in the order of its memory, slowest first."""
    steps = (p.batch_steps, p.row_steps, p.column_steps)
    loops = [
        _Loop(size, step, (space, n))
        for space, sizes in enumerate(_spaces(p))
        for n, (size, step) in enumerate(zip(sizes, steps[space], strict=True))
    ]
    return sorted(loops, key=lambda loop: -loop.step)
