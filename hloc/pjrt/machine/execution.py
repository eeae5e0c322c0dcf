"""`PJRT_LoadedExecutable_Execute`: fills the program's pointer table and runs it.

A short program runs in the caller's thread; others, and those whose arguments are not ready, are
queued for the worker (`worker.py`). A program is short if its last run was.
"""

from __future__ import annotations

from hloc.codegen.llvm.python_subset_stubs import (
    Words,
    atomic_add,
    atomic_load,
    cast,
    malloc,
    memcpy,
    python_fallback,
    size_of,
    stack,
    state,
    text,
)
from hloc.pjrt.machine.buffers import deleted_error, out_of_memory
from hloc.pjrt.machine.events import drop_event, fail, invalid, new_event
from hloc.pjrt.machine.memory import (
    allocate,
    delete_buffer,
    drop_storage,
    is_foreign,
    new_buffer,
    pending_buffer,
)
from hloc.pjrt.machine.performing import perform
from hloc.pjrt.machine.stubs import (
    Args,
    Buffers,
    Error_Code_,
    PJRT_Error,
    PJRT_Event,
    PJRT_Executable,
    PJRT_LoadedExecutable_Execute_Args,
    Run,
    Storages,
)
from hloc.pjrt.machine.worker import queue


def PJRT_LoadedExecutable_Execute(args: Args) -> PJRT_Error:
    executable = args.executable
    if executable.python or args.num_devices != 1:
        return python_fallback(args)
    if executable.deleted:
        return invalid(*text("The executable has been deleted."))
    if state.forked:
        return forked_error()
    if args.num_args != executable.num_parameters:
        return invalid(*text("Execute: wrong number of arguments."))
    late = executable.asynchronous
    inputs = cast("PJRT_Buffer**", None)
    if args.num_args > 0:
        inputs = args.argument_lists[0]
    for i in range(args.num_args):
        buffer = inputs[i]
        if buffer.deleted:
            return deleted_error()
        if buffer.bytes != executable.parameters[i].bytes:
            return invalid(*text("Execute: an argument has a wrong shape or type."))
        layout = executable.parameters[i].layout
        if layout is not None and buffer.layout != layout:
            return invalid(*text("Execute: an argument has another layout than the program takes."))
        event = buffer.event
        if event is not None and (atomic_load(event.state) == 0 or event.code != 0):
            late = 1
    storages = cast("Storage**", stack(executable.num_outputs + 1))
    for i in range(executable.num_outputs):
        storages[i] = None
    donated = stack(executable.num_parameters + 1)
    for i in range(executable.num_parameters):
        donated[i] = 0
    if executable.num_aliases > 0:
        error = donate(args, executable, inputs, donated, storages)
        if error is not None:
            return error
    for i in range(executable.num_outputs):
        if storages[i] is None:
            storages[i] = allocate(executable.outputs[i].bytes)
            if storages[i] is None:
                for j in range(i):
                    drop_storage(storages[j])
                return out_of_memory()
    event = None
    if late:
        event = new_event()
        queue(new_run(executable, inputs, donated, storages, event))
    else:
        table = stack(executable.slots)
        fill(executable, table, inputs, storages)
        if perform(executable, table):
            for i in range(executable.num_outputs):
                drop_storage(storages[i])
            return fail(Error_Code_.CANCELLED, *text("The run was interrupted."))
    give(args, executable, storages, event)
    for i in range(executable.num_aliases):
        if donated[executable.aliases[i].parameter]:
            delete_buffer(inputs[executable.aliases[i].parameter])
    if event is not None:
        drop_event(event)
    return None


def forked_error() -> PJRT_Error:
    """Return the error for a process that was forked from one with a client."""
    return fail(
        Error_Code_.FAILED_PRECONDITION,
        *text(
            "hloc cannot run programs in a process forked after JAX was started: its threads are "
            "gone. Use the start method 'spawn' of multiprocessing."
        ),
    )


def fill(executable: PJRT_Executable, table: Words, inputs: Buffers, storages: Storages) -> None:
    """Write the addresses of constants, arguments and results into `table`."""
    memcpy(table, executable.template, executable.slots * 8)
    for i in range(executable.num_parameters):
        slot = executable.parameters[i].slot
        if slot >= 0:
            table[slot] = inputs[i].data
    for i in range(executable.num_outputs):
        slot = executable.outputs[i].slot
        if slot >= 0:
            table[slot] = storages[i].data


