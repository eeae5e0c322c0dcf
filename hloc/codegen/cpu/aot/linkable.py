"""Links the units of a module into one object with few visible symbols, and lists what it needs."""

from __future__ import annotations

import re
from collections.abc import Sequence

import llvmlite.binding as llvm

from hloc.codegen.cpu.aot.interface import Interface, interface_of
from hloc.codegen.cpu.aot.names import prefix_of
from hloc.codegen.cpu.aot.needs import needed_symbols
from hloc.codegen.cpu.aot.variants import initialize_choice, levels_of, variant_module
from hloc.codegen.cpu.aot.wrapper import visible_names, wrapper_text
from hloc.codegen.cpu.backend import CpuBackend, CpuModule
from hloc.codegen.llvm.matrix_registers import permission_text, uses_matrix_registers
from hloc.codegen.llvm.object_file import (
    ALLOWED_SYMBOLS,
    code_level,
    optimize_module,
    parse_module,
    run_passes,
)
from hloc.codegen.llvm.target import create_target_machine, target_for
from hloc.errors import InternalError
from hloc.lazy_dataclass import dataclass

_SUPPORT = re.compile(
    r"__(aeabi|gnu|muldc|mulsc|divdc|divsc|fix|float|extend|trunc|add|sub|mul|div|udiv|mod|umod|"
    r"ashl|ashr|lshr|clz|ctz|popcount|bswap|cmp|ucmp|eq|ne|ge|gt|le|lt|unord)\w*|_GLOBAL_OFFSET_TABLE_"
)
"""Arithmetic that some processors lack: functions in the runtime library of every C compiler."""


@dataclass(frozen=True, slots=True)
class Library:
    """A module compiled ahead of time.

    Attributes:
        needs: symbols that the program must provide: functions of libc, libm and the compiler's
            runtime library; in WebAssembly they are imports.
    """

    interface: Interface
    data: bytes
    needs: tuple[str, ...]


def build_library(
    compiled: CpuModule,
    prefix: str = "",
    *,
    static_temp: bool = False,
    processors: Sequence[str] = (),
) -> Library:
    """Return the object of `compiled`.

    Args:
        compiled: for the lowest of `processors`, if there are any.
        prefix: prefix of all names; "" for the module's name.
        static_temp: as in `Interface`.
        processors: levels of x86-64 that the object has code for; it chooses when it is called.

    Raises:
        UnsupportedError: the module needs something that an object alone cannot do.
        HloError: there are too many constants, or processors that cannot be told apart.
    """
    levels = levels_of(processors)
    if levels:
        initialize_choice()
    interface = interface_of(
        compiled,
        prefix or prefix_of(compiled.module.name),
        static_temp=static_temp,
        variants=levels,
    )
    units = _units(compiled)
    machine = create_target_machine(compiled.machine, max(code_level(level) for _, level in units))
    context = llvm.create_context()
    wrapper = wrapper_text(compiled.plan, interface)
    linked = optimize_module(parse_module(wrapper, context), machine, 1)
    if levels:
        for name in levels:
            target = target_for(compiled.options.triple, name)
            variant = CpuBackend().for_machine(compiled, target)
            linked.link_in(variant_module(_units(variant), target, context))
    else:
        for text, level in units:
            linked.link_in(optimize_module(parse_module(text, context), machine, level))
    if not levels and any(uses_matrix_registers(text) for text, _ in units):
        initialize_choice()
        linked.link_in(parse_module(permission_text(), context))
    data = _only_visible(linked, visible_names(interface), machine)
    needs = needed_symbols(data)
    foreign = [s for s in needs if s not in ALLOWED_SYMBOLS and not _SUPPORT.fullmatch(s)]
    if foreign:
        raise InternalError(f"generated code refers to unknown symbols: {', '.join(foreign)}")
    return Library(interface, data, needs)


def _units(compiled: CpuModule) -> list[tuple[str, int]]:
    return [(unit.text, unit.level) for unit in compiled.units]


def _only_visible(
    module: llvm.ModuleRef, names: Sequence[str], machine: llvm.TargetMachine
) -> bytes:
    """Return the object of `module` in which only functions `names` are visible."""
    for function in module.functions:
        if not function.is_declaration and function.name not in names:
            function.linkage = "internal"
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(0))
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    run_passes(passes, module, builder)
    data: bytes = machine.emit_object(module)
    return data
