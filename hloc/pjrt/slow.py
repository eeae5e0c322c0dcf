"""The Python fallbacks of machine code, for rare or complicated cases."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from hloc.dtypes import Array
from hloc.pjrt.abi import enum, structure
from hloc.pjrt.callbacks import functions_of
from hloc.pjrt.element_types import TOKEN, dtypes
from hloc.pjrt.layouts import Order, layout_address, order_at, row_major
from hloc.pjrt.machine.load import machine
from hloc.pjrt.native import PjrtError, state, words, words_at
from hloc.pjrt.partitioned import Shards, cut, gathered
from hloc.pjrt.programs import Program, program_at


def array_of(address: int) -> Array:
    """Return the memory of a ready buffer as an array in logical order."""
    buffer = structure("PJRT_Buffer").from_address(address)
    dims = words_at(buffer.dims, buffer.rank)
    kind = dtypes()[buffer.type].numpy
    if not buffer.bytes:
        return np.empty(dims, kind)
    memory = (ctypes.c_uint8 * buffer.bytes).from_address(buffer.data)
    order = order_at(buffer.layout)[::-1]
    physical = np.frombuffer(memory, np.uint8).view(kind).reshape([dims[i] for i in order])
    return physical.transpose(np.argsort(order)) if order else physical


def new_buffer(
    array: Array | None, type_: int, device: int, memory: int, minor_to_major: Order | None = None
) -> int:
    """Return a new buffer with a copy of an array, in row-major order unless another is given.

    The array is None for a token.
    """
    size = 0 if array is None else array.nbytes
    dims = () if array is None else array.shape
    storage_address = machine().function("allocate", 1)(size)
    if not storage_address:
        raise PjrtError("RESOURCE_EXHAUSTED", "Out of memory.")
    if array is not None and size:
        storage = structure("Storage").from_address(storage_address)
        order = minor_to_major or row_major(len(dims))
        physical = np.ascontiguousarray(array.transpose(order[::-1]))
        ctypes.memmove(storage.data, physical.ctypes.data, size)
    sizes = words(dims)
    make = machine().function("new_buffer", 6)
    result: int = make(storage_address, type_, len(dims), ctypes.addressof(sizes), device, memory)
    if minor_to_major is not None:
        structure("PJRT_Buffer").from_address(result).layout = layout_address(minor_to_major)
    return result


def wait_for(address: int) -> int:
    """Wait for a buffer; return the error of the run that should have computed it, or 0."""
    error: int = machine().function("wait_for", 1)(address)
    return error


def memory_of(device: int, kind: int = 0) -> int:
    """Return the address of a device's memory of a kind."""
    found = structure("PJRT_Device").from_address(device)
    return words_at(found.memories, found.num_memories)[kind]


# ---------------------------------------------------------------- runs


def PJRT_LoadedExecutable_Execute(args: Any) -> int:
    """Run a program on several devices, or one that calls Python; results are ready on return."""
    program = program_at(args.executable)
    if program.shards is not None:
        return run_on_devices(program, program.shards, args)
    device = args.execute_device or program.request.devices[0]
    row = words_at(args.argument_lists, 1)[0] if args.num_args else 0
    inputs = words_at(row, args.num_args)
    for address in inputs:
        if error := wait_for(address):
            return error
    with functions_of(args.options):
        results = run_here(program, inputs)
    outputs = words_at(args.output_lists, 1)[0]
    for i, (leaf, result) in enumerate(zip(program.boundary.results, results, strict=True)):
        memory = memory_of(device, program.outputs[i].memory)
        order = order_at(program.outputs[i].layout)
        ctypes.c_int64.from_address(outputs + 8 * i).value = new_buffer(
            result, leaf.type, device, memory, order
        )
    for number in program.donated(args):
        machine().function("delete_buffer", 1)(inputs[number])
    if args.device_complete_events:
        ctypes.c_int64.from_address(args.device_complete_events).value = ready_event()
    return 0


def run_on_devices(program: Program, shards: Shards, args: Any) -> int:
    """Run a program of several devices: once, on the gathered arguments, or on every device."""
    boundary, devices = program.boundary, program.request.devices
    if args.num_devices != len(devices):
        raise PjrtError(
            "UNIMPLEMENTED", f"hloc runs this program on all its {len(devices)} devices at once"
        )
    lists = handles(args.argument_lists, len(devices), args.num_args)
    for address in (address for row in lists for address in row):
        if error := wait_for(address):
            return error
    given = [
        [array_of(row[i]) for row in lists] if leaf.type != TOKEN else []
        for i, leaf in enumerate(boundary.parameters)
    ]
    with functions_of(args.options):
        if shards.is_partitioned:
            results = _run_on_all(program, [parts for parts in given if parts])
        else:
            results = _run_whole(program, shards, given)
    outputs = words_at(args.output_lists, len(devices))
    for number, device in enumerate(devices):
        for i, (leaf, result) in enumerate(zip(boundary.results, results[number], strict=True)):
            memory = memory_of(device, program.outputs[i].memory)
            buffer = new_buffer(result, leaf.type, device, memory)
            ctypes.c_int64.from_address(outputs[number] + 8 * i).value = buffer
        for alias in program.donated(args):
            machine().function("delete_buffer", 1)(lists[number][alias])
        if args.device_complete_events:
            event = ctypes.c_int64.from_address(args.device_complete_events + 8 * number)
            event.value = ready_event()
    return 0


