"""Constant weights in panels: packed once, when the module is compiled, and not in every call.

A gemm of few rows spends much of its time on packing its right-hand side. If that is a constant
which nothing else reads, it is stored in the packed form (`memory/panels.py`), whatever the order
of its dimensions was. Matrix registers pack the parts of its elements in every call.
"""

from __future__ import annotations

from hloc.analysis.call_graph import control_flow_computations
from hloc.codegen.cpu.emitters.convolution import windowed_gemm
from hloc.codegen.cpu.emitters.gemm import dot, gemm_epilogue
from hloc.codegen.cpu.emitters.gemm.micro_kernels.tile_arithmetic import lanes
from hloc.codegen.cpu.emitters.gemm.packed.gemm_tiles import arithmetic_of, has_panels, tile_of
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import PackedGemm
from hloc.codegen.cpu.kernel import plan_kernel
from hloc.codegen.kernels.context import root_of
from hloc.codegen.llvm.target import Target
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.memory.panels import in_panels
from hloc.shapes import Layout

MAX_ROWS = 512
"""Most rows of a gemm for which packing takes a noticeable part of the time.

Time over that of packing, AVX2: 0.65 to 0.8 for 49 rows, 0.75 to 0.8 for 128, 0.95 for 196, 0.98
for 1,024; 1.04 for 3,136 rows of 64 steps of k.
"""


def lay_out_weights(module: Module, target: Target) -> None:
    """Let constants that only one product reads, as its columns, lie in panels."""
    with module.log.acting("weight-panels"):
        for computation in control_flow_computations(module):
            for inst in computation.instructions:
                if any(operand.is_a("constant") for operand in inst.operands):
                    _lay_out(inst, target)


def _lay_out(inst: Instruction, target: Target) -> None:
    """Lay out the columns of the product of one kernel, if it has one that would pack them."""
    found = _product_of(inst)
    if found is None:
        return
    core, gemm = found
    places = _columns_of(inst, core)
    if not places or gemm.exchanged or gemm.sizes[0] > MAX_ROWS:
        return
    shape, old = places[0].array, places[0].shape
    width = tile_of(gemm, arithmetic_of(gemm, target), target).vectors
    width *= lanes(arithmetic_of(gemm, target), target)
    column, outer = _column_dimension(core)
    is_plain = shape.layout is None or not shape.layout.has_attributes
    if not is_plain or column < 0 or shape.dims[column] % width:
        return
    rest = [dim for dim in shape.minor_to_major if dim != column]
    rest.sort(key=lambda dim: dim in outer)
    by_columns = shape.with_layout(Layout((column, *rest)))
    for place in places:
        place.computation.set_shape(place, in_panels(by_columns, len(outer), width))
    again = _product_of(inst)
    if again is None or not has_panels(again[1], arithmetic_of(again[1], target), target):
        for place in places:
            place.computation.set_shape(place, old)


def _product_of(inst: Instruction) -> tuple[Instruction, PackedGemm] | None:
    """Return the packed product that the kernel of `inst` makes, None if it makes none."""
    planned = plan_kernel(inst)
    if planned is None:
        return None
    if planned.emitter is gemm_epilogue.EMITTER:
        found = gemm_epilogue.product_of(inst)
        return (found[0], found[1].product) if found else None
    gemm: object = None
    if planned.emitter is windowed_gemm.EMITTER:
        windowed = windowed_gemm.windowed_gemm(inst)
        gemm = windowed and windowed.product
    elif planned.emitter is dot.EMITTER:
        gemm = dot.micro_gemm(inst)
    return (root_of(inst), gemm) if isinstance(gemm, PackedGemm) else None


def _columns_of(inst: Instruction, core: Instruction) -> list[Instruction]:
    """Return the constant that is the right-hand side, and the parameter of the fusion for it.

    Empty if it is no constant, or if something else reads it.
    """
    operand = core.operands[1]
    places = [operand]
    if inst.is_a("fusion"):
        if not operand.is_a("parameter"):
            return []
        places.append(inst.operands[operand.attributes.number])
    reads = inst.operands.count(places[-1]) if inst.is_a("fusion") else 1
    is_alone = all(len(place.users) == 1 and not place.is_root for place in places)
    if not places[-1].is_a("constant") or not is_alone or reads != 1:
        return []
    return [] if core.operands[0] is operand else places


def _column_dimension(core: Instruction) -> tuple[int, tuple[int, ...]]:
    """Return the dimension of the columns in the right-hand side, and its batch dimensions."""
    attributes = core.attributes
    if core.is_a("convolution"):
        return attributes.dim_labels.kernel_output_feature, ()
    batches = tuple(attributes.rhs_batch_dims)
    contracted = {*batches, *attributes.rhs_contracting_dims}
    free = [dim for dim in range(core.operands[1].array.rank) if dim not in contracted]
    return (free[0] if len(free) == 1 else -1), batches
