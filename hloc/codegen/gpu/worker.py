"""LLVM's GPU backends in a child process, since their errors end the process.

If the child dies, the error names the kernel that it was compiling, and the next call starts a new
child.
"""

from __future__ import annotations

import atexit
from dataclasses import asdict
from typing import Any

import llvmlite.binding as llvm

from hloc.child_process import Answer, Child, answer_messages
from hloc.codegen.llvm.object_file import run_passes
from hloc.codegen.llvm.target import initialize_llvm
from hloc.errors import InternalError
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """LLVM text to compile, and its chip.

    Attributes:
        source: its name in messages.
        level: 0 to 3.
        is_object: an object file is wanted, not assembly.
    """

    source: str
    text: str
    triple: str
    cpu: str
    features: str
    level: int
    is_object: bool = False


# ---------------------------------------------------------------- the parent


_CHILD: list[Child] = [Child(__name__)]
"""The child, none where this process compiles itself."""


@atexit.register
def _end_child() -> None:
    while _CHILD:
        _CHILD.pop().end()


def compile_in_this_process() -> None:
    """Compile without a child from now on, where this process is one that may end."""
    _end_child()
    initialize_llvm(all_targets=True)


def compile_job(job: Job) -> bytes:
    """Return the assembly or the object of `job`.

    Raises:
        InternalError: LLVM rejects it, or crashes.
    """
    try:
        fault, blocks = _CHILD[0].ask(asdict(job)) if _CHILD else _answer(asdict(job), [])
    except EOFError:
        backend = job.triple.split("-")[0]
        raise InternalError(
            f"LLVM's backend for {backend} ended while it compiled {job.source}"
        ) from None
    if fault:
        raise InternalError(f"invalid LLVM IR of {job.source}: {fault}")
    return bytes(blocks[0])


# ---------------------------------------------------------------- the child


def serve() -> None:
    """Answer jobs: the code as a block, or the error in the text."""
    initialize_llvm(all_targets=True)
    answer_messages(_answer)


def _answer(value: Any, blocks: list[bytearray]) -> Answer:
    try:
        return "", [compile_here(Job(**value))]
    except Exception as fault:
        return str(fault), []


def compile_here(job: Job) -> bytes:
    """Return the code of `job`, in this process; raises RuntimeError for wrong LLVM text."""
    machine = llvm.Target.from_triple(job.triple).create_target_machine(
        cpu=job.cpu, features=job.features, opt=3
    )
    # The data layout comes first: it defines the address space of a kernel's variables.
    head = f'target datalayout = "{machine.target_data}"\ntarget triple = "{job.triple}"\n'
    module = llvm.parse_assembly(head + job.text, llvm.create_context())
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=job.level)
    builder = llvm.create_pass_builder(machine, options)
    run_passes(builder.getModulePassManager(), module, builder)
    if job.is_object:
        return bytes(machine.emit_object(module))
    return str(machine.emit_assembly(module)).encode()
