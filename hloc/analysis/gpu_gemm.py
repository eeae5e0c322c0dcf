"""A performance model of matrix products on GPUs whose operands may be computed as they are read.

A block computes one tile of the result, so each element of a side is read once per tile of the
other side. If producers compute that side, they run as often, and a thread computes what it stores
to shared memory; asynchronous copies, and warpgroups, need sides in memory. Figures are relative,
as those of `gpu_performance`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from hloc.analysis.gpu_devices import (
    DeviceSpec,
    capability_of,
    has_tensor_cores,
    has_warpgroups,
    spec_of_chip,
)
from hloc.analysis.gpu_performance import (
    BYTES_IN_FLIGHT,
    LAUNCH_SECONDS,
    ArrayRead,
    Pattern,
    Threads,
    overlapped,
)
from hloc.dtypes import DType
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass

_SHARE = 0.7
"""Fraction of the peak that the inner loop of the best tile reaches."""

_STAGED_SHARE = 0.7
"""Speed of tensor cores if a side passes through registers, relative to asynchronous copies: the
next tile is read only one step ahead."""

_STAGED_OPERATIONS = 3
"""Instructions per element of a side that passes through registers: address, conversion, store."""

_WARPGROUP_SPEED, _FIRST_OF_WARPGROUPS = 1.6, 90
"""Speed of warpgroup instructions relative to those of single warps, from this compute capability
on; the peak of a data sheet is that of the faster ones."""

_NEAR_BYTES = 1 << 15
"""Size of arrays that each processor keeps in its own cache: reading them again is an instruction
per element."""

_FEWEST_FOR_TENSOR_CORES = 16
_FEWEST_FOR_WARPGROUPS = 128
_F8 = {"f8e4m3fn", "f8e5m2"}
_FEWEST_FOR_TILES = 8
_MOST_FEW_ROWS = 16
_SMALL_WORK = 1 << 12
_COLUMNS_PER_WARP = 4
_STEP_BYTES, _WARPGROUP_STEP_BYTES, _PLAIN_STEP = 64, 128, 8
_STAGES = 4
_FEWEST_STEPS, _MOST_PARTS = 8, 32
"""Rules of the kernels: `way_of` and `TilePlan` in codegen/gpu/emitters/gemm; depths of a step of
tensor cores in bytes, and of other kernels in elements."""


@dataclass(frozen=True, slots=True)
class GemmTile:
    """The tile of a block, and its speed relative to the best one of its kind."""

    rows: int
    columns: int
    threads: int
    speed: float


WARPGROUP_TILES = (GemmTile(128, 256, 384, 1.0), GemmTile(128, 128, 384, 0.84))
WARPGROUP_F8_TILES = (GemmTile(128, 192, 384, 0.84), GemmTile(128, 128, 384, 0.75))
"""Those of f8 whose sums are added in f32 step by step; speeds are relative to the others."""

TENSOR_CORE_TILES = (
    GemmTile(128, 128, 256, 1.0),
    GemmTile(128, 64, 128, 0.8),
    GemmTile(64, 128, 128, 0.8),
    GemmTile(64, 64, 128, 0.6),
    GemmTile(32, 64, 64, 0.35),
)
PLAIN_TILES = (
    GemmTile(128, 128, 256, 1.0),
    GemmTile(64, 64, 128, 0.75),
    GemmTile(32, 32, 64, 0.45),
)


@dataclass(frozen=True, slots=True)
class GemmSide:
    """One side of a gemm.

    Attributes:
        dtype: of the factors that are multiplied.
        elements: of the operand.
        reads: of arrays in memory, if each element is read once.
        operations: of producers, if each element is computed once.
        is_computed: producers compute it; otherwise it is an array in memory.
    """

    dtype: DType
    elements: float
    reads: tuple[ArrayRead, ...]
    operations: float = 0.0
    is_computed: bool = False

    @property
    def bytes_per_element(self) -> float:
        """Bytes that are read for an element, without those that all threads share."""
        some = (r for r in self.reads if r.pattern is not Pattern.UNIFORM)
        return sum(read.asked * read.element_bytes for read in some) / max(self.elements, 1)


@dataclass(frozen=True, slots=True)
class GemmWork:
    """The work of the kernel of a gemm.

    Attributes:
        batch, rows, columns, depth: sizes of the four index spaces.
        sums: type of the accumulators.
        algorithm: of a dot, "" otherwise.
        written: bytes of results.
        reads, operations: of the epilogue.
    """

    batch: int
    rows: int
    columns: int
    depth: int
    left: GemmSide
    right: GemmSide
    sums: DType
    algorithm: str
    written: float
    reads: tuple[ArrayRead, ...] = ()
    operations: float = 0.0

    @property
    def flops(self) -> float:
        """Multiplications and additions."""
        return 2.0 * self.batch * self.rows * self.columns * self.depth

    @property
    def sides(self) -> tuple[GemmSide, GemmSide]:
        return self.left, self.right


def gemm_sizes(product: Instruction) -> tuple[int, int, int, int]:
    """Return batch, rows, columns and depth of a dot or convolution."""
    a, (left, right) = product.attributes, (operand.array for operand in product.operands)
    if product.is_a("dot"):
        batch = prod(left.dims[d] for d in a.lhs_batch_dims)
        depth = prod(left.dims[d] for d in a.lhs_contracting_dims)
        each = max(batch * depth, 1)
        return batch, left.elements // each, right.elements // each, depth
    groups = a.feature_group_count * a.batch_group_count
    features = product.array.dims[a.dim_labels.output_feature]
    positions = product.array.elements // max(features, 1)
    return groups, positions, features // groups, right.elements // max(features, 1)


def widens_factor(inst: Instruction) -> bool:
    """True for a lossless conversion of a factor, which is left out since sums are wide anyway."""
    return inst.is_a("convert") and _widens(inst.operands[0].array.dtype, inst.array.dtype)


def _widens(source: DType, target: DType) -> bool:
    """True if every number of `source` is representable in `target`, a type of the same kind."""
    if source.is_float and target.is_float:
        return (
            source.exponent_bits <= target.exponent_bits
            and source.mantissa_bits <= target.mantissa_bits
            and target.bits >= 32
        )
    same = (source.is_signed, source.is_unsigned) == (target.is_signed, target.is_unsigned)
    return source.is_integer and target.is_integer and same and source.bits <= target.bits


def gemm_seconds(work: GemmWork, chip: str) -> float:
    """Return the time of the fastest kernel for `work`, launch included."""
    return min(_kernels(work, chip, spec_of_chip(chip))) + LAUNCH_SECONDS


def _kernels(work: GemmWork, chip: str, device: DeviceSpec) -> Iterator[float]:
    """Yield the times of the kernels that may compute `work`."""
    fewest = min(work.rows, work.columns)
    rate = _tensor_core_rate(work, device) if has_tensor_cores(chip) else None
    if fewest < _FEWEST_FOR_TENSOR_CORES or work.depth < _FEWEST_FOR_TENSOR_CORES:
        rate = None
    if work.flops <= 2 * _SMALL_WORK:
        yield _seconds_by_element(work, device)
    elif rate is None and fewest <= _MOST_FEW_ROWS:
        yield _seconds_of_few_rows(work, device)
    elif fewest < _FEWEST_FOR_TILES:
        yield _seconds_by_element(work, device)
    elif rate is None:
        peak = device.f64_flops if work.sums.bits == 64 else device.f32_flops
        for tile in PLAIN_TILES:
            yield _seconds_of_tiles(work, tile, _Pace(peak, _PLAIN_STEP, 1), device)
    else:
        depth = max(_STEP_BYTES // work.left.dtype.storage_bytes, 1)
        single = rate / _WARPGROUP_SPEED if capability_of(chip) >= _FIRST_OF_WARPGROUPS else rate
        pace = _Pace(single, depth, _STAGES - 1)
        if any(side.is_computed for side in work.sides):
            work, pace = _staged(work), _Pace(single * _STAGED_SHARE, depth, _STAGES - 1)
        elif has_warpgroups(chip):
            yield from _seconds_of_warpgroups(work, device)
        for tile in TENSOR_CORE_TILES:
            yield _seconds_of_tiles(work, tile, pace, device)


@dataclass(frozen=True, slots=True)
class _Pace:
    """How a tiled kernel proceeds.

    Attributes:
        rate: peak operations per second.
        depth: of a step.
        ahead: steps that are read ahead, if they are copied asynchronously.
    """

    rate: float
    depth: int
    ahead: int


def _staged(work: GemmWork) -> GemmWork:
    """Return the work with the instructions that replace asynchronous copies."""
    left, right = (
        replace(side, operations=side.operations + _STAGED_OPERATIONS * side.elements)
        if side.is_computed
        else side
        for side in work.sides
    )
    return replace(work, left=left, right=right)


def _tensor_core_rate(work: GemmWork, device: DeviceSpec) -> float | None:
    """Return the peak operations per second of tensor cores, None for other types."""
    types = {side.dtype.name for side in work.sides}
    if work.sums.name == "s32" and (types <= {"s8", "s4"} or types <= {"u8", "u4"}):
        return 2 * device.half_flops
    if work.sums.name != "f32":
        return None
    if len(types) == 1 and types <= {"bf16", "f16"}:
        return device.half_flops
    if all(side.dtype.is_float and side.dtype.bits <= 8 for side in work.sides):
        return device.half_flops
    shares = {"dot_tf32_tf32_f32": 0.5, "dot_bf16_bf16_f32": 1.0}
    share = shares.get(work.algorithm) if types == {"f32"} else None
    return None if share is None else share * device.half_flops


def _seconds_of_warpgroups(work: GemmWork, device: DeviceSpec) -> Iterator[float]:
    """Yield the times of the tiles of warpgroups, which read both sides from memory."""
    dtype = work.left.dtype
    depth = _WARPGROUP_STEP_BYTES // max(dtype.storage_bytes, 1)
    if min(work.rows, work.columns) < _FEWEST_FOR_WARPGROUPS or work.depth < depth:
        return
    pace = _Pace(device.peak_flops(dtype, work.algorithm), depth, _STAGES - 1)
    for tile in _warpgroup_tiles(work):
        yield _seconds_of_tiles(work, tile, pace, device)


def _warpgroup_tiles(work: GemmWork) -> tuple[GemmTile, ...]:
    """Return the tiles of warpgroups, none if they do not multiply these types."""
    types = {side.dtype.name for side in work.sides}
    if work.sums.name == "s32":
        return WARPGROUP_TILES if types in ({"s8"}, {"u8"}) else ()
    if work.sums.name != "f32":
        return ()
    if types <= _F8:
        is_fast = work.algorithm == "dot_any_f8_any_f8_f32_fast_accum"
        return WARPGROUP_TILES if is_fast else WARPGROUP_F8_TILES
    is_tf32 = types == {"f32"} and work.algorithm == "dot_tf32_tf32_f32"
    return WARPGROUP_TILES if is_tf32 or types in ({"bf16"}, {"f16"}) else ()


def _seconds_of_tiles(work: GemmWork, tile: GemmTile, pace: _Pace, device: DeviceSpec) -> float:
    """Return the time of a kernel whose blocks compute tiles."""
    down, across = -(-work.rows // tile.rows), -(-work.columns // tile.columns)
    blocks = work.batch * down * across
    steps = -(-work.depth // pace.depth)
    parts = max(1, min(_MOST_PARTS, device.processors // blocks, steps // _FEWEST_STEPS))
    waves = -(-blocks * parts // device.processors)
    each = 2.0 * tile.rows * tile.columns * (-(-steps // parts) + 4) * pace.depth
    compute = waves * each * device.processors / (pace.rate * _SHARE * tile.speed)
    threads = Threads(blocks * parts * tile.threads)
    ahead = sum(
        lines * side.bytes_per_element * (1 if side.is_computed else pace.ahead)
        for side, lines in zip(work.sides, (tile.rows, tile.columns), strict=True)
    )
    in_flight = ahead * pace.depth / tile.threads or BYTES_IN_FLIGHT  # those of the result
    seconds = _seconds(work, (across, down), compute, threads, device, in_flight)
    return seconds + (LAUNCH_SECONDS if parts > 1 else 0.0)


def _seconds_of_few_rows(work: GemmWork, device: DeviceSpec) -> float:
    """Return the time of a kernel whose warps compute a few columns each."""
    flips = work.rows > work.columns
    repeats = max(max(work.rows, work.columns) / _COLUMNS_PER_WARP, 1.0)
    matrix = work.left if flips else work.right
    threads = Threads(max(matrix.elements / _COLUMNS_PER_WARP, 1.0))
    times = (1.0, repeats) if flips else (repeats, 1.0)
    return _seconds_of_threads(work, times, threads, device)


def _seconds_by_element(work: GemmWork, device: DeviceSpec) -> float:
    """Return the time of a kernel that computes one element of the result per thread."""
    threads = Threads(max(work.batch * work.rows * work.columns, 1))
    return _seconds_of_threads(work, (work.columns, work.rows), threads, device)


def _seconds_of_threads(
    work: GemmWork, repeats: tuple[float, float], threads: Threads, device: DeviceSpec
) -> float:
    """Return the time of a kernel without tiles, whose threads multiply on their own."""
    compute = work.flops / 2 / threads.operations_per_second(device)
    return _seconds(work, repeats, compute, threads, device)


def _seconds(
    work: GemmWork,
    repeats: tuple[float, float],
    compute: float,
    threads: Threads,
    device: DeviceSpec,
    in_flight: float = BYTES_IN_FLIGHT,
) -> float:
    """Return the time of a kernel.

    Args:
        work: of the kernel.
        repeats: how often it reads each row of the left side, and each column of the right one.
        compute: seconds of the multiplications.
        threads: of the kernel.
        device: peaks of the GPU.
        in_flight: bytes that a thread reads ahead.
    """
    bandwidth = threads.bandwidth(device, in_flight)
    memory = work.written / bandwidth
    operations = work.operations
    for side, lines, times in zip(work.sides, (work.rows, work.columns), repeats, strict=True):
        share = work.batch * lines * work.depth * times / max(side.elements, 1)
        operations += side.operations * share
        for read in side.reads:
            asked = read.asked * share
            size = min(read.size_bytes, read.asked * read.element_bytes)
            if side.is_computed and size <= _NEAR_BYTES:
                operations, asked = operations + asked, min(read.asked, asked)
            memory += replace(read, size_bytes=size, asked=asked).seconds(device, bandwidth)
    memory += sum(read.seconds(device, bandwidth) for read in work.reads)
    return overlapped(compute + operations / threads.operations_per_second(device), memory)