def _run_whole(
    program: Program, shards: Shards, given: list[list[Array]]
) -> list[list[Array | None]]:
    """Run once; return the results of each device, None for tokens."""
    boundary = program.boundary
    arrays = [
        gathered(leaf, places, parts)
        for leaf, places, parts in zip(boundary.parameters, shards.parameters, given, strict=True)
        if leaf.type != TOKEN
    ]
    found = iter(program.run(*arrays))
    results = [None if leaf.type == TOKEN else next(found) for leaf in boundary.results]
    count = len(program.request.devices)
    return [list(cut(results, shards, number)) for number in range(count)]


def _run_on_all(program: Program, given: list[list[Array]]) -> list[list[Array | None]]:
    """Run on all devices concurrently; return the results of each, None for tokens."""
    results = program.run.run_devices(given)
    per_device = []
    for number in range(len(program.request.devices)):
        own = iter(results)
        leaves = program.boundary.results
        per_device.append([None if leaf.type == TOKEN else next(own)[number] for leaf in leaves])
    return per_device


def handles(address: int, devices: int, count: int) -> list[list[int]]:
    """Return the handles of `count` buffers per device."""
    return [words_at(row, count) for row in words_at(address, devices)]


def run_here(program: Program, inputs: list[int]) -> list[Array | None]:
    """Run a program in this thread; return an array per result, None for tokens."""
    arrays = [
        array_of(address)
        for address, leaf in zip(inputs, program.boundary.parameters, strict=True)
        if leaf.type != TOKEN
    ]
    found = iter(program.run(*arrays))
    return [None if leaf.type == TOKEN else next(found) for leaf in program.boundary.results]


def ready_event() -> int:
    """Return the address of an event that is always complete."""
    offset: int = type(state()).ready.offset
    return ctypes.addressof(state()) + offset


# ---------------------------------------------------------------- arrays in other layouts


def PJRT_Buffer_ToHostBuffer(args: Any) -> int:
    if error := wait_for(args.src):
        return error
    array = array_of(args.src)
    layout = structure("PJRT_Buffer_MemoryLayout").from_address(args.host_layout)
    if layout.type != enum("PJRT_Buffer_MemoryLayout_Type")["Tiled"]:
        raise PjrtError("UNIMPLEMENTED", "hloc does not support copies to layouts with strides")
    order = words_at(layout.tiled.minor_to_major, layout.tiled.minor_to_major_size)
    physical = np.ascontiguousarray(array.transpose(order[::-1]))
    ctypes.memmove(args.dst, physical.ctypes.data, physical.nbytes)
    args.event = ready_event()
    return 0


def PJRT_Client_BufferFromHostBuffer(args: Any) -> None:
    """Copy an array with any strides, negative ones included, to a layout of any order."""
    order = None
    if args.device_layout:
        layout = structure("PJRT_Buffer_MemoryLayout").from_address(args.device_layout)
        if layout.type != enum("PJRT_Buffer_MemoryLayout_Type")["Tiled"] or layout.tiled.num_tiles:
            raise PjrtError("UNIMPLEMENTED", "hloc does not support layouts with tiles or strides")
        order = tuple(words_at(layout.tiled.minor_to_major, args.num_dims))
    dims = tuple(words_at(args.dims, args.num_dims))
    kind = dtypes()[args.type].numpy
    strides = tuple(words_at(args.byte_strides, args.num_byte_strides))
    strides = strides or np.empty(dims, kind).strides
    reaches = [stride * (dim - 1) for stride, dim in zip(strides, dims, strict=True)]
    low, high = sum(min(0, r) for r in reaches), sum(max(0, r) for r in reaches) + kind.itemsize
    raw = (ctypes.c_uint8 * (high - low)).from_address(args.data + low)
    array: Array = np.ndarray(dims, kind, memoryview(raw), -low, strides)
    memory = args.memory or memory_of(args.device)
    device = structure("PJRT_Memory").from_address(memory).device
    args.buffer = new_buffer(array, args.type, device, memory, order)
    args.done_with_host_buffer = ready_event()
