"""cp.async.bulk.tensor: copies of whole tiles from global to shared memory.

Elements of a tile outside the array are zero and count towards the bytes that arrive. TF32 is
rounded to nearest here; how a device rounds is not documented. Source: PTX ISA,
"cp.async.bulk.tensor".
"""

from __future__ import annotations

import re

import numpy as np

from hloc.ptx.faults import LaneFault, PtxFault
from hloc.ptx.frame import Frame
from hloc.ptx.instructions.memory_access import address_reader
from hloc.ptx.lanes import Lanes, numbers_of
from hloc.ptx.mbarriers import BulkCopy
from hloc.ptx.operation import Operation
from hloc.ptx.program import Address, Coordinates, Instruction
from hloc.ptx.rounding import tf32_of_f32
from hloc.ptx.tensor_maps import MAP_ALIGNMENT, MAP_BYTES, PIECE_BYTES, TensorMap
from hloc.ptx.threads import Threads
from hloc.ptx.value_types import TYPES, Array

_TILE_ALIGNMENT = 128
_SHAPE = re.compile(r"([1-5])d")
_KNOWN = {"tile", "L2::cache_hint", "mbarrier::complete_tx::bytes"}
_WORD = np.dtype(np.uint64)


def decode_tensor_copy(instruction: Instruction, frame: Frame) -> Operation:
    """cp.async.bulk.tensor: copies of tiles to shared memory that complete on an mbarrier."""
    shape, target_space, source_space, *rest = instruction.parts[4:]
    rank = _SHAPE.fullmatch(shape)
    spaces = (target_space.partition("::")[0], source_space)
    if rank is None or spaces != ("shared", "global") or not set(rest) <= _KNOWN:
        raise frame.fault(f"unknown opcode {instruction.opcode}")
    target, source, barrier, *_ = instruction.operands
    if not isinstance(source, Coordinates) or len(source.items) != int(rank[1]):
        raise frame.fault(f"a copy of {shape} tiles needs a tensor map and {rank[1]} coordinates")
    read_map = address_reader(Address(source.base, 0), frame)
    read_target, read_barrier = address_reader(target, frame), address_reader(barrier, frame)
    coordinates = [frame.source(item, TYPES["s32"]) for item in source.items]

    def run(threads: Threads, lanes: Lanes) -> None:
        maps, targets, barriers = (
            read(threads, lanes).tolist() for read in (read_map, read_target, read_barrier)
        )
        first = [threads.rows[row][lanes].tolist() for row in coordinates]
        for i, lane in enumerate(numbers_of(lanes).tolist()):
            threads.active = np.array([lane])
            tensor = _map_at(threads, lane, maps[i])
            if len(tensor.dims) != len(first):
                raise LaneFault(f"the tensor map has {len(tensor.dims)} dimensions", None)
            if targets[i] % _TILE_ALIGNMENT:
                raise LaneFault(f"a tile must lie at a multiple of {_TILE_ALIGNMENT} bytes", None)
            values = _tile(threads, lane, tensor, tuple(row[i] for row in first))
            places = tensor.targets(targets[i])
            copy = BulkCopy(instruction, lane, places, values, barriers[i])
            threads.mbarriers.begin(threads, copy)
        threads.active = lanes

    return run


def _map_at(threads: Threads, lane: int, address: int) -> TensorMap:
    """Return the tensor map at a generic address."""
    if address % MAP_ALIGNMENT:
        raise LaneFault(f"a tensor map must lie at a multiple of {MAP_ALIGNMENT} bytes", None)
    words = np.arange(address, address + MAP_BYTES, _WORD.itemsize).astype(np.uint64)
    threads.active = who = np.full(len(words), lane)
    data = threads.spaces["generic"].load(who, words, _WORD, 1)
    try:
        return TensorMap.decoded(data.tobytes())
    except PtxFault as fault:
        raise LaneFault(fault.what, None) from None


def _tile(threads: Threads, lane: int, tensor: TensorMap, first: tuple[int, ...]) -> Array:
    """Return a tile in pieces of 16 bytes, [pieces, 2]; zeros outside the array."""
    address, exists = tensor.elements(first)
    values = np.zeros(len(address), f"u{tensor.element_bytes}")
    per_piece = PIECE_BYTES // tensor.element_bytes
    pieces = address.reshape(-1, per_piece)
    whole = exists.reshape(-1, per_piece).all(axis=1) & (pieces[:, 0] % PIECE_BYTES == 0)
    found = values.reshape(-1, per_piece).view(_WORD)
    found[whole] = _load(threads, lane, pieces[whole, 0], _WORD, 2)
    single = exists & ~np.repeat(whole, per_piece)
    values[single] = _load(threads, lane, address[single], values.dtype, 1)
    if tensor.to_tf32:
        values[:] = tf32_of_f32(values.view(np.float32), "rna").view(np.uint32)
    return found


def _load(
    threads: Threads, lane: int, addresses: Array, dtype: np.dtype[np.generic], columns: int
) -> Array:
    if not len(addresses):
        return np.zeros((0, columns) if columns > 1 else 0, dtype)
    threads.active = who = np.full(len(addresses), lane)
    places = addresses.astype(np.uint64)
    threads.count_access("global", who, places, dtype.itemsize * columns)
    return threads.spaces["global"].load(who, places, dtype, columns)
