"""Runs the threads of a launch one after another, on one thread of the host; translated to LLVM.

A thread runs until it ends or waits for others. The lanes of a warp resume when all of them wait at
the same call; the threads of a block when all wait at a barrier. A thread passes values to its warp
through two slots in turn, so that a fast lane does not overwrite what a slow one has yet to read.
Blocks, warps and lanes run in order, or all in reverse: code without races computes the same bits
either way.

Asynchronous copies are executed as late as possible: when their thread waits for them. A kernel
that reads the data too early, or waits for too few groups, computes with the old contents.
"""

from __future__ import annotations

from hloc.codegen.gpu.host.stubs import Fault_, Launch, Size_, Waits_, Word, host_resume
from hloc.codegen.llvm.python_subset_stubs import at, call, cast, memcpy, memset, state


def host_run(launch: Launch) -> Word:
    """Run a launch; returns 0 or a `Fault`."""
    state.launch = launch
    state.fault = 0
    blocks = launch.columns * launch.rows * launch.layers
    for i in range(blocks):
        block = host_ordered(i, blocks)
        state.x = block % launch.columns
        state.y = block // launch.columns % launch.rows
        state.z = block // launch.columns // launch.rows
        fault = host_run_block(launch)
        if fault != 0:
            launch.block = block
            return fault
    return 0


def host_ordered(number: int, count: int) -> Word:
    """Return which of `count` comes at place `number`."""
    if state.launch.is_reversed:
        return count - 1 - number
    return number


def host_run_block(launch: Launch) -> Word:
    """Run one block to its end."""
    for i in range(launch.count):
        host_start(launch, host_ordered(i, launch.count))
        if state.fault != 0:
            return state.fault
    warps = (launch.count + Size_.WARP - 1) // Size_.WARP
    while True:
        for i in range(warps):
            fault = host_run_warp(launch, host_ordered(i, warps))
            if fault != 0:
                return fault
        ended = 0
        site = 0
        together = True
        for i in range(launch.count):
            thread = launch.threads[i]
            if thread.site != launch.threads[i // Size_.WARP * Size_.WARP].site:
                together = False
            if thread.state == Waits_.ENDED:
                ended += 1
            else:
                site = thread.site
        if state.fault != 0:
            return state.fault
        if ended == launch.count:
            return 0
        if ended != 0 or not together:
            launch.site = site
            return Fault_.BLOCK_PARTED
        for i in range(launch.count):
            host_resume(launch.threads[host_ordered(i, launch.count)].handle)


def host_run_warp(launch: Launch, warp: int) -> Word:
    """Run the lanes of a warp until none waits for the others."""
    first = warp * Size_.WARP
    lanes = min(launch.count - first, Size_.WARP)
    while True:
        wanted = launch.threads[first].site
        waiting = 0
        together = True
        for i in range(lanes):
            thread = launch.threads[first + i]
            if thread.state == Waits_.FOR_WARP:
                waiting += 1
            if thread.site != wanted:
                together = False
        if waiting == 0:
            return 0
        if waiting != lanes or not together:
            launch.site = wanted
            return Fault_.WARP_PARTED
        for i in range(lanes):
            host_resume(launch.threads[first + host_ordered(i, lanes)].handle)


def host_start(launch: Launch, number: int) -> None:
    """Begin a thread of a block."""
    thread = launch.threads[number]
    thread.turn = 0
    thread.first_copy = 0
    thread.next_copy = 0
    thread.groups = 0
    thread.handle = call(launch.kernel, launch.arguments, number)


# ---------------------------------------------------------------- called by the threads


def host_frame(number: int, size_bytes: int) -> Word:
    """Return the memory of a thread where it waits, 0 if there is too little."""
    launch = state.launch
    if size_bytes > launch.frame_bytes:
        launch.needed_bytes = size_bytes
        state.fault = Fault_.FRAMES_TOO_SMALL
        return 0
    return launch.frames + number * launch.frame_bytes


def host_stop(number: int, waits: int, site: int) -> None:
    """Note where a thread stops, and what for."""
    thread = state.launch.threads[number]
    thread.state = waits
    thread.site = site


def host_slot(number: int, owner: int) -> Word:
    """Return the slot of thread `owner` whose turn it is for thread `number`."""
    launch = state.launch
    return at(launch.slots[launch.threads[number].turn * Size_.THREADS + owner])


def host_next_slot(number: int) -> Word:
    """Return the slot that a thread fills next."""
    thread = state.launch.threads[number]
    thread.turn = 1 - thread.turn
    return host_slot(number, number)


def host_word(number: int, owner: int, word: int) -> Word:
    """Return a word that thread `owner` passes; of one that does not exist, a NaN of any type."""
    if owner >= state.launch.count:
        return 0xFFFFFFFF
    return cast("uint32_t*", host_slot(number, owner))[word]


def host_copy(number: int, target: int, source: int, size_bytes: int) -> None:
    """Begin a copy of at most 16 bytes; zeros fill the rest."""
    launch = state.launch
    thread = launch.threads[number]
    if thread.next_copy - thread.first_copy >= Size_.COPIES:
        state.fault = Fault_.TOO_MANY_COPIES
        return
    copy = launch.copies[number * Size_.COPIES + thread.next_copy % Size_.COPIES]
    copy.target = target
    copy.source = source
    copy.size_bytes = size_bytes
    copy.group = thread.groups
    thread.next_copy += 1


def host_commit(number: int) -> None:
    """End a group of copies."""
    state.launch.threads[number].groups += 1


def host_wait(number: int, left: int) -> None:
    """Execute the copies of all groups but the last `left`."""
    launch = state.launch
    thread = launch.threads[number]
    while thread.first_copy < thread.next_copy:
        copy = launch.copies[number * Size_.COPIES + thread.first_copy % Size_.COPIES]
        if copy.group >= thread.groups - left:
            return
        memcpy(copy.target, copy.source, copy.size_bytes)
        memset(copy.target + copy.size_bytes, 0, 16 - copy.size_bytes)
        thread.first_copy += 1
