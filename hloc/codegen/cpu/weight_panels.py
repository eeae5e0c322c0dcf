"""Weights in panels: constants are packed when the module is compiled, those of a loop before it.

A gemm of few rows spends much of its time on packing its right-hand side. If that is a constant
which nothing else reads, it is stored in the packed form (`memory/panels.py`), whatever the order
of its dimensions was. A part of a loop's state that no step changes and only products read is
copied into that form before the loop. Matrix registers pack the parts of its elements in every
call.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from hloc.memory.panels import in_panels, panel_width
from hloc.opt.make import make
from hloc.shapes import ArrayShape, Layout, TupleShape

MAX_ROWS = 512
"""Most rows of a gemm for which packing takes a noticeable part of the time.

Time over that of packing, AVX2: 0.65 to 0.8 for 49 rows, 0.75 to 0.8 for 128, 0.95 for 196, 0.98
for 1,024; 1.04 for 3,136 rows of 64 steps of k.
"""


def lay_out_weights(module: Module, target: Target) -> None:
    """Let weights lie in panels: constants, and parts of the state of loops."""
    with module.log.acting("weight-panels"):
        for computation in control_flow_computations(module):
            for inst in computation.instructions:
                if inst.is_a("constant") and len(inst.users) == 1 and not inst.is_root:
                    _lay_out(inst, [*inst.users], target)
                elif inst.is_a("while") and _has_plain_state(inst):
                    _lay_out_state(inst, target)


def _has_plain_state(loop: Instruction) -> bool:
    """True if the state is a tuple of which only parts are read, and the loop has its own code."""
    state, (condition, body) = loop.operands[0], loop.called
    wholes = (loop, condition.parameters[0], body.parameters[0])
    return (
        state.is_a("tuple")
        and len(state.users) == 1
        and body.root.is_a("tuple")
        and not body.root.users
        and not any(whole.is_root for whole in wholes)
        and all(user.is_a("get-tuple-element") for whole in wholes for user in whole.users)
        and all(len(computation.callers) == 1 for computation in loop.called)
    )


def _lay_out_state(loop: Instruction, target: Target) -> None:
    """Copy parts of the state that no step changes into panels, if only products read them."""
    computation, (condition, body) = loop.computation, loop.called
    state, after = loop.operands[0], body.root
    for index, weight in enumerate(state.operands):
        reads = _parts(body.parameters[0], index)
        if reads != [after.operands[index]] or _parts(condition.parameters[0], index):
            continue
        (read,) = reads
        products = [user for user in read.users if user is not after]
        if after.operands.count(read) > 1 or not _lay_out(read, products, target):
            continue
        for place in _parts(loop, index):
            computation.replace(place, weight)
            computation.remove(place)
        operands = list(state.operands)
        operands[index] = _packed(weight, read.array)
        computation.set_operands(state, operands)
        for place in (state, loop, condition.parameters[0], body.parameters[0], after):
            assert isinstance(place.shape, TupleShape)
            elements = list(place.shape.elements)
            elements[index] = read.shape
            place.computation.set_shape(place, TupleShape(tuple(elements)))


def _parts(whole: Instruction, index: int) -> list[Instruction]:
    """Return the instructions that read element `index` of a tuple."""
    return [user for user in whole.users if user.attributes.index == index]


def _packed(weight: Instruction, panels: ArrayShape) -> Instruction:
    """Copy `weight` into panels: its blocks of columns, each with rows one after the other."""
    assert panels.layout is not None
    computation, (column, *rest) = weight.computation, panels.minor_to_major
    block, width = panels.rank, panel_width(panels)
    dims = [*panels.dims, width]
    dims[column] //= width
    shape = ArrayShape(panels.dtype, tuple(dims))
    split = list(weight.array.minor_to_major)
    split.insert(split.index(column), block)
    blocks = make(computation, "bitcast", shape.with_layout(Layout(tuple(split))), weight)
    rows = len(panels.layout.tiles[0]) - 1
    moved = Layout((block, *rest[:rows], column, *rest[rows:]))
    copy = make(computation, "copy", shape.with_layout(moved), blocks)
    return make(computation, "bitcast", panels, copy)


def _lay_out(weight: Instruction, products: Sequence[Instruction], target: Target) -> bool:
    """Let the columns of all `products` lie in panels; False if one of them would not pack them."""
    if not products or not isinstance(weight.shape, ArrayShape):
        return False
    found = [_panels(inst, weight, target) for inst in products]
    if None in found or len(set(found)) > 1:
        return False
    panels, old = found[0], weight.shape
    assert panels is not None
    places = [weight, *(x for inst in products for x in _parameters(inst, weight))]
    for place in places:
        place.computation.set_shape(place, panels)
    again = [_product_of(inst) for inst in products]
    if all(p and has_panels(p[1], arithmetic_of(p[1], target), target) for p in again):
        return True
    for place in places:
        place.computation.set_shape(place, old)
    return False


def _panels(inst: Instruction, weight: Instruction, target: Target) -> ArrayShape | None:
    """Return the shape of `weight` in panels of the product of one kernel.

    None if the kernel makes no product that would pack it, alone, as its columns.
    """
    found = _product_of(inst)
    if found is None or (weight.array.layout is not None and weight.array.layout.has_attributes):
        return None
    core, gemm = found
    parameters = _parameters(inst, weight)
    (operand,) = parameters if len(parameters) == 1 else (weight,)
    is_alone = (
        inst.operands.count(weight) == 1
        and core.operands[1] is operand is not core.operands[0]
        and (operand is weight or (len(operand.users) == 1 and not operand.is_root))
    )
    if not is_alone or gemm.exchanged or gemm.sizes[0] > MAX_ROWS:
        return None
    width = tile_of(gemm, arithmetic_of(gemm, target), target).vectors
    width *= lanes(arithmetic_of(gemm, target), target)
    column, outer = _column_dimension(core)
    if column < 0 or weight.array.dims[column] % width:
        return None
    rest = [dim for dim in weight.array.minor_to_major if dim != column]
    rest.sort(key=lambda dim: dim in outer)
    by_columns = weight.array.with_layout(Layout((column, *rest)))
    return in_panels(by_columns, len(outer), width)


def _parameters(inst: Instruction, weight: Instruction) -> list[Instruction]:
    """Return the parameters of a fusion that are `weight`."""
    if not inst.is_a("fusion"):
        return []
    places = inst.called[0].parameters
    return [x for x, operand in zip(places, inst.operands, strict=True) if operand is weight]


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
        gemm = dot.packable_gemm(inst)
    return (root_of(inst), gemm) if isinstance(gemm, PackedGemm) else None


def _column_dimension(core: Instruction) -> tuple[int, tuple[int, ...]]:
    """Return the dimension of the columns in the right-hand side, and its batch dimensions."""
    attributes = core.attributes
    if core.is_a("convolution"):
        return attributes.dim_labels.kernel_output_feature, ()
    batches = tuple(attributes.rhs_batch_dims)
    contracted = {*batches, *attributes.rhs_contracting_dims}
    free = [dim for dim in range(core.operands[1].array.rank) if dim not in contracted]
    return (free[0] if len(free) == 1 else -1), batches
