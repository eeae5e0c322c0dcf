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
from hloc.runtime.communicator.machine.rendezvous import finish, reset
from hloc.runtime.communicator.machine.stubs import Run, Worker, sleep, wake


def run_devices(run: Run) -> int:
    """Run a program on all devices and wait for them; returns 1 if a thread cannot be created."""
    reset(run.states[0].world)
    run.left = run.devices - 1
    workers = stack(run.devices)
    for place in range(run.devices - 1):
        workers[place] = free_worker()
        if workers[place] == 0:
            for i in range(place):
                return_worker(cast(Worker, workers[i]))
            return 1
    for place in range(run.devices - 1):
        worker = cast(Worker, workers[place])
        worker.run = run
        worker.place = place + 1
        exchange(worker.called, 1)
        wake(at(worker.called), 1)
    run_device(run, 0)
    while True:
        left = atomic_load(run.left)
        if left == 0:
            return 0
        sleep(at(run.left), left)


def run_device(run: Run, place: int) -> None:
    """Run the program on one device."""
    device = run.states[place]
    call(run.entry, run.tables[place])
    finish(device.world, device)


def count_finished(run: Run) -> None:
    """Count a finished device; the caller may free the run after the last one."""
    if atomic_add(run.left, -1) == 1:
        wake(at(run.left), 1)


def worker_loop(worker: Worker) -> int:
    """The loop of a thread of the pool: run each device that it is given."""
    while True:
        while atomic_load(worker.called) == 0:
            sleep(at(worker.called), 0)
        worker.called = 0
        run = worker.run
        run_device(run, worker.place)
        return_worker(worker)
        count_finished(run)


def free_worker() -> Worker:
    """Return a thread of the free list, or a new one; null if none can be created."""
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
    # The new thread blocks all signals, so that those of Python handle them.
    every = stack(16)
    before = stack(16)
    sigfillset(every)
    pthread_sigmask(state.sig_setmask, every, before)
    fault = pthread_create(at(worker.thread), 0, function(worker_loop), worker)
    pthread_sigmask(state.sig_setmask, before, 0)
    if fault & 4294967295 != 0:
        free(worker)
        return cast(Worker, 0)
    return worker


def return_worker(worker: Worker) -> None:
    """Put a thread on the free list."""
    lock()
    worker.next = state.idle
    state.idle = worker
    unlock()


def lock() -> None:
    """Take the lock of the list of threads, which is held for a few instructions only."""
    while exchange(state.lock, 1) != 0:
        sched_yield()


def unlock() -> None:
    """Release the lock."""
    exchange(state.lock, 0)


def set_up(sig_setmask: int) -> None:
    """Store SIG_SETMASK, which differs between systems; called once."""
    state.sig_setmask = sig_setmask


def forget() -> None:
    """Empty the free list after a fork: the child process has none of the threads."""
    state.idle = None
    state.lock = 0
