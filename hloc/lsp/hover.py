"""Hover texts in Markdown: for an instruction, a computation, an opcode, an attribute."""

from __future__ import annotations

from typing import NamedTuple

from hloc.analysis.cost import Cost, computation_cost, instruction_cost
from hloc.errors import printable
from hloc.ir.attribute_fields import attribute_fields
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.origin import origin_of
from hloc.lsp.document import Document
from hloc.lsp.names import Word, line_words, word_at
from hloc.lsp.parts import Part, Range
from hloc.ops import OPCODES
from hloc.quantities import count_text, size_text
from hloc.report.describe import describe_opcode
from hloc.report.text import plural

_MOST_USERS = 8


class Hover(NamedTuple):
    """Markdown about the text at `range`."""

    range: Range
    text: str


def hover(document: Document, offset: int) -> Hover | None:
    """Return the hover text of the word at `offset`, None if there is none."""
    word = word_at(document, offset)
    if word is None:
        return None
    text = ""
    if word.kind in ("name", "definition") and word.part is not None:
        inst = word.part.by_name.get(word.name)
        text = _instruction(document, word.part, inst) if inst is not None else ""
    elif word.kind == "computation" and word.name in document.by_name:
        text = _computation(document, word.name)
    elif word.kind == "opcode" and word.name in OPCODES:
        text = _fenced(describe_opcode(word.name))
    elif word.kind == "attribute":
        text = _attribute(document, word)
    return Hover(Range(word.start, word.end), text) if text else None


def cost_of(document: Document, inst: Instruction) -> Cost | None:
    """Return the cost of `inst` including what it calls; None if a callee has errors.

    The interface of a large callee has no instructions, so callees are looked up by
    name; those written inside the instruction have no other text.
    """

    def real(computation: Computation) -> Computation | None:
        part = document.by_name.get(computation.name)
        return computation if part is None else part.computation

    costs: dict[Computation, Cost] = {}
    stack = [real(called) for called in inst.called]
    while stack:
        computation = stack[-1]
        if computation is None:
            return None
        called = [real(c) for i in computation.instructions if i.called for c in i.called]
        missing = [c for c in called if c is None or c not in costs]
        if missing and computation not in costs:
            stack += missing
            continue
        stack.pop()
        if computation not in costs:
            costs[computation] = computation_cost(computation, lambda c: costs[_parsed(real(c))])
    return instruction_cost(inst, lambda c: costs[_parsed(real(c))])


def _parsed(computation: Computation | None) -> Computation:
    assert computation is not None, "a callee with errors gives None before"
    return computation


def _instruction(document: Document, part: Part, inst: Instruction) -> str:
    """Return what is known of an instruction: its line, memory, cost, users, source, meaning."""
    operands = ", ".join(_name(part, operand) for operand in inst.operands)
    line = f"{_name(part, inst)} = {inst.shape} {inst.opcode.name}({operands})"
    rows = [f"memory: {size_text(inst.shape.size_bytes)}"]
    cost = cost_of(document, inst)
    if cost is not None and cost.flops:
        rows.append(f"operations: {count_text(cost.flops, 'FLOP')}")
    if cost is not None and cost.transcendentals:
        rows.append(f"elementary functions: {cost.transcendentals:,}")
    if cost is not None and cost.bytes:
        read, written = size_text(cost.bytes_read), size_text(cost.bytes_written)
        rows.append(f"traffic: {read} read, {written} written")
    rows.append(_users(part, inst))
    if origin := origin_of(inst):
        rows.append(f"made at {printable(origin)}")
    if inst.op_name:
        rows.append(f"op_name {printable(inst.op_name)}")
    rows.append(inst.opcode.reads)
    return "\n\n".join([_fenced(printable(line), "hlo"), *map(_escaped, rows)])


def _name(part: Part, inst: Instruction) -> str:
    """Return the name in the text; the module has another one if two computations share it."""
    return part.names.get(inst, inst.name)


def _users(part: Part, inst: Instruction) -> str:
    names = [_name(part, user) for user in inst.users]
    if part.computation is not None and inst.is_root:
        names.append("the result of the computation")
    if not names:
        return "users: none"
    more = f" and {len(names) - _MOST_USERS:,} more" if len(names) > _MOST_USERS else ""
    return f"users: {', '.join(names[:_MOST_USERS])}{more}"


def _computation(document: Document, name: str) -> str:
    part = document.by_name[name]
    if part.computation is None:
        return ""
    found = part.computation
    parameters = ", ".join(f"{_name(part, p)}: {p.shape}" for p in found.parameters)
    callers = sum(name in (other.callees or {}) for other in document.parts)
    head = f"{name} ({parameters}) -> {found.root.shape}"
    said = f"{plural(len(found), 'instruction')}, called from {plural(callers, 'computation')}"
    return f"{_fenced(printable(head), 'hlo')}\n\n{said}"


def _attribute(document: Document, word: Word) -> str:
    opcodes = [w.name for w in line_words(document, word.start) if w.kind == "opcode"]
    row = OPCODES.get(opcodes[0]) if opcodes else None
    for field in attribute_fields(row.attributes if row else None):
        if field.name == word.name:
            kind = field.kind.replace("_", " ")
            choices = f" of {', '.join(field.choices)}" if field.choices else ""
            need = "required" if field.required else "optional"
            return f"`{field.name}`: {kind}{choices}, {need}"
    for role in row.calls if row else ():
        if word.name in (role.name, *role.aliases):
            kind = "list of computations" if role.many else "computation"
            return f"`{word.name}`: {kind}, {'optional' if role.optional else 'required'}"
    return ""


def _fenced(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.replace('```', '` ` `')}\n```"


def _escaped(text: str) -> str:
    """Return `text` with Markdown and HTML escaped; names are untrusted."""
    return "".join(f"\\{c}" if c in "\\`*_<>[]#&" else c for c in text)
