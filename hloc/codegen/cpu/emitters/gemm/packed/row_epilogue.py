"""Elementwise epilogues of products, as functions that compute finished rows in the cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

from hloc.analysis.epilogue import place_of, results_of
from hloc.codegen.builder.index import Index, loop_order
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.cpu.emitters.gemm.packed.finish_function import FinishContext
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm_call import Epilogue
from hloc.codegen.cpu.emitters.routine_writer import argument
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.lanes import lanes_of, mark_final
from hloc.codegen.kernels.loop import is_flat
from hloc.ir.instruction import Instruction


def row_epilogue(
    k: KernelContext, core: Instruction, columns: int, width: int, row_step: int
) -> Epilogue:
    """Emit the function that computes the results of rows of a product whose sums are final.

    Args:
        k: the kernel of the fusion; its level becomes that of the function.
        core: the product in the fusion.
        columns: size of the fastest dimension of the result, 0 if the epilogue needs no index.
        width: columns of the product, of which blocks begin at multiples of a vector.
        row_step: stride of the rows in the result, in elements.
    """
    place = place_of(core, results_of(k.inst.called[0]))
    assert place is not None
    finish = FinishContext(k)
    _Rows(finish, core, place, columns, width).finish(row_step)
    mark_final(finish)
    k.level = finish.level
    return Epilogue(k.outputs[place], finish.fn.name, finish.close())


class _Rows:
    """Computes the results of rows whose sums are final."""

    def __init__(
        self, k: KernelContext, core: Instruction, place: int, columns: int, width: int
    ) -> None:
        self.k, self.core, self.columns = k, core, columns
        k.frame.sources = {**k.frame.sources, core: [k.outputs[place]]}
        k.g.flat = is_flat(k.inst, core)
        self.width = width

    def finish(self, row_step: int) -> None:
        """Write the results of some columns of some rows, with row stride `row_step`."""
        first, rows, columns = (argument(name) for name in ("%first", "%rows", "%columns"))
        k, math = self.k, self.k.math
        with k.body.loop(0, rows) as row:
            start = math.add(first, math.mul(row, row_step))
            if k.g.flat:
                with self._columns(start, columns) as place:
                    self._element((place,))
                return
            *outer, minor = loop_order(self.core.array)
            dims = self.core.array.dims
            line, within = math.div(start, self.columns), math.rem(start, self.columns)
            index = math.along(line, dims, outer)
            with self._columns(within, columns) as place:
                index[minor] = place
                self._element(tuple(index))

    @contextmanager
    def _columns(self, start: IndexValue, columns: IndexValue) -> Iterator[IndexValue]:
        """Run the region for some columns from `start` on, several at once if possible.

        Blocks of columns begin at multiples of a vector, so that only the last vector is partial.
        """
        k, lanes = self.k, lanes_of(self.k)
        if lanes is None or self.width % lanes.count:
            k.is_final = False
            with k.body.loop(0, columns) as column:
                yield k.math.add(start, column)
            return
        with k.body.loop(0, columns, lanes.count) as column, lanes.inside():
            yield lanes.at(k.math.add(start, column))

    def _element(self, index: Index) -> None:
        k, results = self.k, results_of(self.k.inst.called[0])
        values = [k.g.element(k.frame, result, index) for result in results]
        for value, output in zip(values, k.outputs, strict=True):
            if k.g.flat:
                output.flat(prod(output.dims)).store(k.math, index, value)
            else:
                output.store(k.math, index, value)
