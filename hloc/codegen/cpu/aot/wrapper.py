"""LLVM text of the function that a program calls, and of the constants it needs.

    int PREFIX_run(const void *const *inputs, void *const *outputs, void *temp)

It builds the pointer table on its stack and calls the entry function. There is no state: the stop
flag of loops is a constant, and the caller provides the memory for temporaries. An object for
several processors also has one such function for each of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from hloc.codegen.cpu.aot.interface import Interface
from hloc.codegen.cpu.aot.parallel import parallel_name
from hloc.codegen.cpu.aot.variants import CHOICE, choice_text, entry_of, symbol_of
from hloc.codegen.plan.plan import Plan
from hloc.codegen.plan.pointer_table import ARENA_SLOT, ENTRY, FIRST_SLOT, STOP_SLOT, THREADS_SLOT
from hloc.errors import HloError
from hloc.memory.assigned_buffers import ConstantArray

MAX_CONSTANT_BYTES = 1 << 30
"""Most bytes of constants in an object; more would take too much memory as text."""

BAD_TEMP, BAD_ARRAYS, BAD_PROCESSOR = 1, 2, 3
"""Results of the function for invalid temporary memory, array lists, or processors."""

_CALL = "hloc.call"
_GIVEN = "ptr %inputs, ptr %outputs, ptr %temp"

_PRINTABLE = frozenset(range(32, 127)) - {ord('"'), ord("\\")}
_CHARACTERS = [chr(byte) if byte in _PRINTABLE else f"\\{byte:02x}" for byte in range(256)]


def wrapper_text(plan: Plan, interface: Interface) -> str:
    """Return a unit that defines the function and the constants.

    Raises:
        HloError: there are too many bytes of constants.
    """
    if interface.constant_bytes > MAX_CONSTANT_BYTES:
        raise HloError(
            f"the constants have {interface.constant_bytes} bytes, and an object holds at most "
            f"{MAX_CONSTANT_BYTES}",
        )
    lines = [
        "@hloc.never = internal constant i32 0, align 4",
        *_constants(plan.assignment.constants),
        *(f"declare void @{name}(ptr)" for name in map(entry_of, interface.variants)),
        *([] if interface.variants else [f"declare void @{ENTRY}(ptr)"]),
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
    ]
    if _owns_temp(interface):
        lines.append(
            f"@hloc.temp = internal global [{interface.temp_bytes} x i8] zeroinitializer, "
            f"align {interface.alignment}"
        )
    head = f"define internal i32 @{_CALL}({_GIVEN}, ptr %threads, ptr %entry)"
    lines += ["", *_function(head, plan, interface), ""]
    if interface.variants:
        lines += [choice_text(interface.variants), *_each_variant(interface)]
    chosen = _chosen if interface.variants else _only
    lines += chosen(f"i32 @{interface.prefix}_run({_GIVEN})", "null", interface)
    if interface.worker_bytes is not None:
        name = parallel_name(interface)
        lines += chosen(f"i32 @{name}({_GIVEN}, ptr %threads)", "%threads", interface)
    return "\n".join(lines) + "\n"


def _only(head: str, threads: str, interface: Interface) -> Iterator[str]:
    """Yield a function that calls the only variant."""
    yield f"define {head} nounwind {{"
    yield f"  %status = tail call i32 @{_CALL}({_GIVEN}, ptr {threads}, ptr @{ENTRY})"
    yield "  ret i32 %status"
    yield "}"


def _chosen(head: str, threads: str, interface: Interface) -> Iterator[str]:
    """Yield a function that calls the best variant for the processor it runs on."""
    variants = interface.variants
    yield f"define {head} nounwind {{"
    yield "entry:"
    yield f"  %number = call i32 @{CHOICE}()"
    cases = " ".join(f"i32 {i}, label %call.{i}" for i in range(len(variants)))
    yield f"  switch i32 %number, label %none [ {cases} ]"
    for i, level in enumerate(variants):
        given = f"{_GIVEN}, ptr {threads}, ptr @{entry_of(level)}"
        yield f"call.{i}:"
        yield f"  %status.{i} = tail call i32 @{_CALL}({given})"
        yield f"  ret i32 %status.{i}"
    yield "none:"
    yield f"  ret i32 {BAD_PROCESSOR}"
    yield "}"


def _each_variant(interface: Interface) -> Iterator[str]:
    """Yield a function for each variant, and one that returns the number of the best one."""
    for level in interface.variants:
        yield f"define i32 @{interface.prefix}_run_{symbol_of(level)}({_GIVEN}) nounwind {{"
        yield f"  %status = tail call i32 @{_CALL}({_GIVEN}, ptr null, ptr @{entry_of(level)})"
        yield "  ret i32 %status"
        yield "}"
    yield f"define i32 @{interface.prefix}_variant() nounwind {{"
    yield f"  %number = call i32 @{CHOICE}()"
    yield "  ret i32 %number"
    yield "}"


def visible_names(interface: Interface) -> tuple[str, ...]:
    """Return the names of all functions that a program can call."""
    run = f"{interface.prefix}_run"
    runs = (run,) if interface.worker_bytes is None else (run, parallel_name(interface))
    if not interface.variants:
        return runs
    each = (f"{run}_{symbol_of(level)}" for level in interface.variants)
    return (*runs, *each, f"{interface.prefix}_variant")


def _owns_temp(interface: Interface) -> bool:
    return interface.static_temp and interface.temp_bytes > 0


def _constants(constants: tuple[ConstantArray, ...]) -> Iterator[str]:
    for number, constant in enumerate(constants):
        data = constant.in_memory.tobytes()
        text = "".join(map(_CHARACTERS.__getitem__, data))
        yield f'@hloc.constant.{number} = internal constant [{len(data)} x i8] c"{text}", align 64'


def _function(head: str, plan: Plan, interface: Interface) -> Iterator[str]:
    """Yield the function that fills the table and calls the function `%entry` with it."""
    yield f"{head} nounwind {{"
    yield "start:"
    yield f"  %table = alloca [{plan.table.size} x ptr], align 16"
    yield from _checks(plan, interface)
    yield "call:"
    yield from _filled_table(plan, interface)
    for alias in plan.assignment.aliases:
        if alias.how == "in place" and alias.size_bytes:  # a copy onto itself does no harm
            yield (
                f"  call void @llvm.memcpy.p0.p0.i64(ptr %outputs.{alias.output}, "
                f"ptr %inputs.{alias.parameter}, i64 {alias.size_bytes}, i1 false)"
            )
    yield "  call void %entry(ptr %table)"
    yield "  ret i32 0"
    yield "}"


def _checks(plan: Plan, interface: Interface) -> Iterator[str]:
    """Yield the checks of the arguments; they end with a branch to `call`."""
    table = plan.table
    arrays = [
        name for name, count in (("inputs", table.parameters), ("outputs", table.outputs)) if count
    ]
    if interface.temp_bytes > 0 and not interface.static_temp:
        address = f"i{interface.pointer_bits}"
        yield f"  %address = ptrtoint ptr %temp to {address}"
        yield f"  %low = and {address} %address, {interface.alignment - 1}"
        yield f"  %skewed = icmp ne {address} %low, 0"
        yield "  %none = icmp eq ptr %temp, null"
        yield "  %bad.temp = or i1 %none, %skewed"
        yield "  br i1 %bad.temp, label %no.temp, label %lists"
        yield "no.temp:"
        yield f"  ret i32 {BAD_TEMP}"
    else:
        yield "  br label %lists"
    yield "lists:"
    result = "false"
    for name in arrays:
        yield f"  %no.{name} = icmp eq ptr %{name}, null"
        yield f"  %bad.{name} = or i1 {result}, %no.{name}"
        result = f"%bad.{name}"
    yield f"  br i1 {result}, label %no.lists, label %call"
    yield "no.lists:"
    yield f"  ret i32 {BAD_ARRAYS}"


def _filled_table(plan: Plan, interface: Interface) -> Iterator[str]:
    """Yield the stores of all pointers of the table."""
    table = plan.table
    fixed = {ARENA_SLOT: "%temp", STOP_SLOT: "@hloc.never", THREADS_SLOT: "%threads"}
    if _owns_temp(interface):
        fixed[ARENA_SLOT] = "@hloc.temp"
    for number in range(table.constants):
        fixed[FIRST_SLOT + number] = f"@hloc.constant.{number}"
    for slot, pointer in fixed.items():
        yield from _store(slot, pointer)
    lists = (
        ("inputs", table.first_parameter, table.parameters),
        ("outputs", table.first_output, table.outputs),
    )
    for name, first, count in lists:
        for i in range(count):
            yield f"  %at.{name}.{i} = getelementptr ptr, ptr %{name}, i64 {i}"
            yield f"  %{name}.{i} = load ptr, ptr %at.{name}.{i}"
            yield from _store(first + i, f"%{name}.{i}")


def _store(slot: int, pointer: str) -> Iterator[str]:
    yield f"  %slot.{slot} = getelementptr ptr, ptr %table, i64 {slot}"
    yield f"  store ptr {pointer}, ptr %slot.{slot}"
