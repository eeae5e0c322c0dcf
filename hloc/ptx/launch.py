"""Launch a kernel on a `Memory`: arguments, module variables, and blocks a chunk at a time."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hloc.ptx.block_space import BlockSpace
from hloc.ptx.clocks import WarpClocks
from hloc.ptx.code import Code
from hloc.ptx.compilation import code_of
from hloc.ptx.copies import AsyncCopies
from hloc.ptx.faults import PtxFault, Triple
from hloc.ptx.global_races import GlobalRaces
from hloc.ptx.lanes import WARP, Geometry
from hloc.ptx.machine import Machine
from hloc.ptx.mbarriers import Mbarriers
from hloc.ptx.memory import Memory
from hloc.ptx.metrics import LaunchReport, Metrics
from hloc.ptx.products import Products
from hloc.ptx.program import Parameter, PtxKernel, PtxModule, Variable
from hloc.ptx.proxy_writes import ProxyWrites
from hloc.ptx.registers import make_rows
from hloc.ptx.shared_races import SharedRaces
from hloc.ptx.spaces import (
    WINDOWS,
    ConstantSpace,
    GlobalSpace,
    Space,
    Spaces,
)
from hloc.ptx.stepping import Watch
from hloc.ptx.text.declarations import shared_layout
from hloc.ptx.threads import Threads
from hloc.ptx.value_types import TYPES

Argument = int | float | bytes | np.generic
_MAXIMUM_THREADS = 1024
_LANES_AT_ONCE = 1 << 14  # rows of this length stay in cache; longer ones gain nothing
_REGISTER_BYTES = 1 << 28


def launch(
    module: PtxModule,
    kernel_name: str,
    *,
    grid: Triple,
    block: Triple,
    arguments: Sequence[Argument],
    memory: Memory,
    shared_bytes: int = 0,
    check: bool = True,
    step_limit: int | None = None,
    metrics: bool = False,
    watch: Watch | None = None,
) -> LaunchReport:
    """Run a kernel to its end.

    Args:
        module: from `parse_ptx`.
        kernel_name: one of `module.kernels`.
        grid: blocks in x, y, z.
        block: threads of a block in x, y, z.
        arguments: one per parameter: an integer or a float, packed by the parameter's type, or
            bytes of exactly its size. Pointers are addresses in `memory`.
        memory: global memory; keeps the module's variables between launches.
        shared_bytes: dynamic shared memory of a block.
        check: detect races. Bounds and uninitialised reads are always checked.
        step_limit: fault after this many executed instructions of groups of threads.
        metrics: count accesses and opcodes.
        watch: records the execution of one block, which `metrics` then does not count.

    Raises:
        PtxFault: the launch does not fit the kernel, or the kernel has a fault.
    """
    code = code_of(module, kernel_name)
    _check_geometry(code.kernel, grid, block)
    packed = _pack(code, arguments)
    memory.begin_launch()
    addresses = _module_addresses(module, memory)
    counted = Metrics(code) if metrics else None
    stride = block[0] * block[1] * block[2]
    if code.has_collectives:
        stride = -(-stride // WARP) * WARP
    total = grid[0] * grid[1] * grid[2]
    per_chunk = _blocks_at_once(code, stride)
    steps = thread_instructions = 0
    with np.errstate(all="ignore"):
        for first, count in _chunks(total, per_chunk, watch):
            geometry = Geometry(grid, block, first, count, stride)
            threads, clocks = _threads(
                module, code, geometry, memory, addresses, packed, shared_bytes, check
            )
            threads.metrics = counted
            if watch is not None and first == watch.block:
                machine = watch.machine(module, code, threads, clocks, step_limit)
            else:
                machine = Machine(code, threads, clocks, step_limit)
            machine.run()
            steps += machine.steps
            thread_instructions += machine.thread_instructions
            if step_limit is not None:
                step_limit -= machine.steps
    return LaunchReport.of(steps, thread_instructions, counted)


def _check_geometry(kernel: PtxKernel, grid: Triple, block: Triple) -> None:
    threads = block[0] * block[1] * block[2]
    required = kernel.required_threads
    if min(*grid, *block) < 1 or threads > _MAXIMUM_THREADS:
        raise PtxFault(f"invalid launch: grid {grid}, block {block}", kernel=kernel.name)
    if required is not None and required != tuple(block):
        raise PtxFault(
            f"launch with a block of {block}, but .reqntid says {required}", kernel=kernel.name
        )
    if kernel.maximum_threads is not None and threads > kernel.maximum_threads:
        raise PtxFault(
            f"launch with {threads} threads a block, but .maxntid allows {kernel.maximum_threads}",
            kernel=kernel.name,
        )


def _pack(code: Code, arguments: Sequence[Argument]) -> bytes:
    parameters = code.kernel.parameters
    if len(arguments) != len(parameters):
        raise PtxFault(
            f"{len(arguments)} arguments for {len(parameters)} parameters", kernel=code.kernel.name
        )
    packed = bytearray(code.parameter_bytes)
    for parameter, argument in zip(parameters, arguments, strict=True):
        offset = code.parameters[parameter.name]
        packed[offset : offset + parameter.size] = _packed(code.kernel, parameter, argument)
    return bytes(packed)


def _packed(kernel: PtxKernel, parameter: Parameter, argument: Argument) -> bytes:
    if isinstance(argument, np.generic):
        argument = argument.tobytes()
    if isinstance(argument, bytes):
        if len(argument) != parameter.size:
            raise PtxFault(
                f"argument of {len(argument)} bytes for {parameter.name}, which has "
                f"{parameter.size}",
                kernel=kernel.name,
            )
        return argument
    if isinstance(argument, float):
        size = parameter.size
        return struct.pack({2: "<e", 4: "<f", 8: "<d"}[size], argument)
    if TYPES[parameter.type_name].is_float:
        return struct.pack({2: "<e", 4: "<f", 8: "<d"}[parameter.size], float(argument))
    return (argument & (1 << 8 * parameter.size) - 1).to_bytes(parameter.size, "little")


def _module_addresses(module: PtxModule, memory: Memory) -> Mapping[str, int]:
    """Return the addresses of the module's global and constant variables, created on first use."""
    found = memory.variables.get(module)
    if found is not None:
        return found
    variables = [v for v in module.variables.values() if v.space in ("global", "const")]
    found = {v.name: memory.allocate(v.size or 0) for v in variables}
    for variable in variables:
        memory.write(found[variable.name], _initial(variable, found))
    memory.variables[module] = found
    return found


