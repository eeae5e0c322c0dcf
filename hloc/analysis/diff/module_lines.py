"""The lines of a module at one moment, which stay when it changes; texts of shapes and elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.print_order import computation_order, instruction_order
from hloc.ir.printer import instruction_printer, print_instruction
from hloc.ir.traversal import reachable_computations
from hloc.lazy_dataclass import dataclass
from hloc.literal import Literal
from hloc.shapes import BufferShape, Shape, TupleShape

_LITERAL_ELEMENTS = 8


@dataclass(frozen=True, slots=True)
class Line:
    """One instruction of a snapshot.

    Attributes:
        operands: pairs of uid and name.
        place: where it begins in the text that was parsed, None if a pass created it.
    """

    uid: int
    name: str
    head: str
    operands: tuple[tuple[int, str], ...]
    tail: str
    is_root: bool
    place: int | None = None

    @property
    def opcode(self) -> str:
        return self.head.rpartition(" ")[2]

    def text(self, operands: Iterable[str] | None = None) -> str:
        """Return `add.5 = f32[8] add(x, y)`, with other operand texts if given."""
        inside = (name for _, name in self.operands) if operands is None else operands
        root = "ROOT " if self.is_root else ""
        return f"{root}{self.name} = {self.head}({', '.join(inside)}{self.tail}"


@dataclass(frozen=True, slots=True)
class ComputationLines:
    """One computation of a snapshot, in print order; `is_called`, directly or not, by the entry."""

    uid: int
    name: str
    is_entry: bool
    lines: tuple[Line, ...]
    is_called: bool = True


Snapshot: TypeAlias = tuple[ComputationLines, ...]


def snapshot(module: Module) -> Snapshot:
    """Return the lines of `module` in its present state."""
    called = {computation.uid for computation in reachable_computations(module.entry)}
    shown = instruction_printer(module, "short")
    return tuple(
        ComputationLines(
            computation.uid,
            computation.name,
            computation is module.entry,
            tuple(line_of(inst, shown=shown) for inst in instruction_order(computation)),
            computation.uid in called,
        )
        for computation in computation_order(module)
    )


def line_of(
    inst: Instruction, *, layouts: bool = True, shown: Callable[[Instruction], str] | None = None
) -> Line:
    """Return `inst` as a line; row-major layouts, metadata and long literals are left out.

    Args:
        inst: of any module.
        layouts: without them the other layouts are left out too.
        shown: prints instructions of the module in the style `short`, None for a new printer.
    """
    names = ", ".join(operand.name for operand in inst.operands)
    if inst.opcode.parenthesis == "literal":
        tail = f"{literal_text(inst.attributes.literal)})"
    else:
        full = shown(inst) if shown is not None else print_instruction(inst, "short")
        opening = full.index("(" + names, len(f"{inst.name} = {inst.shape} "))
        tail = full[opening + 1 + len(names) :]
    return Line(
        inst.uid,
        inst.name,
        f"{shape_text(inst.shape) if layouts else inst.shape.text_without_layout} "
        f"{inst.opcode.name}",
        tuple((operand.uid, operand.name) for operand in inst.operands),
        tail,
        inst.is_root,
        inst.span.start if inst.span is not None else None,
    )


def shape_text(shape: Shape) -> str:
    """Return `f32[2,3]`, or `f32[2,3]{0,1}` if the layout is not row-major."""
    if isinstance(shape, TupleShape):
        return f"({', '.join(map(shape_text, shape.elements))})"
    array = shape.array if isinstance(shape, BufferShape) else shape
    return shape.text_without_layout if array.layout is None else str(shape)


def literal_text(literal: Literal) -> str:
    """Return up to eight elements of a literal: `{1, 2, 3, ...}`, `0.5`."""
    value = literal.value
    if not isinstance(value, np.ndarray):
        return "{...}"
    flat = value.reshape(-1)
    texts = [element_text(element) for element in flat[:_LITERAL_ELEMENTS]]
    if value.ndim == 0:
        return texts[0]
    return "{" + ", ".join(texts + ["..."] * (flat.size > _LITERAL_ELEMENTS)) + "}"


def element_text(element: Any) -> str:
    """Return a short text of one element: `0.5`, `-inf`, `true`."""
    if isinstance(element, bool | np.bool_):
        return "true" if element else "false"
    if isinstance(element, complex | np.complexfloating):
        return f"({element.real:.6g}, {element.imag:.6g})"
    if isinstance(element, int | np.integer) or element.dtype.name.startswith(("int", "uint")):
        return str(int(element))
    return f"{float(element):.6g}"
