"""The parent's side of the child process: starts it, sends requests, ends it if it hangs."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Sequence
from dataclasses import field, replace

from hloc.child_process import PipedProcess
from hloc.dtypes import Array
from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.options import CompileOptions
from hloc.python_process import python_command, python_environment
from repl.messages import UNKNOWN, Answer, Request, read_answer, write_request

_START_SECONDS = 60.0
"""Seconds for a cold start, which reads NumPy and LLVM from disk; not part of the user's limit."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Child:
    """A child process, started by the first request and kept after that.

    Attributes:
        plugins: files that it loads as well, with the times of their last change.
    """

    plugins: dict[str, float] = field(default_factory=dict)
    _process: PipedProcess | None = None
    _is_ready: bool = False
    _finalizer: weakref.finalize[..., Child] | None = None  # ends the process with the session
    _known: set[str] = field(default_factory=set)

    @property
    def pid(self) -> int | None:
        """Its process id, None while it is not running."""
        return self._process.pid if self._process and self._is_ready else None

    def run(
        self,
        module: Module,
        options: CompileOptions,
        inputs: Sequence[Array],
        *,
        timeout: float,
        seconds: float = 0.0,
        devices: int = 1,
    ) -> Answer:
        """Compile `module` without passes, unless it was compiled before, and run it.

        On several `devices` the arrays are stacked along a first dimension.

        Raises:
            HloError: it cannot be compiled or run, crashes, or takes longer than `timeout`.
        """
        request = Request("", None, options, tuple(inputs), seconds, devices=devices)
        return self._ask(module, request, timeout)

    def run_by_xla(self, module: Module, inputs: Sequence[Array], timeout: float) -> Answer:
        """Compile and run `module` with XLA; raises as `run` does."""
        request = Request("", None, CompileOptions(), tuple(inputs), by_xla=True)
        return self._ask(module, request, timeout)

    def stage(
        self, module: Module, options: CompileOptions, name: str, timeout: float
    ) -> str | bytes:
        """Return a stage of the compiled module: `llvm-ir`, `asm` ...; raises as `run` does."""
        return self._ask(module, Request("", None, options, stage=name), timeout).form

    def close(self) -> None:
        """End the child process."""
        self._process = None
        self._is_ready = False
        self._known.clear()
        if self._finalizer is not None:
            self._finalizer()

    def _ask(self, module: Module, request: Request, timeout: float) -> Answer:
        text = module.to_text("default", large_constants=True)
        request = replace(request, plugins=tuple(self.plugins.items()))
        what = f"{request.options} {request.plugins}\n{text}"
        key = hashlib.sha256(what.encode(errors="surrogateescape"))
        name = key.hexdigest()
        needs_text = name not in self._known or request.by_xla
        request = replace(request, key=name, text=text if needs_text else None)
        answer = self._exchange(request, timeout)
        if answer.fault == UNKNOWN:
            answer = self._exchange(replace(request, text=text), timeout)
        if answer.fault:
            self._known.discard(name)
            raise HloError(answer.fault, notes=answer.notes)
        self._known.add(name)
        return answer

    def _exchange(self, request: Request, timeout: float) -> Answer:
        """Send one request and wait for its answer, at most `timeout` seconds.

        A child that crashed, hangs or was interrupted is ended: the next request starts another.

        Raises:
            HloError: the child died.
        """
        try:
            process = self._started()
        except BaseException:
            self.close()
            raise
        try:
            write_request(process.questions, request)
            answer = _answer_of(process, timeout)
        except BrokenPipeError:
            answer = None
        except BaseException:  # Ctrl-C, too long
            self.close()
            raise
        if answer is None:
            ending = process.ending()
            self.close()
            raise HloError(f"the compiled code {ending}", notes=_CRASH_NOTES)
        return answer

    def _started(self) -> PipedProcess:
        if self._process is not None and self._process.is_running():
            return self._process
        self.close()
        self._process = PipedProcess(
            python_command("-m", "repl.worker"), python_environment(), leads_group=True
        )
        self._finalizer = weakref.finalize(self, self._process.end)
        if _answer_of(self._process, _START_SECONDS) is None:
            raise HloError("the process for compiled code did not start")
        self._is_ready = True
        return self._process


def _answer_of(process: PipedProcess, timeout: float) -> Answer | None:
    """Return the answer, None if the child has ended."""
    try:
        process.wait_for_answer(timeout)
    except TimeoutError:
        raise HloError(
            f"stopped after {timeout:g} s", notes=("set timeout=SECONDS allows more",)
        ) from None
    return read_answer(process.answers)


_CRASH_NOTES = (
    "the session goes on; run --interp runs the state in the evaluator",
    "verify looks for the pass and the rewrite that made it wrong",
)
