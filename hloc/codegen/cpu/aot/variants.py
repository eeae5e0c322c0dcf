"""Code for several processors in one object, selected when it is called.

The selection is cached in one word, the only memory of such an object that is written between
calls: every thread that finds it empty queries the processor and atomically stores the same value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import llvmlite.binding as llvm

from hloc.codegen.cpu.aot.cpuid import LEVELS, detection_text
from hloc.codegen.llvm.object_file import (
    code_level,
    optimize_module,
    parse_module,
    with_features,
)
from hloc.codegen.llvm.target import Target, create_target_machine, host_target
from hloc.codegen.plan.pointer_table import ENTRY
from hloc.errors import HloError, UnsupportedError

CHOICE = "hloc.choice"
"""`i32 @hloc.choice()`: the number of the variant to call, -1 if the processor can run none."""

_DETECT, _KNOWN = "hloc.level", "hloc.known"


def levels_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return the levels called `names`, lowest first.

    Raises:
        HloError: a processor that is not an x86-64 level; code cannot test for it.
    """
    for name in names:
        if name not in LEVELS:
            known = ", ".join(LEVELS)
            raise HloError(
                f"one object for several processors takes levels of x86-64, not {name!r}",
                notes=(f"known are {known}; a single processor may be any of `hloc targets`",),
            )
    return tuple(level for level in LEVELS if level in names)


def symbol_of(level: str) -> str:
    """Return `level` as part of a function name: `x86_64_v3`."""
    return level.replace("-", "_")


def entry_of(level: str) -> str:
    """Return the name of the entry function of `level`."""
    return f"{ENTRY}.{symbol_of(level)}"


def initialize_choice() -> None:
    """Initialise LLVM's assembler for the CPUID instructions.

    Raises:
        UnsupportedError: the host is no x86-64; llvmlite assembles for the host only.
    """
    arch = host_target().triple.split("-")[0]
    if arch != "x86_64":
        raise UnsupportedError(
            f"one object for several processors is made on x86_64 only, and this machine is {arch}",
            notes=("compile one object per processor, each with its own --symbol-prefix",),
        )
    llvm.initialize_native_asmparser()


def choice_text(levels: Sequence[str]) -> str:
    """Return the functions that choose among `levels`, in ascending order."""
    lines = [
        f"@{_KNOWN} = internal global i32 0, align 4",
        "",
        detection_text(_DETECT),
        f"define internal i32 @{CHOICE}() noinline nounwind {{",
        "entry:",
        f"  %stored = load atomic i32, ptr @{_KNOWN} monotonic, align 4",
        "  %is.known = icmp ne i32 %stored, 0",
        "  br i1 %is.known, label %known, label %ask",
        "ask:",
        f"  %level = call i32 @{_DETECT}()",
        *_number_of_level(levels),
        "  %plus = add i32 %number, 2",  # 0 means "not yet detected"
        f"  store atomic i32 %plus, ptr @{_KNOWN} monotonic, align 4",
        "  ret i32 %number",
        "known:",
        "  %minus = sub i32 %stored, 2",
        "  ret i32 %minus",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _number_of_level(levels: Sequence[str]) -> Iterator[str]:
    """Set `%number`: the last of `levels` that is not above `%level`, -1 if all are."""
    result = "-1"
    for i, level in enumerate(levels):
        name = "number" if i == len(levels) - 1 else f"number.{i}"
        yield f"  %enough.{i} = icmp sge i32 %level, {LEVELS.index(level)}"
        yield f"  %{name} = select i1 %enough.{i}, i32 {i}, i32 {result}"
        result = f"%{name}"


def variant_module(
    units: Sequence[tuple[str, int]], target: Target, context: llvm.ContextRef
) -> llvm.ModuleRef:
    """Return one module of `units` (texts and levels) for `target` in `context`.

    Only the entry function is visible, by the name of `entry_of`. Each function has its own
    `target-cpu`, so that variants can share a module.
    """
    machine = create_target_machine(target, max(code_level(level) for _, level in units))
    linked, *others = (
        optimize_module(
            parse_module(with_features(text, target.cpu, target.features), context),
            machine,
            level,
        )
        for text, level in units
    )
    for other in others:
        linked.link_in(other)
    for function in linked.functions:
        if not function.is_declaration:
            function.linkage = "external" if function.name == ENTRY else "internal"
    linked.get_function(ENTRY).name = entry_of(target.cpu)
    return linked
