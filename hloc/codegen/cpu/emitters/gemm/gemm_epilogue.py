"""Packed products with what is done to them element by element, while the sums are in the cache.

The sums lie in the memory of a result of their type. As soon as some rows have their last block of
k, the other instructions are made of these rows, and all results are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import prod

from hloc.analysis.epilogue import place_of, product_in, results_of
from hloc.codegen.builder.index import Index, loop_order
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.cpu.emitters.convolution import windowed_gemm
from hloc.codegen.cpu.emitters.gemm import dot
from hloc.codegen.cpu.emitters.gemm.finish_function import FinishContext
from hloc.codegen.cpu.emitters.gemm.packed_gemm import PackedGemm
from hloc.codegen.cpu.emitters.gemm.packed_gemm_call import Epilogue, emit_packed, row_distance
from hloc.codegen.cpu.emitters.routine_writer import argument
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.lanes import lanes_of, mark_final
from hloc.codegen.kernels.loop import is_flat
from hloc.ir.instruction import Instruction


def core_of(inst: Instruction) -> Instruction | None:
    """Return the product of a fusion that this emitter can write, else None."""
    if inst.opcode.name != "fusion":
        return None
    core = product_in(inst.called[0])
    if core is None or not all(operand.is_a("parameter") for operand in core.operands):
        return None
    product = _packed(core)
    if product is None:
        return None
    return core if is_flat(inst, core) or _column_count(core, product) else None


def _packed(core: Instruction) -> PackedGemm | None:
    """Return how packed panels make the product, None if they do not."""
    if _emitter(core) is not windowed_gemm.EMITTER:
        found = dot.micro_gemm(core)
        return found if isinstance(found, PackedGemm) else None
    windowed = windowed_gemm.windowed_gemm(core)
    return windowed.product if windowed else None


def _emitter(core: Instruction) -> Emitter[KernelContext]:
    """Return the emitter of the product by itself."""
    own = (dot.EMITTER, dot.CONVOLUTION)
    return next((e for e in own if e.plan(core)), windowed_gemm.EMITTER)


def _column_count(core: Instruction, product: PackedGemm) -> int:
    """Return the size of the fastest dimension of the result, 0 if columns run over several."""
    order = loop_order(core.array)
    size = core.array.dims[order[-1]] if order else 1
    return 0 if size % prod(axis.size for axis in product.columns) else size


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a fusion around a packed product as the product alone: loop, scratch, packing."""
    core = core_of(inst)
    alone = None if core is None else _emitter(core).plan(core)
    return None if core is None or alone is None else replace(alone, emit=partial(emit, core))


def emit(core: Instruction, k: KernelContext) -> None:
    """Write the product with the loops over its finished rows."""
    place, product = place_of(core, results_of(k.inst.called[0])), _packed(core)
    lhs, rhs = (k.plain_array(operand) for operand in core.operands)
    assert place is not None
    assert product is not None
    assert lhs is not None
    assert rhs is not None
    finish = FinishContext(k)
    rows = _Rows(finish, core, place, _column_count(core, product), product.sizes[1])
    rows.finish(row_distance(product))
    mark_final(finish)
    epilogue = Epilogue(k.outputs[place], finish.fn.name, finish.close())
    windowed = None
    if _emitter(core) is windowed_gemm.EMITTER:
        windowed = windowed_gemm.windowed_gemm(core)
    if windowed:
        windowed_gemm.write(k, windowed, (lhs, rhs), 0, epilogue)
    else:
        emit_packed(k, product, lhs, rhs, 0, epilogue)
    k.level = finish.level


class _Rows:
    """Makes the results of rows whose sums are final."""

    def __init__(
        self, k: KernelContext, core: Instruction, place: int, columns: int, width: int
    ) -> None:
        self.k, self.core, self.columns = k, core, columns
        k.frame.sources = {**k.frame.sources, core: [k.outputs[place]]}
        k.g.flat = is_flat(k.inst, core)
        self.width = width

    def finish(self, row_step: int) -> None:
        """Write the results of some columns of some rows, which lie `row_step` elements apart."""
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
            index: list[IndexValue] = [0] * len(dims)
            for d, x in zip(outer, math.delinear(line, [dims[d] for d in outer]), strict=True):
                index[d] = x
            with self._columns(within, columns) as place:
                index[minor] = place
                self._element(tuple(index))

    @contextmanager
    def _columns(self, start: IndexValue, columns: IndexValue) -> Iterator[IndexValue]:
        """Run the region for the places of some columns from `start` on, several at once if it can.

        Blocks of columns begin at whole vectors, so that only the last may end within one.
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


EMITTER = Emitter("output-fusion", plan)
"""A product and elementwise instructions that are made of it."""
