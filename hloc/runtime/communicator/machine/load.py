"""The machine code of the local engine: translated, compiled once per machine, loaded."""

from __future__ import annotations

import ast
import ctypes
import hashlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hloc.cache_directory import sealed, write_cached
from hloc.codegen.llvm import python_subset
from hloc.codegen.llvm.object_cache import cached_object, kept_object, object_name
from hloc.codegen.llvm.python_subset import C_FUNCTIONS, translate
from hloc.codegen.llvm.target import Target, host_target
from hloc.lazy_dataclass import dataclass
from hloc.runtime.communicator import structures
from hloc.runtime.communicator.machine.waiting import NEEDED, waiting_text
from hloc.runtime.communicator.structures import STRUCTURES
from hloc.runtime.cpu_loader import load_functions

SOURCES = ("moves", "meetings", "transfers", "entry", "threads")

_NAMES = ("exchange_data", "run_devices", "stop", "set_up", "forget")
_WAITING = {"sleep": 2, "wake": 2, "pause": 0}
_LEVEL = 2


@dataclass(frozen=True, slots=True)
class Machine:
    """The loaded functions: addresses by name."""

    addresses: Mapping[str, int]
    _code: Any

    def function(self, name: str, arguments: int) -> Any:
        """Return a function of `arguments` 64-bit integers that returns one, to call from here."""
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)
        return kind(self.addresses[name])


@cache
def machine() -> Machine:
    """Return the functions, loaded once in the process."""
    target = host_target()
    allowed = frozenset(C_FUNCTIONS) | NEEDED
    code = load_functions([_object(target, allowed)], target, _NAMES, allowed)
    # Threads that sleep in this code live until the process ends.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    result = Machine(dict(zip(_NAMES, code.addresses, strict=True)), code)
    result.function("set_up", 1)(int(signal.SIG_SETMASK))
    os.register_at_fork(after_in_child=result.function("forget", 0))
    return result


def _object(target: Target, allowed: frozenset[str]) -> bytes:
    """Return the object of the sources; one from the cache needs no translation."""
    digest = hashlib.sha256("".join(_texts()).encode())
    prelude = waiting_text(target, is_linux=sys.platform == "linux")
    digest.update(prelude.encode())
    for module in (structures, python_subset):
        digest.update(Path(str(module.__file__)).read_bytes())
    name = object_name(f"communicator {digest.hexdigest()}", target, _LEVEL)
    data = kept_object(name)
    if data is None:
        text, _ = translate(
            _functions(),
            STRUCTURES,
            lists={"Address": "void*"},
            prelude=prelude,
            prelude_functions=_WAITING,
        )
        data = cached_object(text, target, _LEVEL, allowed)
        write_cached(name, sealed(name, data))
    return data


def _texts() -> list[str]:
    return [Path(__file__).with_name(f"{name}.py").read_text() for name in SOURCES]


def _functions() -> Iterator[ast.FunctionDef]:
    for text in _texts():
        yield from (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
