"""The machine code of the plug-in: translated, compiled once per machine, loaded for good."""

from __future__ import annotations

import ast
import ctypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hloc.codegen.llvm.object_cache import cached_object
from hloc.codegen.llvm.target import host_target
from hloc.pjrt.machine.translate import C_FUNCTIONS, translate
from hloc.runtime.cpu_loader import load_functions

SOURCES = (
    "events", "memory", "buffers", "executables", "devices", "put", "performing", "worker",
    "execution",
)  # fmt: skip

_LEVEL = 1


@dataclass(frozen=True, slots=True)
class Machine:
    """The loaded functions.

    Attributes:
        addresses: by name.
        twins: functions whose hard cases go to Python, in the order of `State.twins`.
    """

    addresses: Mapping[str, int]
    twins: tuple[str, ...]

    def function(self, name: str, arguments: int = 0) -> Any:
        """Return a function of `arguments` 64-bit integers that returns one, to call from here."""
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)
        return kind(self.addresses[name])


def functions() -> Iterator[ast.FunctionDef]:
    """Yield the functions of all sources."""
    for name in SOURCES:
        source = Path(__file__).with_name(f"{name}.py").read_text()
        yield from (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))


@cache
def machine() -> Machine:
    """Return the functions, loaded once in the process.

    They are never unloaded: jaxlib destroys what it holds after Python is gone.
    """
    text, twins = translate(functions())
    target = host_target()
    data = cached_object(text, target, _LEVEL, frozenset(C_FUNCTIONS))
    names = [function.name for function in functions()]
    code = load_functions([data], target, names, frozenset(C_FUNCTIONS))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    return Machine(dict(zip(names, code.addresses, strict=True)), twins)
