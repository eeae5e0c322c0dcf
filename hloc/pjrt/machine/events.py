"""Errors and events.

One lock serves all events: it is held for a few instructions, except that waiting threads sleep on
its condition `changed`.
"""

from __future__ import annotations

from hloc.codegen.llvm.python_subset_stubs import (
    at,
    atomic_add,
    atomic_load,
    call,
    cast,
    free,
    malloc,
    memcpy,
    pthread_cond_broadcast,
    pthread_cond_wait,
    pthread_mutex_lock,
    pthread_mutex_unlock,
    size_of,
    state,
    text,
)
from hloc.pjrt.machine.stubs import (
    Address,
    Args,
    Error_Code_,
    PJRT_Error,
    PJRT_Event,
    Waiter,
)


def call_fallback(index: int, args: Address) -> PJRT_Error:
    """Call a Python function; at the end of the process Python is gone and nothing is done."""
    if state.closed:
        return fail(Error_Code_.UNAVAILABLE, *text("hloc is shutting down"))
    return call(state.fallbacks[index], args)


# ---------------------------------------------------------------- errors


def fail(code: int, message: Address, size: int) -> PJRT_Error:
    """Return an error with a copy of the message."""
    error = cast(PJRT_Error, malloc(size_of(PJRT_Error) + size + 1))
    error.vtable = None
    error.code = code
    error.message = error + size_of(PJRT_Error)
    error.message_size = size
    if size > 0:
        memcpy(error.message, message, size)
    return error


def invalid(message: Address, size: int) -> PJRT_Error:
    """Return an error of what the caller gives."""
    return fail(Error_Code_.INVALID_ARGUMENT, message, size)


def PJRT_Error_Destroy(args: Args) -> None:
    free(args.error)


def PJRT_Error_Message(args: Args) -> None:
    args.message = args.error.message
    args.message_size = args.error.message_size


# ---------------------------------------------------------------- events


def new_event() -> PJRT_Event:
    """Return an event that is not complete, used once."""
    event = cast(PJRT_Event, malloc(size_of(PJRT_Event)))
    event.refs = 1
    event.state = 0
    event.code = 0
    event.message = None
    event.message_size = 0
    event.waiters = None
    return event


def drop_event(event: PJRT_Event) -> None:
    """Use `event` once less; the last use frees it."""
    if event is None or event == state.ready:
        return
    if atomic_add(event.refs, -1) == 1:
        free(event.message)
        free(event)


def complete(event: PJRT_Event, code: int, message: Address, size: int) -> None:
    """Let `event` be complete, with an error if `code` is not 0, and call all that wait."""
    if size > 0:
        event.message = malloc(size)
        event.message_size = size
        memcpy(event.message, message, size)
    event.code = code
    pthread_mutex_lock(at(state.mutex0))
    atomic_add(event.state, 1)
    waiter = event.waiters
    event.waiters = None
    pthread_cond_broadcast(at(state.changed0))
    pthread_mutex_unlock(at(state.mutex0))
    while waiter is not None:
        following = waiter.next
        call(waiter.callback, error_of(event), waiter.user_arg)
        free(waiter)
        waiter = following


def error_of(event: PJRT_Event) -> PJRT_Error:
    """Return the error of a complete event, null if it has none."""
    if event.code == 0:
        return None
    return fail(event.code, event.message, event.message_size)


def wait(event: PJRT_Event) -> None:
    """Return when `event` is complete."""
    if atomic_load(event.state):
        return
    pthread_mutex_lock(at(state.mutex0))
    while event.state == 0:
        pthread_cond_wait(at(state.changed0), at(state.mutex0))
    pthread_mutex_unlock(at(state.mutex0))


def PJRT_Event_Destroy(args: Args) -> PJRT_Error:
    drop_event(args.event)
    return None


def PJRT_Event_IsReady(args: Args) -> PJRT_Error:
    args.is_ready = atomic_load(args.event.state) != 0
    return None


def PJRT_Event_Error(args: Args) -> PJRT_Error:
    return error_of(args.event)


def PJRT_Event_Await(args: Args) -> PJRT_Error:
    wait(args.event)
    return error_of(args.event)


def PJRT_Event_OnReady(args: Args) -> PJRT_Error:
    event = args.event
    if atomic_load(event.state) == 0:
        waiter = cast(Waiter, malloc(size_of(Waiter)))
        waiter.callback = args.callback
        waiter.user_arg = args.user_arg
        pthread_mutex_lock(at(state.mutex0))
        if event.state == 0:
            waiter.next = event.waiters
            event.waiters = waiter
            pthread_mutex_unlock(at(state.mutex0))
            return None
        pthread_mutex_unlock(at(state.mutex0))
        free(waiter)
    call(args.callback, error_of(event), args.user_arg)
    return None


def PJRT_Event_Create(args: Args) -> PJRT_Error:
    args.event = new_event()
    return None


def PJRT_Event_Set(args: Args) -> PJRT_Error:
    complete(args.event, args.error_code, args.error_message, args.error_message_size)
    return None
