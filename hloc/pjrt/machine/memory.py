"""Memory of buffers, shared by counting, and buffers themselves."""

from __future__ import annotations

from hloc.codegen.llvm.python_subset_stubs import (
    aligned_alloc,
    at,
    atomic_add,
    atomic_max,
    call,
    cast,
    exchange,
    free,
    madvise,
    malloc,
    memcpy,
    size_of,
    state,
)
from hloc.pjrt.machine.events import complete, drop_event
from hloc.pjrt.machine.stubs import (
    Address,
    PJRT_Buffer,
    PJRT_Device,
    PJRT_Event,
    PJRT_Memory,
    Storage,
)


def allocate(size_bytes: int) -> Storage:
    """Return memory of hloc's own, used once; null if there is none.

    Small memory is not aligned to a cache line, which costs the C library more than it saves.
    """
    storage = cast(Storage, None)
    if size_bytes <= 1024:
        storage = cast(Storage, malloc(size_of(Storage) + size_bytes))
    elif size_bytes >= 1048576:
        storage = recycled(size_bytes)
    if storage is None:
        storage = cast(Storage, fresh(size_of(Storage) + size_bytes))
    if storage is None:
        return None
    storage.refs = 1
    storage.data = storage + size_of(Storage)
    storage.bytes = size_bytes
    storage.release = None
    storage.done = None
    storage.writers = 0
    total = atomic_add(state.bytes_in_use, size_bytes) + size_bytes
    if total > state.peak_bytes:
        atomic_max(state.peak_bytes, total)
    if size_bytes > state.largest_bytes:
        atomic_max(state.largest_bytes, size_bytes)
    atomic_add(state.allocations, 1)
    return storage


def fresh(size_bytes: int) -> Address:
    """Return memory that begins at a cache line; null if there is none.

    Large memory lies in large pages where the system has them: a gemm of few rows reads its weights
    once, a line of columns after another, each in pages of its own. It is a number of such pages
    unless it has many, as the C library seldom uses freed memory again for so large an alignment.
    """
    huge: int = state.huge_page_bytes
    alignment = 64
    if huge <= size_bytes and size_bytes < 8 * huge:
        alignment = huge
    whole_bytes: int = (size_bytes + alignment - 1) // alignment * alignment
    memory = aligned_alloc(alignment, whole_bytes)
    if huge > 0 and huge <= size_bytes and memory is not None:
        first = (memory + huge - 1) // huge * huge
        madvise(first, memory + whole_bytes - first, state.huge_page_advice)
    return memory


def recycled(size_bytes: int) -> Storage:
    """Return large memory of that size that was dropped lately, null if there is none.

    Fresh memory costs as much in page faults as writing it; the C library gives large memory back
    to the system at once.
    """
    for i in range(4):
        storage = cast(Storage, exchange(state.kept[i], 0))
        if storage is not None:
            if storage.bytes == size_bytes:
                return storage
            free(exchange(state.kept[i], storage))
    return None


def release(storage: Storage) -> None:
    """Give memory of hloc's own back, or keep it for `recycled`, in the place of older memory."""
    atomic_add(state.bytes_in_use, -storage.bytes)
    if storage.bytes < 1048576 or storage.bytes > 134217728:
        free(storage)
        return
    place = atomic_add(state.next_kept, 1) & 3
    free(exchange(state.kept[place], storage))


def foreign(data: Address, size_bytes: int) -> Storage:
    """Return the header of memory of another owner; the caller says what to do at its end."""
    storage = cast(Storage, malloc(size_of(Storage)))
    storage.refs = 1
    storage.data = data
    storage.bytes = size_bytes
    storage.release = None
    storage.done = None
    storage.writers = 0
    return storage


def is_foreign(storage: Storage) -> int:
    """Return 1 for memory that a run must not write."""
    result: int = storage.data != storage + size_of(Storage)
    return result


def drop_storage(storage: Storage) -> None:
    """Use `storage` once less; the last use ends it."""
    if atomic_add(storage.refs, -1) != 1:
        return
    if is_foreign(storage) == 0:
        release(storage)
        return
    if storage.release is not None:
        call(storage.release, storage.data, storage.release_arg)
    if storage.done is not None:
        complete(storage.done, 0, None, 0)
        drop_event(storage.done)
    free(storage)


def new_buffer(
    storage: Storage, type: int, rank: int, dims: Address, device: PJRT_Device, memory: PJRT_Memory
) -> PJRT_Buffer:
    """Return a ready, row-major buffer that takes over one use of `storage`."""
    buffer = cast(PJRT_Buffer, malloc(size_of(PJRT_Buffer) + rank * 8))
    buffer.storage = storage
    buffer.data = storage.data
    buffer.type = type
    buffer.deleted = 0
    buffer.bytes = storage.bytes
    buffer.rank = rank
    buffer.dims = buffer + size_of(PJRT_Buffer)
    if rank > 0:
        memcpy(buffer.dims, dims, rank * 8)
    buffer.device = device
    buffer.memory = memory
    buffer.event = None
    buffer.mark = 0
    buffer.holds = 0
    buffer.layout = at(state.layouts[rank])
    return buffer


def pending_buffer(buffer: PJRT_Buffer, event: PJRT_Event) -> None:
    """Let `buffer` be ready when `event` is."""
    atomic_add(event.refs, 1)
    buffer.event = event


def delete_buffer(buffer: PJRT_Buffer) -> None:
    """Give the memory of `buffer` back, as soon as no run needs it."""
    if exchange(buffer.deleted, 1) == 0:
        drop_storage(buffer.storage)


def free_memory(address: Address) -> None:
    """Free memory for temporaries."""
    free(address)
