"""Chains of async-start, async-update and async-done, and what may come between the links.

A chain is late-bound if its start lacks operands, or the result in its shape: updates add the
others, and the computation runs when it has all of them. Source: XLA's `hlo_instruction_utils.cc`.
"""

from __future__ import annotations

from collections.abc import Iterator

from hloc.ir.instruction import Instruction
from hloc.shapes import Shape, TupleShape, compatible

LINKS = ("async-start", "async-update")
_HANDED_ON = frozenset(
    (
        "Sharding", "LocalToGlobalShape", "GlobalToLocalShape", "xla.sdy.LocalToGlobalShape",
        "xla.sdy.GlobalToLocalShape", "xla.sdy.FuncResultSharding",
    )
)  # fmt: skip
"""Targets of custom calls that may be part of a chain."""


def producer_of(inst: Instruction) -> Instruction | None:
    """Return the async-start or async-update that `inst` is, or whose value it forwards.

    Looks through tuples, copies, barriers and the state of loops.
    """
    path: list[int] = []
    seen: set[tuple[Instruction, int]] = set()
    while (inst, len(path)) not in seen:
        seen.add((inst, len(path)))
        name = inst.opcode.name
        if name in LINKS:
            return inst if not path else None
        if name == "parameter":
            loops = [loop for loop in inst.computation.callers if loop.opcode.name == "while"]
            if len(loops) != 1:
                return None
            inst = loops[0].operands[0]
        elif name == "tuple":
            if not path:
                return None
            inst = inst.operands[path.pop()]
        elif name == "get-tuple-element":
            path.append(inst.attributes.index)
            inst = inst.operands[0]
        elif _hands_on(inst):
            inst = inst.operands[0]
        else:
            return None
    return None


def may_be_link(inst: Instruction) -> bool:
    """Tell whether `producer_of` may find a link, now or when the loop around it has been read."""
    return inst.is_a(*LINKS, "parameter", "get-tuple-element") or _hands_on(inst)


def _hands_on(inst: Instruction) -> bool:
    name = inst.opcode.name
    if name == "custom-call":
        return inst.attributes.custom_call_target in _HANDED_ON and len(inst.operands) == 1
    return name in ("copy", "opt-barrier", "while")


def links_of(inst: Instruction) -> Iterator[Instruction]:
    """Yield the links before an async-update or async-done, the nearest first; a start is last."""
    seen: set[Instruction] = set()
    at: Instruction | None = inst
    while at is not None and at.opcode.name != "async-start" and at.operands and at not in seen:
        seen.add(at)
        at = producer_of(at.operands[0])
        if at is not None:
            yield at


def async_start_of(inst: Instruction) -> Instruction | None:
    """Return the async-start of the chain of `inst`: a link, an async-done, or between them."""
    at: Instruction | None = inst if inst.opcode.name == "async-done" else producer_of(inst)
    for link in links_of(at) if at is not None else ():
        at = link
    return at if at is not None and at.opcode.name == "async-start" else None


def is_complete(link: Instruction, start: Instruction) -> bool:
    """Tell whether the shape of `link` has all operands of the computation and its result."""
    computation = start.called[0]
    shape = link.shape
    assert isinstance(shape, TupleShape)
    parameters = TupleShape(tuple(p.shape for p in computation.parameters))
    return compatible(shape.elements[0], parameters) and compatible(
        shape.elements[1], computation.root.shape
    )


def is_prefix(part: Shape, whole: Shape) -> bool:
    """Tell whether `whole` is `part` with more elements; `()` is a prefix of everything."""
    if isinstance(part, TupleShape) and not part.elements:
        return True
    if not (isinstance(part, TupleShape) and isinstance(whole, TupleShape)):
        return compatible(part, whole)
    pairs = zip(part.elements, whole.elements, strict=False)
    return len(part.elements) <= len(whole.elements) and all(is_prefix(a, b) for a, b in pairs)
