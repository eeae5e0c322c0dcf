"""Labels of boxes, and operands that are written inline instead of drawn.

Constants, scalars, broadcasts of scalars and, in large computations, parameters that are small
vectors are written in their users; get-tuple-element is looked through.
"""

from __future__ import annotations

from collections.abc import Iterable

from hloc.analysis.diff.module_lines import literal_text
from hloc.errors import printable
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.shapes import ArrayShape

_TITLE_LETTERS = 34
_ARGUMENT_LETTERS = 12
_LARGE = 60
_SMALL_ELEMENTS = 4096
_DRAWN = "·"


def shown(text: str, most: int = 0) -> str:
    """Return `text` without control characters, shortened in the middle to `most` characters."""
    text = printable(text)
    if most and len(text) > most:
        head = (most - 1) * 2 // 3
        return f"{text[:head]}…{text[head + 1 - most :]}"
    return text


def title_of(inst: Instruction, written: dict[Instruction, str]) -> str:
    """Return `maximum(·, 0)`: the opcode, its attributes, and the operands in `written`."""
    words = " ".join((inst.opcode.name, *_details(inst)))
    texts = [written.get(operand, _DRAWN) for operand in inst.operands]
    if any(text != _DRAWN for text in texts) and len(texts) <= 3:
        words += f"({', '.join(shown(text, _ARGUMENT_LETTERS) for text in texts)})"
    return shown(words, _TITLE_LETTERS)


def _details(inst: Instruction) -> Iterable[str]:
    name, attributes = inst.opcode.name, inst.attributes
    if name == "fusion":
        yield str(getattr(attributes, "kind", "")).removeprefix("k").lower()
    elif name == "compare":
        yield str(attributes.direction)
    elif name == "parameter":
        yield str(attributes.number)
    elif name == "get-tuple-element":
        yield str(attributes.index)
    elif name == "custom-call":
        yield str(attributes.custom_call_target)
    elif name == "transpose":
        yield "{" + ",".join(map(str, attributes.dimensions)) + "}"
    elif not inst.opcode.control_flow:
        yield from (_applied(called) for called in inst.called if is_simple(called))


def _applied(computation: Computation) -> str:
    root = computation.root
    return str(root.attributes.direction) if root.is_a("compare") else root.opcode.name


def is_simple(computation: Computation) -> bool:
    """True if a computation is one instruction on parameters, which its opcode describes."""
    root = computation.root
    return not root.is_a("parameter") and len(computation) == len(computation.parameters) + 1


def written_in_users(computation: Computation) -> dict[Instruction, str]:
    """Return the instructions that are written in their users, with their text."""
    is_large = len(computation) > _LARGE
    found: dict[Instruction, str] = {}
    for inst in computation.instructions:
        if not inst.users or inst.is_root or inst.control_predecessors:
            continue
        text = _text(inst, is_large)
        if text:
            found[inst] = text
    for inst in computation.instructions:
        if inst.is_a("broadcast") and inst.users and not inst.is_root:
            (operand,) = inst.operands
            shape = operand.shape
            if operand in found and isinstance(shape, ArrayShape) and shape.is_scalar:
                found[inst] = found[operand]
    return found


def _text(inst: Instruction, is_large: bool) -> str:
    if inst.is_a("constant"):
        return literal_text(inst.attributes.literal)
    if not inst.is_a("parameter") or not isinstance(inst.shape, ArrayShape):
        return ""
    small = inst.shape.rank <= 1 and inst.shape.elements <= _SMALL_ELEMENTS
    return inst.name if inst.shape.is_scalar or (is_large and small) else ""
