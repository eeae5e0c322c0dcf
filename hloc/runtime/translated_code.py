"""Machine code of sources in the Python subset: translated, compiled once per machine, loaded."""

from __future__ import annotations

import ctypes
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hloc.cache_directory import sealed, write_cached
from hloc.codegen.llvm import python_subset
from hloc.codegen.llvm.object_cache import cached_object, kept_object, object_name
from hloc.codegen.llvm.python_subset import C_FUNCTIONS, translate
from hloc.codegen.llvm.structures import Structures
from hloc.codegen.llvm.target import host_target
from hloc.lazy_dataclass import dataclass
from hloc.runtime.cpu_loader import load_functions

_DEFINITION = re.compile(r"^def (\w+)\(", re.MULTILINE)
_FALLS_BACK = re.compile(r"\bpython_fallback\(args\)")


@dataclass(frozen=True, slots=True)
class Machine:
    """Functions in the memory of this process, until it ends.

    Attributes:
        addresses: by name.
        fallbacks: functions that fall back to Python, in the order of their index.
    """

    addresses: Mapping[str, int]
    fallbacks: tuple[str, ...]

    def function(self, name: str, arguments: int = 0) -> Any:
        """Return a function of `arguments` 64-bit integers that returns one, to call from here."""
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)
        return kind(self.addresses[name])


def load_translated(
    source: str,
    structures: Structures,
    *,
    level: int = 2,
    also: frozenset[str] = frozenset(),
    **words: Any,
) -> Machine:
    """Load the functions of `source`; an object from the cache needs no translation.

    Args:
        source: their text, as for `translate`.
        structures: that they use.
        level: of optimisation.
        also: functions of the C library that the prelude calls.
        **words: further arguments of `translate`.
    """
    target, allowed = host_target(), frozenset(C_FUNCTIONS) | also
    digest = hashlib.sha256(Path(python_subset.__file__).read_bytes())
    digest.update("\0".join((source, structures.text, repr(words))).encode())
    name = object_name(f"translated {digest.hexdigest()}", target, level)
    data = kept_object(name)
    if data is None:
        text, _ = translate(source, structures, **words)
        data = cached_object(text, target, level, allowed)
        write_cached(name, sealed(name, data))
    pieces = _DEFINITION.split(source)[1:]
    names, bodies = pieces[::2], pieces[1::2]
    code = load_functions([data], target, names, allowed)
    # Threads may sleep in this code, and jaxlib calls it, after Python is gone.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    fallbacks = (n for n, body in zip(names, bodies, strict=True) if _FALLS_BACK.search(body))
    return Machine(dict(zip(names, code.addresses, strict=True)), tuple(fallbacks))
