"""Laws of tuple and get-tuple-element."""

from __future__ import annotations

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.opt.pattern import Found, P
from hloc.opt.rule import Rule


def _element(_computation: Computation, inst: Instruction, found: Found) -> Instruction:
    element: Instruction = found["x"].operands[inst.attributes.index]
    return element


def _is_rebuilt(inst: Instruction, _found: Found) -> bool:
    """The operands are all elements 0, 1, 2 ... of one tuple."""
    sources = {o.operands[0] for o in inst.operands if o.opcode.name == "get-tuple-element"}
    return len(sources) == 1 and all(
        o.opcode.name == "get-tuple-element" and o.attributes.index == place
        for place, o in enumerate(inst.operands)
    )


def _source(_computation: Computation, inst: Instruction, _found: Found) -> Instruction:
    return inst.operands[0].operands[0]


TUPLES = (
    Rule("element-of-tuple", P("get-tuple-element", (P("tuple", bind="x"),)), _element),
    Rule("tuple-of-elements", P("tuple"), _source, when=_is_rebuilt),
)
