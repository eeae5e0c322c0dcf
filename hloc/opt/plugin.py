"""Plug-ins: Python files that register passes and rules when they are loaded."""

from __future__ import annotations

import os
import re
import sys
import traceback
from types import ModuleType

from hloc.errors import HloError, reason_of

_NOT_WORD = re.compile(r"\W")


def load_plugin(path: str) -> ModuleType:
    """Run the Python file `path`, which calls `register_pass` and `register_rules`.

    Its objects `Pass` and subclasses of `ModulePass` are registered too. Loading the file again
    runs it again. Returns the file as a module.

    Raises:
        HloError: the file cannot be read, or fails; the message names the line.
    """
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as fault:
        raise HloError(f"cannot read plug-in {path}: {reason_of(fault)}") from None
    stem = os.path.splitext(os.path.basename(path))[0]
    plugin = ModuleType(f"hloc_plugin_{_NOT_WORD.sub('_', stem)}")
    plugin.__file__ = path
    sys.modules[plugin.__name__] = plugin  # dataclasses look up their module
    try:
        exec(compile(source, path, "exec"), plugin.__dict__)
        if "hloc.opt.authoring" in sys.modules:
            from hloc.opt.authoring import register_found

            register_found(plugin.__dict__, plugin.__name__)
    except HloError as fault:
        raise HloError(f"plug-in {path}: {fault.message}") from fault
    except Exception as fault:
        raise HloError(f"plug-in {path}{_line(path, fault)}: {_reason(fault)}") from fault
    return plugin


def _line(path: str, fault: Exception) -> str:
    """Return `:7` for the innermost line of the plug-in in the traceback."""
    if isinstance(fault, SyntaxError):
        return f":{fault.lineno}" if fault.lineno else ""
    lines = [f.lineno for f in traceback.extract_tb(fault.__traceback__) if f.filename == path]
    return f":{lines[-1]}" if lines else ""


def _reason(fault: Exception) -> str:
    text = fault.msg if isinstance(fault, SyntaxError) else str(fault)
    return f"{type(fault).__name__}: {text}"
