"""One thread per element of the result: for small products, narrow ones, and grouped convolutions.

A thread runs over the depth alone. Neighbouring threads make neighbouring elements, so that where
the sides allow it they read neighbours too.
"""

from __future__ import annotations

from contextlib import ExitStack

from hloc.codegen.emitters.gemm import multiply_add
from hloc.codegen.gpu.context import LaunchWriter
from hloc.codegen.gpu.emitters.matrix_problem import MatrixProblem
from hloc.codegen.gpu.emitters.matrix_reader import Reader, ResultWriter
from hloc.codegen.loops import IndexValue


def emit_elements(w: LaunchWriter, p: MatrixProblem) -> None:
    """Write one launch over all elements."""
    elements = p.batch.count * p.rows.count * p.columns.count
    with w.each(elements) as (k, number):
        batch, row, column = k.math.delinear(number, [p.batch.count, p.rows.count, p.columns.count])
        readers = [Reader(k, p, side, 1) for side in (p.left, p.right)]
        total = k.b.allocate(p.sums)
        k.b.store(total, 0, k.b.const(p.sums, 0))
        with ExitStack() as loops:
            at: list[IndexValue] = [
                loops.enter_context(k.body.loop(0, size)) for size in p.depth.sizes
            ]
            places = [
                reader.find(batch, line, at)
                for reader, line in zip(readers, (row, column), strict=True)
            ]
            with k.body.when(k.body.all_of([exists for _, exists in places])):
                x, y = (
                    k.b.convert(reader.at(position)[0], p.sums)
                    for reader, (position, _) in zip(readers, places, strict=True)
                )
                k.b.store(total, 0, multiply_add(k.b, x, y, k.b.load(total, p.sums, 0)))
        ResultWriter(k, p).write(0, batch, row, column, [k.b.load(total, p.sums, 0)])
