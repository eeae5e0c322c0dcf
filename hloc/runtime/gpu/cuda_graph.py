"""Commands to a CUDA graph, by stream capture: streams that wait for each other become branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hloc.runtime.gpu.commands import Action, Command
from hloc.runtime.gpu.cuda_driver import CudaDriver

PerformOn = Callable[[Any, Action], None]
"""Enqueues an action on a stream."""


def capture(
    driver: CudaDriver,
    streams: Sequence[Any],
    events: Sequence[Any],
    commands: Sequence[Command],
    perform: PerformOn,
) -> Any:
    """Return an executable graph of `commands`.

    Args:
        driver: initialised, with a current context.
        streams: at least as many as the commands use; nothing else uses them.
        events: one more than there are commands.
        commands: at least one.
        perform: enqueues an action.

    Raises:
        CudaError: a driver call fails; the streams are as before.
    """
    # Relaxed: other threads, and finalizers that free memory, may make any CUDA call meanwhile.
    mode = driver.api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    driver.call("cuStreamBeginCapture", streams[0], mode)
    try:
        _issue(driver, streams, events, commands, perform)
    except BaseException:
        _, graph = driver.attempt("cuStreamEndCapture", streams[0])
        if graph is not None:
            driver.attempt("cuGraphDestroy", graph)
        raise
    graph = driver.call("cuStreamEndCapture", streams[0])
    try:
        return driver.call("cuGraphInstantiate", graph, 0)
    finally:
        driver.attempt("cuGraphDestroy", graph)


def _issue(
    driver: CudaDriver,
    streams: Sequence[Any],
    events: Sequence[Any],
    commands: Sequence[Command],
    perform: PerformOn,
) -> None:
    """Enqueue all commands; other streams fork from the first, and join it at the end."""
    *ended, start = events
    driver.call("cuEventRecord", start, streams[0])
    last: dict[int, int] = {}  # stream -> its latest command
    waited = {number for command in commands for number in command.waits}
    for number, command in enumerate(commands):
        stream = streams[command.stream]
        if command.stream and command.stream not in last:
            driver.call("cuStreamWaitEvent", stream, start, 0)
        for other in command.waits:
            driver.call("cuStreamWaitEvent", stream, ended[other], 0)
        for action in command.actions:
            perform(stream, action)
        last[command.stream] = number
        if number in waited:
            driver.call("cuEventRecord", ended[number], stream)
    for other_stream, number in last.items():
        if other_stream:
            driver.call("cuEventRecord", ended[number], streams[other_stream])
            driver.call("cuStreamWaitEvent", streams[0], ended[number], 0)
