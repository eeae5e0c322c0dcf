"""One run of a program's machine code on a table of pointers."""

from __future__ import annotations

from hloc.codegen.llvm.python_subset_stubs import (
    Words,
    at,
    atomic_add,
    call,
    cast,
    clock_gettime,
    exchange,
    free,
    memcpy,
    stack,
    state,
)
from hloc.pjrt.machine.memory import fresh
from hloc.pjrt.machine.stubs import PJRT_Executable, Threads


def perform(executable: PJRT_Executable, table: Words) -> int:
    """Run the machine code on a table that has all but the memory for temporaries.

    Returns:
        1 if the run was interrupted, and its results are of no use.
    """
    arena = exchange(executable.arena, 0)
    if arena is None:
        arena = fresh(executable.arena_bytes)
    table[0] = arena
    table[1] = at(state.stop)
    threads = cast(Threads, stack(4))
    if executable.team_run is not None:
        threads.run = executable.team_run
        threads.context = None
        threads.workers = executable.team_workers
        threads.scratch = arena + executable.scratch_offset
        table[2] = threads
    for i in range(executable.num_aliases):
        alias = executable.aliases[i]
        if alias.copied:
            source = table[executable.parameters[alias.parameter].slot]
            target = table[executable.outputs[alias.output].slot]
            if source != target:
                memcpy(target, source, executable.outputs[alias.output].bytes)
    begin = now()
    atomic_add(state.running, 1)
    call(executable.entry, table)
    interrupted: int = state.stop
    if atomic_add(state.running, -1) == 1 and state.ending == 0:
        state.stop = 0
    executable.asynchronous = now() - begin > 500000
    free(exchange(executable.arena, arena))
    return interrupted


def hloc_pjrt_interrupt(signal: int) -> None:
    """Handle SIGINT: end the loops of what runs, then do what Python does."""
    if state.running > 0:
        state.stop = 1
    call(state.handler, signal)


def now() -> int:
    """Return the time in nanoseconds."""
    time = stack(2)
    clock_gettime(state.clock, time)
    nanoseconds: int = time[0] * 1000000000 + time[1]
    return nanoseconds
