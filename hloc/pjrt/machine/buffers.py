"""`PJRT_Buffer_*`: what a buffer is, and copies of it."""

from __future__ import annotations

from hloc.codegen.llvm.python_subset_stubs import (
    at,
    atomic_add,
    free,
    function,
    memcpy,
    python_fallback,
    state,
    text,
)
from hloc.pjrt.machine.events import drop_event, error_of, fail, invalid, wait
from hloc.pjrt.machine.memory import allocate, delete_buffer, drop_storage, new_buffer
from hloc.pjrt.machine.stubs import (
    Args,
    Buffer_MemoryLayout_Type_,
    Error_Code_,
    PJRT_Buffer,
    PJRT_Device,
    PJRT_Error,
    PJRT_Memory,
)


def PJRT_Buffer_Destroy(args: Args) -> PJRT_Error:
    buffer = args.buffer
    delete_buffer(buffer)
    drop_event(buffer.event)
    free(buffer)
    return None


def PJRT_Buffer_Delete(args: Args) -> PJRT_Error:
    delete_buffer(args.buffer)
    return None


def PJRT_Buffer_ReadyEvent(args: Args) -> PJRT_Error:
    event = args.buffer.event
    if event is None:
        args.event = state.ready
        return None
    atomic_add(event.refs, 1)
    args.event = event
    return None


def PJRT_Buffer_UnsafePointer(args: Args) -> PJRT_Error:
    error = wait_for(args.buffer)
    args.buffer_pointer = args.buffer.data
    return error


def PJRT_Buffer_OpaqueDeviceMemoryDataPointer(args: Args) -> PJRT_Error:
    if args.buffer.deleted:
        return deleted_error()
    args.device_memory_ptr = args.buffer.data
    return None


def PJRT_Buffer_IncreaseExternalReferenceCount(args: Args) -> PJRT_Error:
    buffer = args.buffer
    if buffer.deleted:
        return deleted_error()
    atomic_add(buffer.storage.refs, 1)
    atomic_add(buffer.holds, 1)
    return None


def PJRT_Buffer_DecreaseExternalReferenceCount(args: Args) -> PJRT_Error:
    buffer = args.buffer
    if atomic_add(buffer.holds, -1) < 1:
        atomic_add(buffer.holds, 1)
        return invalid(
            *text("Attempting to decrease reference on a buffer with zero reference count.")
        )
    drop_storage(buffer.storage)
    return None


def deleted_error() -> PJRT_Error:
    """Return the error for a buffer that has no memory any more."""
    return invalid(*text("Buffer has been deleted or donated."))


def wait_for(buffer: PJRT_Buffer) -> PJRT_Error:
    """Wait for `buffer`; return the error of the run that should have made it, or null."""
    if buffer.deleted:
        return deleted_error()
    if buffer.event is None:
        return None
    wait(buffer.event)
    return error_of(buffer.event)


# ---------------------------------------------------------------- copies


def PJRT_Buffer_ToHostBuffer(args: Args) -> PJRT_Error:
    buffer = args.src
    if args.dst is None:
        args.dst_size = buffer.bytes
        return None
    layout = args.host_layout
    if layout is not None and buffer.rank > 1:
        if layout.type != Buffer_MemoryLayout_Type_.Tiled:
            return python_fallback(args)
        for i in range(buffer.rank):
            if layout.tiled.minor_to_major[i] != buffer.layout.minor_to_major[i]:
                return python_fallback(args)
    error = wait_for(buffer)
    if error is not None:
        return error
    if args.dst_size < buffer.bytes:
        return invalid(*text("The host buffer is too small for the array."))
    memcpy(args.dst, buffer.data, buffer.bytes)
    args.event = state.ready
    return None


def PJRT_Buffer_CopyRawToHost(args: Args) -> PJRT_Error:
    buffer = args.buffer
    error = wait_for(buffer)
    if error is not None:
        return error
    if args.offset < 0 or args.transfer_size < 0:
        return invalid(*text("Copies of a negative size or offset."))
    if args.offset + args.transfer_size > buffer.bytes:
        return invalid(*text("Copies raw buffer beyond its end."))
    memcpy(args.dst, buffer.data + args.offset, args.transfer_size)
    args.event = state.ready
    return None


def copied(buffer: PJRT_Buffer, device: PJRT_Device, memory: PJRT_Memory) -> PJRT_Buffer:
    """Return a copy of a ready buffer in another memory."""
    storage = allocate(buffer.bytes)
    if storage is None:
        return None
    memcpy(storage.data, buffer.data, buffer.bytes)
    copy = new_buffer(storage, buffer.type, buffer.rank, buffer.dims, device, memory)
    copy.layout = buffer.layout
    return copy


def PJRT_Buffer_CopyToDevice(args: Args) -> PJRT_Error:
    error = wait_for(args.buffer)
    if error is not None:
        return error
    device = args.dst_device
    args.dst_buffer = copied(args.buffer, device, device.memories[0])
    if args.dst_buffer is None:
        return out_of_memory()
    return None


def PJRT_Buffer_CopyToMemory(args: Args) -> PJRT_Error:
    error = wait_for(args.buffer)
    if error is not None:
        return error
    memory = args.dst_memory
    args.dst_buffer = copied(args.buffer, memory.device, memory)
    if args.dst_buffer is None:
        return out_of_memory()
    return None


def out_of_memory() -> PJRT_Error:
    """Return the error for memory that the system refuses."""
    return fail(Error_Code_.RESOURCE_EXHAUSTED, *text("Out of memory."))


# ---------------------------------------------------------------- layouts


def PJRT_Buffer_GetMemoryLayout(args: Args) -> PJRT_Error:
    args.layout.type = Buffer_MemoryLayout_Type_.Tiled
    args.layout.tiled.minor_to_major = args.buffer.layout.minor_to_major
    args.layout.tiled.minor_to_major_size = args.buffer.rank
    args.layout.tiled.num_tiles = 0
    return None


def PJRT_Layouts_PJRT_Client_GetDefaultLayout(args: Args) -> PJRT_Error:
    args.layout = at(state.layouts[args.num_dims])
    return None


def PJRT_Layouts_PJRT_Topology_GetDefaultLayout(args: Args) -> PJRT_Error:
    args.layout = at(state.layouts[args.num_dims])
    return None


def PJRT_Layouts_MemoryLayout_Serialize(args: Args) -> PJRT_Error:
    args.serialized_bytes = args.layout.text
    args.serialized_bytes_size = args.layout.text_size
    args.serialized_layout = args.layout
    args.serialized_layout_deleter = function(nothing)
    return None


def nothing(object: PJRT_Buffer) -> None:
    """Do nothing, for objects that live as long as the process."""
