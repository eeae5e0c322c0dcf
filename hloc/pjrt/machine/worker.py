"""The queue of asynchronous runs, and the one thread that executes it in order.

A run depends only on earlier runs, so one thread in order cannot deadlock. Programs that call
Python are never queued: their callbacks may themselves wait for the worker.
"""

from __future__ import annotations

from hloc.codegen.llvm.python_subset_stubs import (
    at,
    atomic_add,
    cast,
    free,
    function,
    pthread_cond_broadcast,
    pthread_cond_init,
    pthread_cond_signal,
    pthread_cond_wait,
    pthread_create,
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_unlock,
    stack,
    state,
    text,
)
from hloc.pjrt.machine.events import complete, drop_event, wait
from hloc.pjrt.machine.executables import drop_executable
from hloc.pjrt.machine.memory import drop_storage
from hloc.pjrt.machine.performing import perform
from hloc.pjrt.machine.stubs import Address, Error_Code_, Run


def hloc_pjrt_state() -> Address:
    """Return the address of the state."""
    return state


def hloc_pjrt_start() -> None:
    """Make the locks and the worker; called once, with all signals blocked."""
    pthread_mutex_init(at(state.mutex0), None)
    pthread_cond_init(at(state.wake0), None)
    pthread_cond_init(at(state.changed0), None)
    state.ready.refs = 1
    state.ready.state = 1
    pthread_create(stack(1), None, function(work), None)


def hloc_pjrt_finish() -> None:
    """Let the run under way end early, and the worker after it; called at exit."""
    pthread_mutex_lock(at(state.mutex0))
    state.ending = 1
    state.stop = 1
    pthread_cond_signal(at(state.wake0))
    while state.ending == 1:
        pthread_cond_wait(at(state.changed0), at(state.mutex0))
    pthread_mutex_unlock(at(state.mutex0))


def queue(run: Run) -> None:
    """Put `run` behind all others."""
    pthread_mutex_lock(at(state.mutex0))
    if state.first_run is None:
        state.first_run = run
    else:
        state.last_run.next = run
    state.last_run = run
    pthread_cond_signal(at(state.wake0))
    pthread_mutex_unlock(at(state.mutex0))


def work(unused: Address) -> Address:
    """Run what is queued until the process ends."""
    while 1:
        pthread_mutex_lock(at(state.mutex0))
        while state.first_run is None and state.ending == 0:
            pthread_cond_wait(at(state.wake0), at(state.mutex0))
        run = state.first_run
        if run is None:
            state.ending = 2
            pthread_cond_broadcast(at(state.changed0))
            pthread_mutex_unlock(at(state.mutex0))
            return None
        state.first_run = run.next
        pthread_mutex_unlock(at(state.mutex0))
        carry_out(run)
    return None


def carry_out(run: Run) -> None:
    """Wait for the inputs, run, tell, and let go of everything."""
    failed = cast("PJRT_Event*", None)
    for i in range(run.num_inputs):
        if run.events[i] is not None:
            wait(run.events[i])
            if run.events[i].code != 0:
                failed = run.events[i]
    interrupted = state.ending
    if failed is None and interrupted == 0:
        interrupted = perform(run.executable, run.table)
    for i in range(run.num_inputs):
        if run.inputs[i] is not None:
            drop_storage(run.inputs[i])
    for i in range(run.num_outputs):
        atomic_add(run.outputs[i].writers, -1)
        drop_storage(run.outputs[i])
    if failed is not None:
        complete(run.event, failed.code, failed.message, failed.message_size)
    elif interrupted:
        complete(run.event, Error_Code_.CANCELLED, *text("The run was interrupted."))
    else:
        complete(run.event, 0, None, 0)
    for i in range(run.num_inputs):
        drop_event(run.events[i])
    drop_event(run.event)
    drop_executable(run.executable)
    free(run)