def _initial(variable: Variable, addresses: Mapping[str, int]) -> bytes:
    data = bytearray(variable.initial.ljust(variable.size or 0, b"\0"))
    for offset, name, addend in variable.pointers:
        data[offset : offset + 8] = (addresses[name] + addend).to_bytes(8, "little")
    return bytes(data)


def _blocks_at_once(code: Code, stride: int) -> int:
    per_lane = sum(code.table.storages.values()) + code.local_bytes + 1
    lanes = min(_LANES_AT_ONCE, _REGISTER_BYTES // per_lane)
    return max(1, lanes // stride)


def _chunks(total: int, at_once: int, watch: Watch | None) -> Iterable[tuple[int, int]]:
    """Return first block and number of blocks of each part that runs together."""
    if watch is not None:
        return watch.chunks(total, at_once)
    return [(first, min(at_once, total - first)) for first in range(0, total, at_once)]


def _threads(
    module: PtxModule,
    code: Code,
    geometry: Geometry,
    memory: Memory,
    module_addresses: Mapping[str, int],
    packed: bytes,
    dynamic_shared_bytes: int,
    check: bool,
) -> tuple[Threads, WarpClocks | None]:
    """Return the threads of some blocks with their memory, and clocks if races are checked."""
    kernel = code.kernel
    own = {v.name for v in kernel.variables}
    shared = [v for v in (*module.variables.values(), *kernel.variables) if v.space == "shared"]
    offsets, static_bytes = shared_layout(shared)
    dynamic = [offsets[v.name] for v in shared if v.size is None]
    shared_size = max([static_bytes, *dynamic]) + dynamic_shared_bytes
    addresses = {
        **module_addresses,
        **{f"{kernel.name}:{n}" if n in own else n: o for n, o in offsets.items()},
        **code.local_offsets,
        **{f"param:{name}": offset for name, offset in code.parameters.items()},
    }
    lane = np.arange(geometry.lanes)
    shared_space = BlockSpace("shared", shared_size, geometry.blocks, lane // geometry.stride)
    local_space = BlockSpace("local", code.local_bytes, geometry.lanes, lane)
    clocks = WarpClocks(geometry) if check else None
    races = None
    if clocks is not None:
        if geometry.warps_per_block * int(np.prod(geometry.grid)) > 1:
            races = GlobalRaces(memory, geometry, clocks, code.granules["global"])
        if geometry.warps_per_block > 1 and shared_size:
            granule = code.granules["shared"]
            shared_space.races = SharedRaces(clocks, shared_space.extent_bytes, granule)
        if code.is_asynchronous and shared_size:
            sizes = shared_space.extent_bytes, shared_space.piece_bytes
            shared_space.proxy = ProxyWrites(clocks, *sizes)
    spaces: dict[str, Space] = {
        "global": GlobalSpace(memory, races, check),
        "shared": shared_space,
        "local": local_space,
        "param": ConstantSpace(packed),
    }
    assert set(spaces) <= set(WINDOWS)
    rows = make_rows(code.table.numbers, code.table.storages, geometry, packed, addresses)
    threads = Threads(
        geometry,
        rows,
        Spaces(spaces, shared_space, races),
        AsyncCopies(geometry),
        Mbarriers(geometry, clocks),
        Products(),
    )
    return threads, clocks
