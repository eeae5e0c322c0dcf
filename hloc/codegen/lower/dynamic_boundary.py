"""Dynamic sizes at the boundary of a compiled module: hidden `s32[]` parameters and results.

After the dynamic padder, only `PadToStatic` of entry parameters and `SliceToDynamic` of results
have dynamic shapes. Here they become static arrays with separate sizes, which the executable passes
and reads.
"""

from __future__ import annotations

from dataclasses import replace

from hloc.codegen.lower.hidden_sizes import DynamicBoundary, HiddenSize
from hloc.dtypes import S32
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.ir.traversal import post_order
from hloc.ops.builder import Builder
from hloc.ops.custom_calls.custom_call_targets import is_call_of
from hloc.opt.dynamic.scope import has_dynamic, static
from hloc.shapes import ArrayShape, ShapeIndex, data_leaves


def make_boundary_static(module: Module) -> DynamicBoundary:
    """Change `module` in place; return the hidden sizes that the executable passes and reads."""
    with module.log.acting("dynamic-boundary"):
        return DynamicBoundary(_static_parameters(module), _static_results(module))


def _static_parameters(module: Module) -> tuple[HiddenSize, ...]:
    """Add an `s32[]` parameter for each dynamic dimension of a parameter; its readers use it."""
    entry = module.entry
    hidden: list[HiddenSize] = []
    sizes: dict[tuple[Instruction, ShapeIndex, int], Instruction] = {}
    row = opcode_row("parameter")
    assert row.attributes is not None
    parameters = entry.parameters
    leaves = [(p, index, leaf) for p in parameters for index, leaf in data_leaves(p.shape)]
    for number, (parameter, index, leaf) in enumerate(leaves):
        for dim, is_dynamic in enumerate(leaf.dynamic):
            if is_dynamic:
                attributes = row.attributes(number=len(parameters) + len(hidden))
                size = entry.add(row, ArrayShape(S32), attributes=attributes, name="size")
                hidden.append(HiddenSize(number, dim))
                sizes[parameter, index, dim] = size
    if hidden:
        for inst in post_order(entry):
            _take_sizes(inst, sizes)
    return tuple(hidden)


def _take_sizes(
    inst: Instruction, sizes: dict[tuple[Instruction, ShapeIndex, int], Instruction]
) -> None:
    """Replace a `PadToStatic` by the array and its sizes; make shapes that lead to it static."""
    computation = inst.computation
    if is_call_of(inst, "PadToStatic"):
        b = Builder(computation)
        (array,) = inst.operands
        parameter, index = _origin(array)
        parts = [
            sizes.get((parameter, index, dim)) or b.constant(size, S32)
            for dim, size in enumerate(array.array.dims)
        ]
        computation.replace(inst, b.tuple([array, *parts]))
        computation.remove(inst)
    elif inst.is_a("parameter", "get-tuple-element") and has_dynamic(inst.shape):
        computation.set_shape(inst, static(inst.shape))


def _origin(inst: Instruction) -> tuple[Instruction, ShapeIndex]:
    index: ShapeIndex = ()
    while inst.is_a("get-tuple-element"):
        index = (inst.attributes.index, *index)
        (inst,) = inst.operands
    return inst, index


def _static_results(module: Module) -> tuple[HiddenSize, ...]:
    """Append the sizes of dynamic results to the root, which becomes `(result, sizes...)`."""
    entry = module.entry
    if not has_dynamic(entry.root.shape):
        return ()
    hidden: list[HiddenSize] = []
    sizes: list[Instruction] = []
    for number, (index, leaf) in enumerate(data_leaves(entry.root.shape)):
        call = _call_at(entry.root, index)
        for dim in range(leaf.rank):
            if call is not None and leaf.is_dynamic(dim):
                hidden.append(HiddenSize(number, dim))
                sizes.append(call.operands[1 + dim])
    for inst in post_order(entry):
        if is_call_of(inst, "SliceToDynamic"):
            entry.replace(inst, inst.operands[0])
            entry.remove(inst)
        elif has_dynamic(inst.shape):
            entry.set_shape(inst, static(inst.shape))
    if not sizes:
        return ()
    entry.set_root(Builder(entry).tuple([entry.root, *sizes]))
    # Aliases refer to indices of the old result; dynamic results are copied anyway.
    module.set_config(replace(module.config, aliases=(), buffer_donors=()))
    return tuple(hidden)


def _call_at(root: Instruction, index: ShapeIndex) -> Instruction | None:
    """Return the `SliceToDynamic` that defines a leaf of the root, None for a static leaf."""
    for i in index:
        if not root.is_a("tuple"):
            return None
        root = root.operands[i]
    return root if is_call_of(root, "SliceToDynamic") else None
