"""One object of all units of a module, with a single visible symbol, and what it still needs."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

import llvmlite.binding as llvm

from hloc.codegen.aot.interface import Interface, interface_of
from hloc.codegen.aot.names import prefix_of
from hloc.codegen.aot.wrapper import wrapper_text
from hloc.codegen.cpu.backend import CpuModule
from hloc.codegen.object_file import (
    ALLOWED_SYMBOLS,
    optimize_module,
    parse_module,
    undefined_symbols,
)
from hloc.codegen.target import create_target_machine
from hloc.errors import InternalError

_SUPPORT = re.compile(
    r"__(aeabi|gnu|muldc|mulsc|divdc|divsc|fix|float|extend|trunc|add|sub|mul|div|udiv|mod|umod|"
    r"ashl|ashr|lshr|clz|ctz|popcount|bswap|cmp|ucmp|eq|ne|ge|gt|le|lt|unord)\w*|_GLOBAL_OFFSET_TABLE_"
)
"""Arithmetic that some processors lack; every C compiler brings these functions along."""

_HEADER32 = struct.Struct("<16sHHIIIIIHHHHHH")
_SECTION32 = struct.Struct("<IIIIIIIIII")
_SYMBOL32 = struct.Struct("<IIIBBH")
_SYMBOL_TABLE = 2


@dataclass(frozen=True, slots=True)
class Library:
    """A module compiled ahead of time.

    Attributes:
        needs: symbols that the program must bring: functions of libc, libm and the compiler.
            Nothing is known of WebAssembly, where they are imports.
    """

    interface: Interface
    data: bytes
    needs: tuple[str, ...]


def build_library(compiled: CpuModule, prefix: str = "", *, static_temp: bool = False) -> Library:
    """Return the object of `compiled`; `prefix` begins its names, "" takes the module's.

    Raises:
        UnsupportedError: an object on its own cannot do what the module asks for.
        HloError: there are too many constants.
    """
    interface = interface_of(
        compiled, prefix or prefix_of(compiled.module.name), static_temp=static_temp
    )
    wrapper = (wrapper_text(compiled.plan, interface), 1)
    units = [wrapper, *((unit.text, unit.level) for unit in compiled.units)]
    machine = create_target_machine(compiled.machine, max(level for _, level in units))
    linked, *others = (optimize_module(parse_module(text), machine, level) for text, level in units)
    for other in others:
        linked.link_in(other)
    data = _only_visible(linked, f"{interface.prefix}_run", machine)
    needs = needed_symbols(data)
    foreign = [s for s in needs if s not in ALLOWED_SYMBOLS and not _SUPPORT.fullmatch(s)]
    if foreign:
        raise InternalError(f"generated code refers to unknown symbols: {', '.join(foreign)}")
    return Library(interface, data, needs)


def _only_visible(module: llvm.ModuleRef, name: str, machine: llvm.TargetMachine) -> bytes:
    """Return the object of `module` in which only function `name` can be seen from outside."""
    for function in module.functions:
        if not function.is_declaration and function.name != name:
            function.linkage = "internal"
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(0))
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)
    data: bytes = machine.emit_object(module)
    return data


def needed_symbols(data: bytes) -> tuple[str, ...]:
    """Return the names that an object expects from elsewhere; ELF of 32 and 64 bits is read."""
    if data[:5] != b"\x7fELF\x01":
        return undefined_symbols(data)
    header = _HEADER32.unpack_from(data)
    offset, size, count = header[6], header[11], header[12]
    sections = [_SECTION32.unpack_from(data, offset + i * size) for i in range(count)]
    found = set()
    for section in sections:
        if section[1] != _SYMBOL_TABLE:
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], _SYMBOL32.size):
            name, _value, _size, _info, _other, index = _SYMBOL32.unpack_from(data, at)
            if index == 0 and name:
                end = data.index(b"\0", names + name)
                found.add(data[names + name : end].decode("ascii", "replace"))
    return tuple(sorted(found))
