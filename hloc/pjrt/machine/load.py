"""The machine code of the plug-in: translated, compiled once per machine, loaded for good."""

from __future__ import annotations

import ast
import ctypes
import hashlib
import re
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
from hloc.pjrt import abi_table, objects
from hloc.pjrt.abi import STRUCTURES
from hloc.pjrt.machine.getters import getter_sources
from hloc.runtime.cpu_loader import load_functions

SOURCES = (
    "events", "memory", "buffers", "executables", "put", "performing", "worker", "execution",
)  # fmt: skip

_LEVEL = 1
_LISTS = {"Storages": "Storage**", "Buffers": "PJRT_Buffer**"}


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


_DEFINITION = re.compile(r"^def (\w+)\(", re.MULTILINE)
_USES_TWIN = re.compile(r"\btwin\(args\)")


def sources() -> str:
    """Return the text of all sources."""
    written = (Path(__file__).with_name(f"{name}.py").read_text() for name in SOURCES)
    return "\n".join([*written, *getter_sources()])


def functions() -> Iterator[ast.FunctionDef]:
    """Yield the functions of all sources."""
    text = sources().replace("from __future__ import annotations", "")
    yield from (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))


@cache
def machine() -> Machine:
    """Return the functions, loaded once in the process.

    They are never unloaded: jaxlib destroys what it holds after Python is gone.
    """
    text = sources()
    pieces = _DEFINITION.split(text)[1:]
    names, bodies = pieces[::2], pieces[1::2]
    target = host_target()
    data = _object(text, target)
    code = load_functions([data], target, names, frozenset(C_FUNCTIONS))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    twins = (n for n, body in zip(names, bodies, strict=True) if _USES_TWIN.search(body))
    return Machine(dict(zip(names, code.addresses, strict=True)), tuple(twins))


def translated() -> tuple[str, tuple[str, ...]]:
    """Return the LLVM text of all sources, and the functions that Python must bring."""
    return translate(functions(), STRUCTURES, lists=_LISTS, enums="PJRT_")


def _object(text: str, target: Target) -> bytes:
    """Return the object of the sources; one from the cache needs no translation."""
    digest = hashlib.sha256(text.encode())
    for module in (abi_table, objects, python_subset):
        digest.update(Path(str(module.__file__)).read_bytes())
    name = object_name(f"pjrt {digest.hexdigest()}", target, _LEVEL)
    data = kept_object(name)
    if data is None:
        written, _ = translated()
        data = cached_object(written, target, _LEVEL, frozenset(C_FUNCTIONS))
        write_cached(name, sealed(name, data))
    return data
