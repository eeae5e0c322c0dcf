"""The threads that run devices: the caller's runs the first one, a pool runs the others.

A finished thread adds itself to a free list, so threads are created only when more devices run
concurrently than ever before. After a fork, the child has none.
"""

from __future__ import annotations

from hloc.codegen.llvm.python_subset_stubs import (
    at,
    atomic_add,
    atomic_load,
    call,
    cast,
    exchange,
    free,
    function,
    malloc,
    pthread_create,
    pthread_sigmask,
    sched_yield,
    sigfillset,
    size_of,
    stack,
    state,
)
from hloc.runtime.communicator.machine.meetings import finish, reset
from hloc.runtime.communicator.machine.stubs import Run, Worker, sleep, wake


def run_devices(run: Run) -> int:
    """Run a program on all devices and wait for their end; returns 1 if there was no thread."""
    reset(run.states[0].world)
    run.left = run.devices - 1
    workers = stack(run.devices)
    for place in range(run.devices - 1):
        workers[place] = hired()
        if workers[place] == 0:
            for i in range(place):
                keep(cast(Worker, workers[i]))
            return 1
    for place in range(run.devices - 1):
        worker = cast(Worker, workers[place])
        worker.run = run
        worker.place = place + 1
        exchange(worker.called, 1)
        wake(at(worker.called), 1)
    perform(run, 0)
    while True:
        left = atomic_load(run.left)
        if left == 0:
            return 0
        sleep(at(run.left), left)


def perform(run: Run, place: int) -> None:
    """Run the program on one device."""
    device = run.states[place]
    call(run.entry, run.tables[place])
    finish(device.world, device)


def leave(run: Run) -> None:
    """Count a device out; nothing of the run is looked at afterwards."""
    if atomic_add(run.left, -1) == 1:
        wake(at(run.left), 1)


def work(worker: Worker) -> int:
    """Run devices, one after the other, as they are handed over."""
    while True:
        while atomic_load(worker.called) == 0:
            sleep(at(worker.called), 0)
        worker.called = 0
        run = worker.run
        perform(run, worker.place)
        keep(worker)
        leave(run)


def hired() -> Worker:
    """Return a thread that is free, a new one if need be; null if there can be no more."""
    lock()
    worker = state.idle
    if worker is not None:
        state.idle = worker.next
    unlock()
    if worker is not None:
        return worker
    worker = cast(Worker, malloc(size_of(Worker)))
    worker.called = 0
    worker.next = None
    # Signals are for the threads of the program.
    every = stack(16)
    before = stack(16)
    sigfillset(every)
    pthread_sigmask(state.sig_setmask, every, before)
    fault = pthread_create(at(worker.thread), 0, function(work), worker)
    pthread_sigmask(state.sig_setmask, before, 0)
    if fault & 4294967295 != 0:
        free(worker)
        return cast(Worker, 0)
    return worker


def keep(worker: Worker) -> None:
    """Put a thread that is free where the next run finds it."""
    lock()
    worker.next = state.idle
    state.idle = worker
    unlock()


def lock() -> None:
    """Take the lock of the list of threads, which is held for a few instructions only."""
    while exchange(state.lock, 1) != 0:
        sched_yield()


def unlock() -> None:
    """Give back the lock."""
    exchange(state.lock, 0)


def set_up(sig_setmask: int) -> None:
    """Set what Python knows of the system; called once."""
    state.sig_setmask = sig_setmask


def forget() -> None:
    """Forget the threads, of which a process has none after a fork."""
    state.idle = None
    state.lock = 0
