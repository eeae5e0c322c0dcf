"""The local form of an instruction: each device computes its part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hloc.dtypes import S32
from hloc.ir.attributes import NO_COMMON, SliceDimension
from hloc.ir.factors import WHOLE, FactorRule
from hloc.ir.instruction import Instruction
from hloc.opt.spmd.assignment import Assignment
from hloc.opt.spmd.region import Region
from hloc.shapes import ArrayShape, Shape, TupleShape


def local_instruction(
    region: Region,
    inst: Instruction,
    operands: Sequence[Instruction],
    rule: FactorRule,
    assignment: Assignment,
) -> Instruction:
    """Add `inst` over the local parts of its operands."""
    if inst.is_a("iota"):
        return _iota(region, inst, assignment.tiling(rule.results[0]).dims)
    return region.computation.add(
        inst.opcode,
        _local_shape(inst.shape, rule, assignment),
        operands,
        _attributes(inst, operands, rule),
        inst.called,
        name=inst.name,
        common=replace(NO_COMMON, metadata=inst.common.metadata,
                       backend_config=inst.common.backend_config),
        span=inst.span,
    )  # fmt: skip


def local_array(shape: ArrayShape, dims: Sequence[int]) -> ArrayShape:
    """Return the shape of a part of sizes `dims`, with the layout of the whole."""
    return replace(shape, dims=tuple(dims))


def _local_shape(shape: Shape, rule: FactorRule, assignment: Assignment) -> Shape:
    parts = shape.elements if isinstance(shape, TupleShape) else (shape,)
    found = []
    for part, factors in zip(parts, rule.results, strict=True):
        assert isinstance(part, ArrayShape)
        found.append(local_array(part, assignment.tiling(factors).local_dims(part.dims)))
    return TupleShape(tuple(found)) if isinstance(shape, TupleShape) else found[0]


def _attributes(inst: Instruction, operands: Sequence[Instruction], rule: FactorRule) -> Any:
    """Return the attributes of `inst` with the sizes of the local parts."""
    attributes = inst.attributes
    if inst.is_a("slice"):
        dims = operands[0].array.dims
        parts = [
            part if factor == WHOLE else SliceDimension(0, size, 1)
            for part, factor, size in zip(attributes.slice, rule.operands[0], dims, strict=True)
        ]
        return replace(attributes, slice=tuple(parts))
    if inst.is_a("custom-call") and attributes.operand_layout_constraints is not None:
        pairs = zip(attributes.operand_layout_constraints, operands, strict=True)
        constraints = tuple(replace(shape, dims=part.array.dims) for shape, part in pairs)
        return replace(attributes, operand_layout_constraints=constraints)
    for name in ("dynamic_slice_sizes", "slice_sizes"):
        if hasattr(attributes, name) and inst.is_a("dynamic-slice", "gather"):
            sizes = [
                size if factor == WHOLE or size == 1 else local
                for size, factor, local in zip(
                    getattr(attributes, name), rule.operands[0], operands[0].array.dims,
                    strict=True,
                )
            ]  # fmt: skip
            return replace(attributes, **{name: tuple(sizes)})
    return attributes


def _iota(region: Region, inst: Instruction, dims: Sequence[tuple[int, ...]]) -> Instruction:
    """Count from this partition's offset on."""
    dim, b = inst.attributes.iota_dimension, region.build
    sizes = [-(-n // region.mesh.size(a)) for n, a in zip(inst.array.dims, dims, strict=True)]
    local = b.instruction("iota", (), shape=local_array(inst.array, sizes), iota_dimension=dim)
    if not dims[dim]:
        return region.annotated(local)
    offset = region.offset(dims[dim], sizes[dim])
    if inst.array.dtype is not S32:
        offset = b.convert(offset, inst.array.dtype)
    return region.annotated(b.add(local, b.broadcast(offset, sizes)))
