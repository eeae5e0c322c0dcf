"""Packed gemms with elementwise epilogues, computed while the sums are in the cache.

The sums are accumulated in a result of the same type. After the last block of k of some rows, the
epilogue is computed for these rows and all results are written.
"""

from __future__ import annotations

from functools import partial
from math import prod

from hloc.analysis.epilogue import product_in
from hloc.codegen.builder.index import loop_order
from hloc.codegen.cpu.emitters.convolution import windowed_gemm
from hloc.codegen.cpu.emitters.convolution.windowed_gemm import WindowedGemm
from hloc.codegen.cpu.emitters.gemm.dot import micro_gemm
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import PackedGemm
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm_call import row_distance
from hloc.codegen.cpu.emitters.gemm.packed.row_epilogue import row_epilogue
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.gemm_problem import is_gemm
from hloc.codegen.kernels.loop import is_flat
from hloc.codegen.kernels.operands import array_of, slice_in_memory
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
    if core is None or not all(_is_in_memory(operand) for operand in core.operands):
        return None
    gemm = _packed(core)
    if gemm is None:
        return None
    return (core, gemm) if is_flat(inst, core) or _column_count(core, gemm.product) else None


def _is_in_memory(operand: Instruction) -> bool:
    return operand.is_a("parameter") or slice_in_memory(operand) is not None


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
    product = gemm.product
    columns = _column_count(core, product)
    epilogue = row_epilogue(k, core, columns, product.sizes[1], row_distance(product))
    lhs, rhs = (array_of(k, operand) for operand in core.operands)
    assert lhs is not None
    assert rhs is not None
    windowed_gemm.write(k, gemm, (lhs, rhs), 0, epilogue)


EMITTER = Emitter("gemm-epilogue", plan)
"""A gemm and the elementwise instructions that use it."""
