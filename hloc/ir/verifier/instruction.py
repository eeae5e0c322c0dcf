"""Verify single instructions: operand count, layouts, inferred shape.

Real modules repeat: 20,000 instructions share a few hundred combinations of opcode,
shapes and attributes, so each combination is checked once.
"""

from __future__ import annotations

from collections.abc import Iterable

from hloc.errors import Diagnostic, HloError
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import ShapeRequest
from hloc.ir.verifier.faults import fault, operand_notes
from hloc.shapes import (
    UNBOUNDED,
    ArrayShape,
    BufferShape,
    Layout,
    Shape,
    TupleShape,
    compatible,
    leaves,
)

_ELEMENT_BITS = frozenset((0, 1, 2, 4, 8, 16, 32, 64, 128))


class InstructionChecks:
    """Checks instructions of one module, which must not change meanwhile."""

    def __init__(self) -> None:
        # By identity of shapes and attributes: the parser shares equal ones, and the module
        # keeps them alive. Only combinations without a fault are stored.
        self._sound: set[tuple[object, ...]] = set()
        # Shape rules permute layouts, so layouts are checked before them.
        self._without_layout: set[Instruction] = set()

    def check(self, instructions: Iterable[Instruction]) -> list[Diagnostic]:
        """Return the faults of `instructions`, each checked with its operands only."""
        found: list[Diagnostic] = []
        sound = self._sound
        for inst in instructions:
            row = inst.opcode
            attributes = 0 if row.parenthesis == "number" else id(inst.attributes)
            shapes = [id(operand.shape) for operand in inst.operands]
            key: tuple[object, ...] = (row, attributes, id(inst.shape), *shapes)
            if inst.called:
                key += tuple([_signature(called) for called in inst.called])
            if key in sound or not self._without_layout.isdisjoint(inst.operands):
                continue
            faults = _faults(inst)
            if faults:
                if faults[0].code == "HLOC0311":
                    self._without_layout.add(inst)
                found += faults
            else:
                sound.add(key)
        return found


def _signature(computation: Computation) -> tuple[int, ...]:
    """Return the shapes of a called computation that shape rules use, by identity."""
    shapes = [id(parameter.shape) for parameter in computation.parameters]
    return (id(computation.root.shape), *shapes)


def _faults(inst: Instruction) -> list[Diagnostic]:
    """Return the first fault: of operand count, layouts, an implicit broadcast, or the shape."""
    row = inst.opcode
    if row.arity is not None and len(inst.operands) != row.arity:
        return [
            fault("HLOC0310", f"takes {row.arity} operands, but has {len(inst.operands)}", inst)
        ]
    for _, leaf in leaves(inst.shape):
        message = _layout_fault(leaf)
        if message:
            return [fault("HLOC0311", message, inst)]
    message = _implicit_broadcast(inst)
    if message:
        note = "HLO does not broadcast implicitly; insert a broadcast instruction"
        return [fault("HLOC0312", message, inst, note)]
    request = ShapeRequest(
        tuple(operand.shape for operand in inst.operands),
        inst.attributes,
        inst.called,
        inst.shape,
    )
    try:
        inferred = row.infer(request)
    except HloError as error:
        message = error.message.removeprefix(f"{row.name}: ")
        return [fault("HLOC0313", message, inst, *operand_notes(inst))]
    if _agrees(inst, inferred):
        return []
    return [
        fault(
            "HLOC0314",
            f"is declared {inst.shape.text_without_layout}, but gives "
            f"{inferred.text_without_layout}",
            inst,
            *operand_notes(inst),
        )
    ]


# ---------------------------------------------------------------- layouts


def _layout_fault(leaf: ArrayShape | BufferShape) -> str:
    array = leaf.array if isinstance(leaf, BufferShape) else leaf
    if any(size < 0 and size != UNBOUNDED for size in array.dims):
        return f"shape {array.text_without_layout} has a negative size"
    layout = array.layout
    if layout is None:
        return ""
    if sorted(layout.minor_to_major) != list(range(array.rank)):
        order = ",".join(map(str, layout.minor_to_major))
        return f"layout {{{order}}} does not name each of {array.rank} dimensions once"
    return _layout_attribute_fault(array, layout)


def _layout_attribute_fault(array: ArrayShape, layout: Layout) -> str:
    bits = layout.element_bits
    if bits not in _ELEMENT_BITS or (bits and bits < array.dtype.bits):
        return f"layout attribute E({bits}) is no size in bits for an element of {array.dtype}"
    if any(size == 0 for tile in layout.tiles for size in tile):
        return f"layout {layout} has a tile of size 0"
    if layout.tail_alignment < 1:
        return f"layout attribute L({layout.tail_alignment}) must be at least 1"
    if layout.memory_space < 0:
        return f"layout attribute S({layout.memory_space}) is negative"
    if any(not 0 <= dim < array.rank for dim, _ in layout.splits):
        return f"layout {layout} splits a dimension that {array.text_without_layout} does not have"
    return ""


# ---------------------------------------------------------------- shapes


def _implicit_broadcast(inst: Instruction) -> str:
    """Return the fault of an elementwise instruction whose dimensions differ, or ""."""
    if not inst.opcode.elementwise or not isinstance(inst.shape, ArrayShape):
        return ""
    scalars_allowed = {"select": (0,), "clamp": (0, 2)}.get(inst.opcode.name, ())
    for number, operand in enumerate(inst.operands):
        shape = operand.shape
        if not isinstance(shape, ArrayShape):
            continue
        if number in scalars_allowed and not shape.dims:
            continue
        if not _same_sizes(shape, inst.shape):
            return (
                f"operand {number} has shape {shape.text_without_layout}, "
                f"but the result has {inst.shape.text_without_layout}"
            )
    return ""


def _same_sizes(a: ArrayShape, b: ArrayShape) -> bool:
    return a.dims == b.dims or compatible(a.with_dtype(b.dtype), b)


def _agrees(inst: Instruction, inferred: Shape) -> bool:
    declared = inst.shape
    if compatible(declared, inferred):
        return True
    if inst.opcode.contraction or inst.opcode.calls:
        return _same_sizes_everywhere(declared, inferred)
    return False


def _same_sizes_everywhere(a: Shape, b: Shape) -> bool:
    """Same structure and sizes, element types of one class (both floats, both integers ...)."""
    if isinstance(a, TupleShape) and isinstance(b, TupleShape):
        return len(a.elements) == len(b.elements) and all(
            _same_sizes_everywhere(x, y) for x, y in zip(a.elements, b.elements, strict=True)
        )
    return (
        isinstance(a, ArrayShape)
        and isinstance(b, ArrayShape)
        and _same_sizes(a, b)
        and (a.dtype.kind == b.dtype.kind or (a.dtype.is_integer and b.dtype.is_integer))
    )
