"""The result of buffer assignment: the slice of every leaf, the buffers, the data of constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.literal import Literal
from hloc.memory.aligned_array import aligned_copy
from hloc.memory.allocation import AliasedOutput, BufferReport, NamedLeaf, Slice
from hloc.memory.panels import panel_order, panel_width
from hloc.memory.values import Timeline, Value, Values
from hloc.shapes import ArrayShape, ShapeIndex, data_leaves


@dataclass(frozen=True, slots=True, eq=False)
class ConstantArray:
    """The data of a constant leaf, and its shape with layout."""

    literal: Literal
    shape: ArrayShape

    @property
    def in_memory(self) -> np.ndarray[Any, Any]:
        """The values in the order in which they lie in memory."""
        order = tuple(reversed(self.shape.minor_to_major))
        array = self.literal.array.transpose(order)
        if panel_width(self.shape):
            return aligned_copy(panel_order(array, self.shape))
        return np.require(array, requirements=("C", "A"))


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """A buffer: memory that one or more values use in turn.

    Attributes:
        values: the values that share it; empty for scratch memory.
        inst: the instruction whose scratch memory it is, or that defines the first value.
        busy: first and last event of each interval of the timeline in which it is in use.
        is_guest: a temporary in an output that is not written yet.
    """

    place: Slice
    inst: Instruction
    values: tuple[Value, ...]
    busy: tuple[tuple[int, int], ...]
    is_guest: bool


@dataclass(frozen=True, slots=True, eq=False)
class BufferAssignment:
    """The buffer of every leaf of every instruction.

    Attributes:
        constants: data of the allocations of kind `constant`, by number.
        parameters, outputs: array leaves of the entry's parameters and root, tokens left out.
        buffers: every buffer that has a slice, in the order of first use.
        aliases: outputs that the module puts into parameters, shared or not.
    """

    values: Values
    timeline: Timeline
    arena_bytes: int
    constants: tuple[ConstantArray, ...]
    parameters: tuple[ArrayShape, ...]
    outputs: tuple[ArrayShape, ...]
    report: BufferReport
    buffers: tuple[Buffer, ...]
    _slices: tuple[Slice, ...]
    _scratch: Mapping[Instruction, Slice]
    aliases: tuple[AliasedOutput, ...] = ()
    _same_memory: Mapping[Slice, Slice] = field(default_factory=dict)

    def slice_of(self, inst: Instruction, index: ShapeIndex = ()) -> Slice:
        """Return the slice of leaf `index` of `inst`, which has elements."""
        return self._slices[self.values.at(inst, index).number]

    def scratch(self, inst: Instruction) -> Slice | None:
        """Return the scratch memory of `inst`, None if it has none."""
        return self._scratch.get(inst)

    def aliased(self, inst: Instruction, *, given: bool = False) -> tuple[int | None, ...]:
        """Return, per array leaf of the result, the operand leaf it overwrites, or None.

        Operand leaves are counted over all operands, those without elements included.

        Args:
            inst: makes arrays.
            given: for a call whose caller donates all arguments that an output may overwrite.
        """
        same = self._same_memory if given else {}
        operands: dict[Slice, int] = {}
        for number, (operand, index, shape) in enumerate(_all_operand_leaves(inst)):
            if shape.size_bytes:
                place = self.slice_of(operand, index)
                operands.setdefault(same.get(place, place), number)
        return tuple(
            operands.get(self.slice_of(inst, index)) if shape.size_bytes else None
            for index, shape in data_leaves(inst.shape)
        )


def parameter_leaves(module: Module) -> tuple[NamedLeaf, ...]:
    """Return every array leaf of the entry's parameters, in the order of the arguments."""
    return tuple(
        NamedLeaf(f"parameter {p.attributes.number} ({p.name}){_index_text(index)}", shape)
        for p in module.entry.parameters
        for index, shape in data_leaves(p.shape)
    )


def _index_text(index: ShapeIndex) -> str:
    return f" at {{{','.join(map(str, index))}}}" if index else ""


def _all_operand_leaves(inst: Instruction) -> list[tuple[Instruction, ShapeIndex, ArrayShape]]:
    return [
        (operand, index, shape)
        for operand in inst.operands
        for index, shape in data_leaves(operand.shape)
    ]
