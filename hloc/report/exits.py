"""Exit codes, errors outside of the module and hloc, and the end of a program."""

from __future__ import annotations

import io
import os
import re
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from hloc.report.interrupts import forget_interrupts, heed_interrupts, was_interrupted

if TYPE_CHECKING:
    from hloc.errors import HloError


class Exit(IntEnum):
    """The exit codes of the process; the list is complete and documented in `hloc --help`."""

    OK = 0
    FAULT = 1
    USAGE = 2
    UNSUPPORTED = 3
    RUN_FAILED = 4
    INTERNAL = 70
    INTERRUPTED = 130
    BROKEN_PIPE = 141


EXIT_CODES = (
    (Exit.OK, "success"),
    (Exit.FAULT, "errors in the input, or a comparison or check found a difference"),
    (Exit.USAGE, "wrong usage"),
    (Exit.UNSUPPORTED, "the module is valid, but the target cannot run it"),
    (Exit.RUN_FAILED, "the compiled program failed or hit a limit"),
    (Exit.INTERNAL, "internal error in hloc"),
    (Exit.INTERRUPTED, "stopped by Ctrl-C"),
    (Exit.BROKEN_PIPE, "the reader of stdout closed it (128 + SIGPIPE)"),
)


REPORT = "this is a bug in hloc, not in your module; please report it with the module"


class UsageError(Exception):
    """The command line is wrong."""


class OutputFault(Exception):
    """stdout cannot be written; the message has the reason."""


class RunFailed(Exception):
    """The compiled program failed at run time, or reached a limit."""


def leave_interrupted(program: str = "hloc") -> NoReturn:
    """End the process after a Ctrl-C that a long kernel or an import does not notice."""
    _leave(f"{program}: interrupted", Exit.INTERRUPTED)


def leave(fault: HloError) -> NoReturn:
    """End the process at a limit that a long kernel does not notice."""
    _leave(f"hloc: run failed: {fault.message}", Exit.RUN_FAILED)


def _leave(said: str, code: Exit) -> NoReturn:
    with suppress(OSError):
        sys.stdout.flush()
    sys.stderr.write(f"{said}\n")
    sys.stderr.flush()
    os._exit(code)


def ending(program: str, action: Callable[[], int], *, whole: bool = False) -> int:
    """Do `action`, which writes to stdout, and return the exit code of the process.

    Handles the endings common to all programs: Ctrl-C, a closed pipe, a full disk, no memory
    to load a package, a missing package. `whole` is True if the process does nothing else.
    """
    _prepare_streams()
    if whole:
        heed_interrupts(partial(leave_interrupted, program))
        warnings.formatwarning = lambda message, *_, **__: f"{program}: warning: {message}\n"
    try:
        code = action()
        sys.stdout.flush()
        return _interrupted(program) if was_interrupted() else code
    except KeyboardInterrupt:
        return _interrupted(program)
    except BrokenPipeError:
        _silence_stdout()
        return Exit.BROKEN_PIPE
    except (OutputFault, OSError) as fault:
        from hloc.errors import reason_of

        _silence_stdout()
        reason = reason_of(fault) if isinstance(fault, OSError) else fault
        sys.stderr.write(f"{program}: error: cannot write to stdout: {reason}\n")
        return Exit.FAULT
    except (ImportError, MemoryError, SystemError, AttributeError) as fault:
        if was_interrupted():
            return _interrupted(program)
        found = machine_fault(fault)
        if found is None:
            raise
        code, kind, message = found
        sys.stderr.write(f"{program}: {kind}: {message}\n")
        return code


def _interrupted(program: str) -> int:
    sys.stderr.write(f"{program}: interrupted\n")
    forget_interrupts()  # a program inside a program reports it once
    return Exit.INTERRUPTED


_OUT_OF_MEMORY = re.compile(
    r"failed to map|cannot allocate|out of memory|can't start new thread|^error return without exc"
    r"|Could not find/load shared object", re.IGNORECASE
)  # fmt: skip
"""Messages of Python and packages when the system is out of memory."""


def machine_fault(fault: BaseException) -> tuple[Exit, str, str] | None:
    """Return code, kind and message of an error of the machine, None for other errors."""
    text = " ".join(map(str, (fault, fault.__cause__ or "", fault.__context__ or "")))
    if isinstance(fault, MemoryError) and str(fault).startswith("out of memory: "):
        return Exit.RUN_FAILED, "run failed", str(fault)
    if isinstance(fault, MemoryError) or _OUT_OF_MEMORY.search(text):
        return Exit.RUN_FAILED, "run failed", "out of memory"
    if isinstance(fault, ModuleNotFoundError) and fault.name:
        package = fault.name.partition(".")[0]
        if package not in ("hloc", "repl"):
            message = f"the package {package} is missing; `pip install hloc` brings it"
            return Exit.FAULT, "error", message
    if isinstance(fault, ImportError):
        return Exit.FAULT, "error", f"cannot load a package: {fault}"
    return None


def _prepare_streams() -> None:
    """Let every text be written: bytes of a module that are not UTF-8 are written unchanged.

    A stream that was closed before the start (`>&-`) discards everything.
    """
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 - open until the end
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        unicode = stream.encoding.lower().replace("-", "") == "utf8"
        stream.reconfigure(errors="surrogateescape" if unicode else "backslashreplace")


def _silence_stdout() -> None:
    """Discard the interpreter's last flush: the reader closed the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
