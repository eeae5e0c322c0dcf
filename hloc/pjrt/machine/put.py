"""Arrays of the host to buffers: without a copy where the caller allows it and it pays."""

from __future__ import annotations

from hloc.codegen.llvm.python_subset_stubs import atomic_add, memcpy, python_fallback, state, text
from hloc.pjrt.machine.buffers import out_of_memory
from hloc.pjrt.machine.events import fail, invalid, new_event
from hloc.pjrt.machine.memory import allocate, foreign, new_buffer
from hloc.pjrt.machine.stubs import (
    Args,
    Buffer_MemoryLayout_Type_,
    Error_Code_,
    HostBufferSemantics_,
    PJRT_Buffer_MemoryLayout,
    PJRT_Client_BufferFromHostBuffer_Args,
    PJRT_Error,
)


def PJRT_Client_BufferFromHostBuffer(args: Args) -> PJRT_Error:
    element_bytes = state.element_bytes[args.type]
    if element_bytes == 0:
        return fail(Error_Code_.UNIMPLEMENTED, *text("hloc has no arrays of this element type."))
    size_bytes = element_bytes
    for i in range(args.num_dims):
        size_bytes *= args.dims[i]
    if is_row_major(args.device_layout, args.num_dims) == 0:
        return python_fallback(args)
    if size_bytes > 0 and is_dense(args, element_bytes) == 0:
        return python_fallback(args)
    memory = args.memory
    if memory is None:
        memory = args.device.memories[0]
    args.done_with_host_buffer = state.ready
    if (
        args.host_buffer_semantics >= HostBufferSemantics_.kImmutableZeroCopy
        and size_bytes >= 4096
        and args.data % 64 == 0
    ):
        storage = foreign(args.data, size_bytes)
        storage.done = new_event()
        atomic_add(storage.done.refs, 1)
        args.done_with_host_buffer = storage.done
    else:
        storage = allocate(size_bytes)
        if storage is None:
            return out_of_memory()
        memcpy(storage.data, args.data, size_bytes)
    args.buffer = new_buffer(storage, args.type, args.num_dims, args.dims, memory.device, memory)
    return None


def is_row_major(layout: PJRT_Buffer_MemoryLayout, rank: int) -> int:
    """Return 1 if a layout, null for the default, is row-major."""
    if layout is None or rank < 2:
        return 1
    if layout.type != Buffer_MemoryLayout_Type_.Tiled or layout.tiled.num_tiles > 0:
        return 0
    for i in range(rank):
        if layout.tiled.minor_to_major[i] != rank - 1 - i:
            return 0
    return 1


def is_dense(args: PJRT_Client_BufferFromHostBuffer_Args, element_bytes: int) -> int:
    """Return 1 if the host's array is row-major without gaps."""
    if args.num_byte_strides == 0:
        return 1
    stride = element_bytes
    i = args.num_dims
    while i > 0:
        i -= 1
        if args.dims[i] != 1 and args.byte_strides[i] != stride:
            return 0
        stride *= args.dims[i]
    return 1


def PJRT_Client_CreateViewOfDeviceBuffer(args: Args) -> PJRT_Error:
    element_bytes = state.element_bytes[args.element_type]
    if element_bytes == 0:
        return fail(Error_Code_.UNIMPLEMENTED, *text("hloc has no arrays of this element type."))
    if is_row_major(args.layout, args.num_dims) == 0:
        return fail(Error_Code_.UNIMPLEMENTED, *text("hloc views row-major memory only."))
    if args.device_buffer_ptr % element_bytes != 0:
        return invalid(*text("The memory of the array is not aligned to the size of its elements."))
    size_bytes = element_bytes
    for i in range(args.num_dims):
        size_bytes *= args.dims[i]
    memory = args.memory
    if memory is None:
        memory = args.device.memories[0]
    storage = foreign(args.device_buffer_ptr, size_bytes)
    storage.release = args.on_delete_callback
    storage.release_arg = args.on_delete_callback_arg
    args.buffer = new_buffer(
        storage, args.element_type, args.num_dims, args.dims, memory.device, memory
    )
    return None


def PJRT_Client_CreateUninitializedBuffer(args: Args) -> PJRT_Error:
    element_bytes = state.element_bytes[args.shape_element_type]
    if element_bytes == 0:
        return fail(Error_Code_.UNIMPLEMENTED, *text("hloc has no arrays of this element type."))
    size_bytes = element_bytes
    for i in range(args.shape_num_dims):
        size_bytes *= args.shape_dims[i]
    memory = args.memory
    if memory is None:
        memory = args.device.memories[0]
    storage = allocate(size_bytes)
    if storage is None:
        return out_of_memory()
    args.buffer = new_buffer(
        storage,
        args.shape_element_type,
        args.shape_num_dims,
        args.shape_dims,
        memory.device,
        memory,
    )
    return None
