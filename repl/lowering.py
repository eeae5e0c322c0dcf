"""What becomes of a state: schedule, buffers, LLVM IR, assembly."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hloc import driver
from hloc.analysis.extract import extract
from hloc.errors import HloError
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.opt.pass_base import did_you_mean
from repl.running import options_of

if TYPE_CHECKING:
    from hloc.codegen.cpu.backend import CpuModule
    from repl.session import Session

KINDS = {
    "hlo": "hlo", "schedule": "hlo", "buffers": "buffers", "llvm-ir": "llvm-ir",
    "llvm-ir-opt": "llvm-ir-opt", "asm": "asm",
}  # fmt: skip
"""What `emit` takes -> stage of the backend."""

_IN_PROCESS = ("hlo", "buffers", "llvm-ir")


def emitted(session: Session, kind: str, name: str = "") -> str:
    """Return the current state in a later form, or only the code of one instruction.

    Raises:
        HloError: there is no such form, or the state cannot be compiled.
    """
    if kind not in KINDS:
        near = did_you_mean(kind, list(KINDS))
        raise HloError(
            f"there is no {kind!r} to emit", notes=near or (f"kinds: {', '.join(KINDS)}",)
        )
    module = session.current.module
    if name:
        module = extract(session.find(name), 0)
    stage = KINDS[kind]
    if stage in _IN_PROCESS:
        text = compiled_module(session, module).stage(stage)
    else:
        timeout = session.settings.number("timeout")
        text = session.child.stage(module, options_of(session), stage, timeout)
    assert isinstance(text, str)
    return only_kernels(text, stage) if name else text


def compiled_module(session: Session, module: Module) -> CpuModule:
    """Lower a copy of `module`; no machine code is made."""
    from hloc.codegen.cpu.backend import CpuModule

    found = driver.generate(clone_module(module), options_of(session))
    assert isinstance(found, CpuModule)
    return found


def memory_text(session: Session) -> str:
    """Return what the buffers of the current state take."""
    from hloc.cli.memory_report import memory_lines

    found = compiled_module(session, session.current.module)
    return "\n".join(memory_lines(found.plan.assignment))


_DEFINE = re.compile(r"^define .*?@(?:\"?)(kernel[\w.]*)")
_LABEL = re.compile(r"^(kernel[\w.]*):")


def only_kernels(text: str, stage: str) -> str:
    """Return the functions of kernels, without what surrounds them; all of it if there are none."""
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
