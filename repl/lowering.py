"""The lower forms of a state: schedule, buffers, LLVM IR, assembly."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hloc import driver
from hloc.analysis.extract import extract
from hloc.codegen.backend_names import BUILT_IN
from hloc.errors import HloError
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.near_names import near_name_notes
from repl.running import options_of

if TYPE_CHECKING:
    from hloc.codegen.cpu.backend import CpuModule
    from hloc.codegen.gpu.backend import GpuModule
    from repl.session import Session

KINDS = {
    "hlo": "hlo", "schedule": "hlo", "buffers": "buffers", "llvm-ir": "llvm-ir",
    "llvm-ir-opt": "llvm-ir-opt", "asm": "asm",
}  # fmt: skip
"""Kind of `emit` with target cpu -> stage of the backend."""

_IN_PROCESS = ("hlo", "buffers", "llvm-ir")


def kinds_of(target: str) -> dict[str, str]:
    """Return the kinds of `emit` for a target, with the stage of the backend of each."""
    if target == "cpu":
        return KINDS
    from hloc.codegen.backend import backend_for

    texts = [stage.name for stage in backend_for(target).stages if stage.is_text]
    return {"schedule": "hlo", **{name: name for name in texts}}


def emitted(session: Session, kind: str, name: str = "") -> str:
    """Return a later form of the current state, or only the code of one instruction.

    Raises:
        HloError: there is no such kind, or the state cannot be compiled.
    """
    target = session.settings.text("target")
    kinds = kinds_of(target)
    if kind not in kinds:
        near = _other_target(kind) or near_name_notes(kind, list(kinds))
        raise HloError(
            f"target {target} has no {kind!r} to emit",
            notes=near or (f"kinds: {', '.join(kinds)}",),
        )
    module = session.current.module
    if name:
        module = extract(session.find(name), 0)
    stage = kinds[kind]
    if target != "cpu" or stage in _IN_PROCESS:
        text = compiled_module(session, module).stage(stage)
    else:
        timeout = session.settings.number("timeout")
        text = session.child.stage(module, options_of(session), stage, timeout)
    assert isinstance(text, str)
    return only_kernels(text, stage) if name and target == "cpu" else text


def _other_target(kind: str) -> tuple[str, ...]:
    """Return a note on the built-in target that has a kind, () if none has."""
    target = next((name for name in BUILT_IN if kind in kinds_of(name)), "")
    return (f"set target={target} first",) if target else ()


def compiled_module(session: Session, module: Module) -> CpuModule | GpuModule:
    """Lower a copy of `module`; no machine code is made."""
    from hloc.codegen.cpu.backend import CpuModule
    from hloc.codegen.gpu.backend import GpuModule

    found = driver.generate(clone_module(module), options_of(session))
    assert isinstance(found, CpuModule | GpuModule)
    return found


def memory_text(session: Session) -> str:
    """Return the report on the buffers of the current state."""
    from hloc.report.memory_report import memory_lines

    found = compiled_module(session, session.current.module)
    return "\n".join(memory_lines(found.plan.assignment))


_DEFINE = re.compile(r"^define .*?@(?:\"?)(kernel[\w.]*)")
_LABEL = re.compile(r"^(kernel[\w.]*):")


def only_kernels(text: str, stage: str) -> str:
    """Return only the functions of kernels; the whole text if there are none."""
    begin = _LABEL if stage == "asm" else _DEFINE
    kept: list[str] = []
    inside = False
    for line in text.splitlines():
        if begin.match(line):
            inside = True
        if inside and not line.lstrip().startswith((".cfi", ".type", ".p2align", ".globl")):
            kept.append(line)
        ends = line.startswith("}") if stage != "asm" else line.lstrip().startswith(".size")
        if inside and ends:
            inside = False
            kept.append("")
    return "\n".join(kept).rstrip("\n") or text
