"""Turns exceptions into exit codes: errors of the user, of the target, of the run, and of hloc."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from hloc.cli.talk import Talk
from hloc.errors import HloError, InternalError, UnsupportedError, printable
from hloc.report.exits import REPORT, Exit, OutputFault, RunFailed, UsageError, machine_fault
from hloc.report.interrupts import was_interrupted

_PLUGIN = "a plug-in is loaded and may be at fault; `hloc bisect` names the rewrite"


def guarded(talk: Talk, action: Callable[[], int]) -> int:
    """Return what `action` returns, or the exit code for what it raised, after telling the user."""
    try:
        return action()
    except (UsageError, OutputFault, BrokenPipeError):
        raise
    except UnsupportedError as fault:
        talk.fault(fault)
        return Exit.UNSUPPORTED
    except HloError as fault:
        talk.fault(fault)
        return Exit.FAULT
    except RunFailed as fault:
        talk.complain("run failed", str(fault), _notes(fault.__cause__))
        return Exit.RUN_FAILED
    except Exception as fault:
        if was_interrupted():
            raise KeyboardInterrupt from None
        found = machine_fault(fault)
        if found is not None:
            code, kind, message = found
            talk.complain(kind, message)
            return code
        report_internal(talk, fault)
        return Exit.INTERNAL


def _notes(cause: BaseException | None) -> Iterator[str]:
    """Yield the notes of an error: the positions of the devices in a deadlock."""
    if isinstance(cause, HloError):
        for diagnostic in cause.diagnostics:
            yield from diagnostic.notes


def guarded_each(talk: Talk, files: Sequence[str], action: Callable[[str], int]) -> int:
    """Call `action` for each file in order and return the highest exit code."""
    return max(guarded(talk, partial(action, name)) for name in files)


def report_internal(talk: Talk, fault: Exception) -> None:
    """Report an internal error of hloc: in short, or in full with HLOC_DEBUG=1."""
    if isinstance(fault, InternalError):
        first, *rest = str(fault).split("\n")
    else:
        frames = traceback.extract_tb(fault.__traceback__)
        last = frames[-1] if frames else None
        where = f" ({os.path.basename(last.filename)}:{last.lineno})" if last else ""
        first, *rest = f"{type(fault).__name__}: {fault}{where}".split("\n")
    talk.complain("internal error", first)
    for line in rest[:40]:
        talk.err.write(f"  {printable(line)}\n")
    if os.environ.get("HLOC_DEBUG") == "1":
        traceback.print_exception(fault, file=talk.err)
        talk.err.write(_blame() + "\n")
    else:
        talk.err.write(_blame() + "; HLOC_DEBUG=1 shows the traceback\n")


def _blame() -> str:
    """Return who may be at fault; passes of plug-ins fail like those of hloc."""
    from hloc.opt.registry import has_plugins

    return _PLUGIN if has_plugins() else REPORT
