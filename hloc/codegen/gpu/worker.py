"""LLVM's GPU backends in a process of their own, since their faults end the process.

The child lives as long as its parent sends work; if it dies, the error names the kernel it was
compiling, and the next call starts another. Messages are lines of JSON.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
import subprocess
import sys
import threading
from dataclasses import asdict
from typing import Any

import llvmlite.binding as llvm

from hloc.codegen.llvm.object_file import run_passes
from hloc.codegen.llvm.target import initialize_llvm
from hloc.errors import InternalError
from hloc.lazy_dataclass import dataclass
from hloc.python_process import python_command, python_environment


@dataclass(frozen=True, slots=True)
class Job:
    """LLVM text to compile, and for which chip.

    Attributes:
        source: what messages call it.
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


class _Child:
    """The process that compiles; used by one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0

    def compile(self, job: Job) -> bytes:
        with self._lock:
            process = self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(json.dumps(asdict(job)) + "\n")
                process.stdin.flush()
                answer = process.stdout.readline()
            except BrokenPipeError:
                answer = ""
            if not answer:
                self._end()
                backend = job.triple.split("-")[0]
                raise InternalError(
                    f"LLVM's backend for {backend} ended while it compiled {job.source}"
                )
            result: dict[str, str] = json.loads(answer)
            if "fault" in result:
                raise InternalError(f"invalid LLVM IR of {job.source}: {result['fault']}")
            return base64.b64decode(result["code"])

    def _running(self) -> subprocess.Popen[str]:
        """Return the child, started anew if there is none; a child is not shared by forks."""
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            self._process = subprocess.Popen(
                python_command("-c", f"from {__name__} import serve; serve()"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=python_environment(),
            )
            self._owner = os.getpid()
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            process.kill()
            process.communicate()

    def close(self) -> None:
        """End the child."""
        with self._lock:
            self._end()


_CHILD = _Child()
atexit.register(_CHILD.close)


def compile_job(job: Job) -> bytes:
    """Return the assembly or the object of `job`.

    Raises:
        InternalError: LLVM refuses it, or dies of it.
    """
    return _CHILD.compile(job)


# ---------------------------------------------------------------- the child


def serve() -> None:
    """Answer jobs from standard input until it ends."""
    initialize_llvm(all_targets=True)
    for line in sys.stdin:
        try:
            code = compile_here(Job(**json.loads(line)))
            answer: dict[str, Any] = {"code": base64.b64encode(code).decode()}
        except Exception as fault:
            answer = {"fault": str(fault)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def compile_here(job: Job) -> bytes:
    """Return the code of `job`, in this process; raises RuntimeError for wrong LLVM text."""
    machine = llvm.Target.from_triple(job.triple).create_target_machine(
        cpu=job.cpu, features=job.features, opt=3
    )
    # The data layout comes first: it says in which memory a kernel's variables are.
    head = f'target datalayout = "{machine.target_data}"\ntarget triple = "{job.triple}"\n'
    module = llvm.parse_assembly(head + job.text, llvm.create_context())
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=job.level)
    builder = llvm.create_pass_builder(machine, options)
    run_passes(builder.getModulePassManager(), module, builder)
    if job.is_object:
        return bytes(machine.emit_object(module))
    return str(machine.emit_assembly(module)).encode()
