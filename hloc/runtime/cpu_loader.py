"""Loads objects into memory and returns the address of the entry function.

Objects for x86-64 and Linux are placed by hloc (`elf_loader.py`), others by LLVM's linker. Both
resolve the allowed symbols and no others, so code can call nothing else.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from functools import cache

import llvmlite.binding as llvm

from hloc.codegen.llvm.forks import hold_at_forks
from hloc.codegen.llvm.object_file import ALLOWED_SYMBOLS, undefined_symbols
from hloc.codegen.llvm.target import Target, create_target_machine
from hloc.codegen.plan.pointer_table import ENTRY
from hloc.errors import InternalError
from hloc.lazy_dataclass import dataclass
from hloc.runtime.elf_loader import load_elf


@dataclass(frozen=True, slots=True, eq=False)
class LoadedCode:
    """Machine code in memory; it is unloaded when this object is deleted.

    Attributes:
        addresses: of the requested functions.
    """

    addresses: tuple[int, ...]
    _owner: object

    @property
    def address(self) -> int:
        """The first of the addresses."""
        return self.addresses[0]


_LOADS_OF_A_JIT = 64
"""Loads per linker: LLVM's linker leaks 9 KB per load; a new one takes 1 ms and 0.3 MB."""


@dataclass(slots=True, eq=False)
class _Linker:
    """LLVM's linker for one target; one per process, replaced after some loads.

    A replaced linker lives as long as any of its code.
    """

    target: Target
    lock: threading.Lock = field(default_factory=threading.Lock)
    loads: int = 0
    _jit: llvm.LLJIT | None = None

    def load(
        self, objects: Sequence[bytes], functions: Sequence[str], allowed: frozenset[str]
    ) -> LoadedCode:
        """Link objects; return the addresses of `functions`.

        The linker is replaced after `_LOADS_OF_A_JIT` loads.
        """
        builder = llvm.JITLibraryBuilder()
        for data in objects:
            builder.add_object_img(data)
        for name in _wanted(objects, allowed):
            builder.import_symbol(name, _address(name))
        for name in functions:
            builder.export_symbol(name)
        with self.lock:
            if self._jit is None or self.loads % _LOADS_OF_A_JIT == 0:
                machine = create_target_machine(self.target, 0)
                self._jit = llvm.create_lljit_compiler(machine, use_jit_link=True)
            self.loads += 1
            try:
                tracker = builder.link(self._jit, f"module_{self.loads}")
            except RuntimeError as error:
                raise InternalError(f"loading machine code failed: {error}") from error
        return LoadedCode(tuple(tracker[name] for name in functions), tracker)


@cache
def _linker(target: Target) -> _Linker:
    linker = _Linker(target)
    hold_at_forks(linker.lock)
    return linker


def load_objects(
    objects: Sequence[bytes], target: Target, functions: Sequence[str] = ()
) -> LoadedCode:
    """Link `objects` with each other and with the C library; find the entry, then `functions`."""
    return load_functions(objects, target, (ENTRY, *functions), ALLOWED_SYMBOLS)


def load_functions(
    objects: Sequence[bytes], target: Target, functions: Sequence[str], allowed: frozenset[str]
) -> LoadedCode:
    """Link objects that may call the `allowed` functions of the C library, and find `functions`."""
    if target.triple.startswith("x86_64") and "linux" in target.triple:
        placed = load_elf(objects, functions, lambda n: _address(n) if n in allowed else None)
        if placed is not None:
            return LoadedCode(*placed)
    return _linker(target).load(objects, functions, allowed)


def _wanted(objects: Iterable[bytes], allowed: frozenset[str]) -> list[str]:
    result = {name for data in objects for name in undefined_symbols(data)}
    return sorted(result & allowed)


def _libraries() -> Iterator[ctypes.CDLL]:
    """Yield what this process has loaded, which has most functions, then the C library."""
    yield ctypes.CDLL(None)
    from ctypes.util import find_library  # which imports much, and starts processes to search

    for name in filter(None, map(find_library, ("m", "c"))):
        yield ctypes.CDLL(name)


@cache
def _address(name: str) -> int:
    """Return the address of a function of the C library."""
    for library in _libraries():
        function = getattr(library, name, None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value or 0
    raise InternalError(f"the C library of this machine has no function {name}")
