"""Packed gemms with elementwise epilogues, computed while the sums are in the cache.

The sums are accumulated in a result of the same type. After the last block of k of some rows, the
epilogue is computed for these rows and all results are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from math import prod

from hloc.analysis.epilogue import place_of, product_in, results_of
from hloc.codegen.builder.index import Index, loop_order
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.cpu.emitters.convolution import windowed_gemm
from hloc.codegen.cpu.emitters.convolution.windowed_gemm import WindowedGemm
from hloc.codegen.cpu.emitters.gemm.dot import micro_gemm
from hloc.codegen.cpu.emitters.gemm.finish_function import FinishContext
from hloc.codegen.cpu.emitters.gemm.packed_gemm import PackedGemm
from hloc.codegen.cpu.emitters.gemm.packed_gemm_call import Epilogue, row_distance
from hloc.codegen.cpu.emitters.routine_writer import argument
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.gemm_problem import is_gemm
from hloc.codegen.kernels.lanes import lanes_of, mark_final
from hloc.codegen.kernels.loop import is_flat
from hloc.ir.instruction import Instruction


def core_of(inst: Instruction) -> Instruction | None:
    """Return the product of a fusion that this emitter can write, else None."""
    found = product_of(inst)
    return found[0] if found else None


def product_of(inst: Instruction) -> tuple[Instruction, WindowedGemm] | None:
    """Return the product of a fusion, and how packed panels make it."""
    if inst.opcode.name != "fusion":
        return None
    core = product_in(inst.called[0])
    if core is None or not all(operand.is_a("parameter") for operand in core.operands):
        return None
    gemm = _packed(core)
    if gemm is None:
        return None
    return (core, gemm) if is_flat(inst, core) or _column_count(core, gemm.product) else None


def _packed(core: Instruction) -> WindowedGemm | None:
    """Return the packed form of the gemm, None if it has none."""
    if not is_gemm(core):
        return windowed_gemm.windowed_gemm(core)
    found = micro_gemm(core)
    return WindowedGemm(found, None, 0, 0) if isinstance(found, PackedGemm) else None


def _column_count(core: Instruction, product: PackedGemm) -> int:
    """Return the size of the fastest dimension of the result, 0 if columns run over several."""
    order = loop_order(core.array)
    size = core.array.dims[order[-1]] if order else 1
    return 0 if size % prod(axis.size for axis in product.columns) else size


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a fusion around a packed product as the product alone: loop, scratch, packing."""
    found = product_of(inst)
    return None if found is None else found[1].plan(partial(_emit, *found))


def _emit(core: Instruction, gemm: WindowedGemm, k: KernelContext) -> None:
    """Emit the gemm with the loops over its finished rows."""
    place, product = place_of(core, results_of(k.inst.called[0])), gemm.product
    lhs, rhs = (k.plain_array(operand) for operand in core.operands)
    assert place is not None
    assert lhs is not None
    assert rhs is not None
    finish = FinishContext(k)
    rows = _Rows(finish, core, place, _column_count(core, product), product.sizes[1])
    rows.finish(row_distance(product))
    mark_final(finish)
    epilogue = Epilogue(k.outputs[place], finish.fn.name, finish.close())
    windowed_gemm.write(k, gemm, (lhs, rhs), 0, epilogue)
    k.level = finish.level


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


EMITTER = Emitter("gemm-epilogue", plan)
"""A gemm and the elementwise instructions that use it."""