def give(
    args: PJRT_LoadedExecutable_Execute_Args,
    executable: PJRT_Executable,
    storages: Storages,
    event: PJRT_Event,
) -> None:
    """Write the results, which are ready when `event` is, or now if it is null."""
    device = args.execute_device
    if device is None:
        device = executable.devices[0]
    outputs = args.output_lists[0]
    for i in range(executable.num_outputs):
        output = executable.outputs[i]
        memory = device.memories[output.memory]
        buffer = new_buffer(storages[i], output.type, output.rank, output.dims, device, memory)
        buffer.layout = output.layout
        if event is not None:
            pending_buffer(buffer, event)
        outputs[i] = buffer
    if args.device_complete_events is not None:
        if event is None:
            args.device_complete_events[0] = state.ready
        else:
            atomic_add(event.refs, 1)
            args.device_complete_events[0] = event


# ---------------------------------------------------------------- donation


def donate(
    args: PJRT_LoadedExecutable_Execute_Args,
    executable: PJRT_Executable,
    inputs: Buffers,
    donated: Words,
    storages: Storages,
) -> PJRT_Error:
    """Find which arguments are given away, and let results lie in their memory if all can.

    Memory can be used up if no other buffer, run or view has it, and it is hloc's own. A queued run
    that writes it is done before, so it does not count. `donated` is 2 for memory that is used up.
    """
    run = atomic_add(state.runs, 1) + 1
    shared = 1
    for i in range(executable.num_aliases):
        alias = executable.aliases[i]
        if is_kept(args, alias.parameter):
            shared = 0
        else:
            buffer = inputs[alias.parameter]
            if buffer.mark == run:
                return invalid(
                    *text(
                        "Attempt to donate the same buffer twice in Execute(). "
                        "Toy example for this bug: `f(donate(a), donate(a))`."
                    )
                )
            buffer.mark = run
            donated[alias.parameter] = 1
            storage = buffer.storage
            if alias.shared and (storage.refs - storage.writers != 1 or is_foreign(storage)):
                shared = 0
    for i in range(executable.num_parameters):
        if inputs[i].mark == run and donated[i] == 0:
            return invalid(
                *text(
                    "Attempt to use a buffer that was previously donated in the same call to "
                    "Execute(). Toy example for this bug: `f(donate(a), a)`."
                )
            )
    if shared:
        for i in range(executable.num_aliases):
            alias = executable.aliases[i]
            if alias.shared:
                donated[alias.parameter] = 2
                storage = inputs[alias.parameter].storage
                atomic_add(storage.refs, 1)
                storages[alias.output] = storage
    return None


def is_kept(args: PJRT_LoadedExecutable_Execute_Args, parameter: int) -> int:
    """Return 1 if the caller forbids to donate the argument."""
    options = args.options
    for i in range(options.num_non_donatable_input_indices):
        if options.non_donatable_input_indices[i] == parameter:
            return 1
    return 0


# ---------------------------------------------------------------- asynchronous runs


def new_run(
    executable: PJRT_Executable,
    inputs: Buffers,
    donated: Words,
    storages: Storages,
    event: PJRT_Event,
) -> Run:
    """Return a run for the queue, which holds all that it needs.

    An argument whose memory is used up is held as a result.
    """
    count = executable.num_parameters
    words = executable.slots + 2 * count + executable.num_outputs
    run = cast(Run, malloc(size_of(Run) + 8 * words))
    run.table = run + size_of(Run)
    run.inputs = run.table + 8 * executable.slots
    run.events = run.inputs + 8 * count
    run.outputs = run.events + 8 * count
    run.next = None
    run.executable = executable
    atomic_add(executable.refs, 1)
    run.event = event
    atomic_add(event.refs, 1)
    run.num_inputs = count
    for i in range(count):
        run.inputs[i] = None
        if donated[i] < 2:
            run.inputs[i] = inputs[i].storage
            atomic_add(run.inputs[i].refs, 1)
        run.events[i] = inputs[i].event
        if run.events[i] is not None:
            atomic_add(run.events[i].refs, 1)
    run.num_outputs = executable.num_outputs
    for i in range(executable.num_outputs):
        atomic_add(storages[i].refs, 1)
        atomic_add(storages[i].writers, 1)
        run.outputs[i] = storages[i]
    fill(executable, run.table, inputs, storages)
    return run
