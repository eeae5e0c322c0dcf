"""Manual edits: each is verified and becomes a state, or is refused with the reason.

Some edits change the text of the module and parse it again, so that they can use
all of HLO text, and errors get the parser's messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from hloc import driver
from hloc.errors import Diagnostic, HloError
from hloc.ir.clone import clone_module
from hloc.ir.events import Event
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.printer import print_instruction
from hloc.ir.traversal import all_instructions
from hloc.ir.verifier import check
from hloc.shapes import ArrayShape, Layout, compatible
from repl.adopted import events_between, matched_by_name
from repl.state import State

if TYPE_CHECKING:
    from repl.session import Session

BY = "edit"
_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_LAYOUT = re.compile(r"\{?\s*((?:\d+\s*,\s*)*\d+)\s*\}?")


def line_text(inst: Instruction) -> str:
    """Return the right-hand side of an instruction as HLO text: `f32[4]{0} add(x, y)`."""
    return print_instruction(inst, "default").split(" = ", 1)[1]


def edit_instruction(session: Session, name: str, text: str) -> State:
    """Replace the right-hand side of an instruction; its name may precede it.

    Raises:
        HloError: the text is no instruction, is not valid there, or has another name.
    """
    inst = session.find(name)
    left, equals, right = text.partition(" = ")
    if equals and _NAME.fullmatch(_bare(left)):
        if _bare(left) != inst.name:
            raise HloError(f"edit keeps the name {inst.name!r}", notes=("use: rename %x NAME",))
        text = right
    root = "ROOT " if inst.is_root else ""
    lines = _lines(session.current.module)
    lines[_line_of(lines, inst)] = f"  {root}{inst.name} = {text.strip()}"
    return edit_module(session, "\n".join(lines), f"edit %{inst.name}")


def _bare(name: str) -> str:
    return name.strip().removeprefix("ROOT ").strip().removeprefix("%")


def insert_instruction(session: Session, text: str) -> State:
    """Add a line `name = shape opcode(operands)` to the computation of its operands.

    Without operands it goes into the entry computation.
    """
    module = session.current.module
    inside = text.partition("(")[2]
    known = {inst.name: inst for inst in all_instructions(module)}
    words = [word.removeprefix("%") for word in re.findall(r"%?[A-Za-z_][\w.\-]*", inside)]
    first = next((known[word] for word in words if word in known), module.entry.root)
    if not re.fullmatch(r"%?[A-Za-z_][\w.\-]* = .+", text.strip(), re.DOTALL):
        raise HloError("insert what?", notes=("use: insert NAME = f32[4] add(x, y)",))
    lines = _lines(module)
    at = _line_of(lines, first.computation.root)
    lines.insert(at, f"  {text.strip()}")
    return edit_module(session, "\n".join(lines), f"insert {text.partition(' = ')[0].strip()}")


def edit_module(session: Session, text: str, how: str) -> State:
    """Enter the module in `text` as a change of the current one.

    Raises:
        HloError: errors in the text.
    """
    old = session.current
    parsed = driver.parse_text(text, name="<edit>")
    new = matched_by_name(old.module, parsed, session.highest_uid)
    return _entered(session, how, new, events_between(old.module, new, BY))


def _lines(module: Module) -> list[str]:
    return module.to_text("default", large_constants=True).split("\n")


def _line_of(lines: list[str], inst: Instruction) -> int:
    """Return the number of the line that defines `inst`."""
    beginning = re.compile(rf"\s*(?:ROOT )?%?{re.escape(inst.name)} = ")
    found = [i for i, line in enumerate(lines) if beginning.match(line)]
    if not found:
        raise HloError(f"{inst.name} has no line of its own")
    return found[0]


# ---------------------------------------------------------------- changes of the graph


def change(session: Session, how: str, action: Callable[[Module], None]) -> State:
    """Apply `action` to a copy of the current module and enter it."""
    module = clone_module(session.current.module)
    module.reserve_uids(session.highest_uid)
    with module.log.acting(BY):
        action(module)
    return _entered(session, how, module, tuple(module.log.events))


def _entered(session: Session, how: str, module: Module, events: tuple[Event, ...]) -> State:
    faults = check(module)
    if faults:
        plain = [Diagnostic(fault.message, None, fault.notes, fault.code) for fault in faults[:8]]
        raise HloError([*plain, Diagnostic("nothing was changed")])
    if not events:
        raise HloError("the edit changes nothing")
    return session.add_state(session.current, how, module, events)


def _same(module: Module, inst: Instruction) -> Instruction:
    """Return the counterpart of `inst` in a clone."""
    return next(other for other in all_instructions(module) if other.uid == inst.uid)


def replace_instruction(session: Session, name: str, by: str) -> State:
    """Replace an instruction by another one, which may be given as HLO text.

    Raises:
        HloError: shapes differ, or the other one depends on the first.
    """
    inst = session.find(name)
    if not _NAME.fullmatch(by.removeprefix("%")):
        return edit_instruction(session, name, by)
    other = session.find(by)
    if inst is other:
        raise HloError(f"{inst.name} cannot be replaced by itself")
    if inst.computation is not other.computation:
        raise HloError(f"{other.name} is in {other.computation.name}, not where {inst.name} is")
    if not compatible(inst.shape, other.shape):
        raise HloError(f"{inst.name} is {inst.shape}, but {other.name} is {other.shape}")

    def act(module: Module) -> None:
        old = _same(module, inst)
        old.computation.replace(old, _same(module, other))
        if not old.users and not old.is_root and not old.is_a("parameter"):
            old.computation.remove(old)

    return change(session, f"replace %{inst.name} with %{other.name}", act)


def delete_instruction(session: Session, name: str) -> State:
    """Remove an unused instruction.

    Raises:
        HloError: it has users, is the root, or a parameter.
    """
    inst = session.find(name)
    if inst.users:
        users = ", ".join(user.name for user in list(inst.users)[:5])
        raise HloError(
            f"{inst.name} is used by {users}", notes=(f"use: replace %{inst.name} WITH %other",)
        )
    if inst.is_root or inst.is_a("parameter"):
        kind = "the root" if inst.is_root else "a parameter"
        raise HloError(f"{inst.name} is {kind} of {inst.computation.name}")

    def act(module: Module) -> None:
        old = _same(module, inst)
        old.computation.remove(old)

    return change(session, f"delete %{inst.name}", act)


def rename_instruction(session: Session, name: str, new_name: str) -> State:
    """Give an instruction another name.

    Raises:
        HloError: the name is taken, or is not valid.
    """
    inst = session.find(name)
    wanted = new_name.removeprefix("%")
    if not _NAME.fullmatch(wanted):
        raise HloError(f"{new_name!r} is not a valid instruction name")
    if any(other.name == wanted for other in all_instructions(session.current.module)):
        raise HloError(f"an instruction named {wanted!r} already exists")

    def act(module: Module) -> None:
        old = _same(module, inst)
        old.computation.rename(old, wanted)

    return change(session, f"rename %{inst.name} {wanted}", act)


def set_layout(session: Session, name: str, layout: str) -> State:
    """Give an instruction another layout, `{0,1}` from minor to major.

    Raises:
        HloError: the layout is not one of its shape, or the module does not allow it.
    """
    inst = session.find(name)
    found = _LAYOUT.fullmatch(layout.strip())
    if found is None or not isinstance(inst.shape, ArrayShape):
        raise HloError(
            f"expected a layout such as {{1,0}}, minor dimension first, found {layout!r}"
        )
    order = tuple(int(dim) for dim in found[1].split(","))
    if sorted(order) != list(range(inst.shape.rank)):
        raise HloError(f"{inst.name} has rank {inst.shape.rank}, which {layout!r} does not fit")
    plain = order == tuple(reversed(range(inst.shape.rank)))
    shape = inst.shape.with_layout(None if plain else Layout(order))

    def act(module: Module) -> None:
        old = _same(module, inst)
        old.computation.set_shape(old, shape)
        is_signature = old.is_root or old.is_a("parameter")
        if old.computation is module.entry and is_signature and module.config.entry_layout:
            module.set_config(replace(module.config, entry_layout=None))

    return change(session, f"set-layout %{inst.name} {layout.strip()}", act)
