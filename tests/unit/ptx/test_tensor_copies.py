"""Copies of tiles: edges, swizzles, the bytes that arrive, and what goes wrong with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hloc.ptx import Memory, PtxFault, launch, parse_ptx
from hloc.ptx.tensor_maps import TensorMap
from tests.unit.ptx.ptx_running import Array, kernel_text

TILE_BYTES = 4096
VARIABLES = f".shared .align 1024 .b8 tile[{TILE_BYTES}]; .shared .align 8 .b8 bars[8];"
BEGIN = """
    mov.u32 %r0, %tid.x; ld.param.u64 %d0, [out]; mov.u64 %d2, tile; mov.u64 %d3, bars;
    setp.ne.u32 %p0, %r0, 0; @%p0 bra READY; mbarrier.init.shared.b64 [%d3], 1;
    fence.proxy.async.shared::cta;
READY: bar.sync 0; @%p0 bra W; mov.b64 %d5, map; cvta.param.u64 %d4, %d5;
    prefetch.param.tensormap [%d4]; mbarrier.arrive.expect_tx.shared.b64 %d6, [%d3], BYTES;
    COPY [%d2], [%d4, {COORDINATES}], [%d3];
"""
COPY = "cp.async.bulk.tensor.{0}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
WAIT = "W: mbarrier.try_wait.parity.shared.b64 %p1, [%d3], 0; @!%p1 bra W;"
STORE = """
    mov.u32 %r1, %r0;
NEXT: setp.ge.u32 %p2, %r1, COUNT; @%p2 ret; mad.wide.u32 %d7, %r1, 2, %d2;
    ld.shared.u16 %h0, [%d7]; mad.wide.u32 %d8, %r1, 2, %d0; st.global.u16 [%d8], %h0;
    add.u32 %r1, %r1, 64; bra NEXT;
"""


def program(box_bytes: int, first: tuple[int, ...]) -> str:
    """Return a kernel: thread 0 copies a tile, all threads write its elements to `out`."""
    text = BEGIN.replace("COPY", COPY.format(len(first)))
    text = text.replace("COORDINATES", ", ".join(map(str, first))).replace("BYTES", str(box_bytes))
    body = text + WAIT + STORE.replace("COUNT", str(box_bytes // 2))
    parameters = ".param .u64 out, .param .align 64 .b8 map[128]"
    return kernel_text(parameters, body, VARIABLES)


def run(array: Array, box: tuple[int, ...], text: str, swizzle: int = 0, **changes: Any) -> Array:
    """Return what the kernel finds of an array, padded to strides of 16 bytes, in a tile."""
    memory = Memory()
    padding = -array.shape[-1] % 8
    padded = np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, padding)])
    source = memory.allocate(padded.nbytes)
    memory.write(source, padded)
    strides = tuple(reversed(padded.strides[:-1]))
    tensor = TensorMap(source, 2, array.shape[::-1], strides, box, swizzle)
    tensor = replace(tensor, **changes)
    out = memory.allocate(tensor.box_bytes)
    launch(
        parse_ptx(text),
        "k",
        grid=(1, 1, 1),
        block=(64, 1, 1),
        arguments=[out, tensor.encoded()],
        memory=memory,
        step_limit=10**5,
    )
    return memory.read(out, tensor.box_bytes).view(np.uint16)


def tile_of(array: Array, box: tuple[int, ...], first: tuple[int, ...]) -> Array:
    """Return the tile that starts at `first`, in order, with zeros outside."""
    found = np.zeros(box[::-1], array.dtype)
    for place in np.ndindex(*found.shape):
        index = tuple(p + f for p, f in zip(place, first[::-1], strict=True))
        if all(0 <= i < size for i, size in zip(index, array.shape, strict=True)):
            found[place] = array[index]
    return found.reshape(-1)


def unswizzled(tile: Array, width: int) -> Array:
    """Return the bytes of a tile as they would lie without a swizzle, one by one."""
    raw, found = tile.view(np.uint8), np.empty(tile.nbytes, np.uint8)
    for byte in range(tile.nbytes):
        row = byte // 128
        found[byte] = raw[byte ^ (row % (width // 16)) * 16]
    return found.view(np.uint16)


NUMBERS = np.arange(1, 1 + 3 * 20 * 100, dtype=np.uint16).reshape(3, 20, 100)


@pytest.mark.parametrize(
    "first", [(0, 0), (8, 3), (64, 12), (-16, -5), (37, 4), (99, 19), (104, 0)]
)
def test_what_lies_outside_is_zero(first: tuple[int, int]) -> None:
    """A row of 100 elements ends in the middle of a piece of 16 bytes."""
    array, box = NUMBERS[0], (64, 16)
    got = run(array, box, program(64 * 16 * 2, first))
    np.testing.assert_array_equal(got, tile_of(array, box, first))


@pytest.mark.parametrize(("swizzle", "box"), [(32, (16, 16)), (64, (32, 16)), (128, (64, 16))])
def test_swizzles(swizzle: int, box: tuple[int, int]) -> None:
    array, first = NUMBERS[1], (48, 3)
    got = run(array, box, program(box[0] * box[1] * 2, first), swizzle)
    np.testing.assert_array_equal(unswizzled(got, swizzle), tile_of(array, box, first))


def test_three_dimensions() -> None:
    box, first = (16, 8, 2), (32, 15, 2)
    got = run(NUMBERS, box, program(16 * 8 * 2 * 2, first))
    np.testing.assert_array_equal(got, tile_of(NUMBERS, box, first))


def test_copies_round_to_tf32() -> None:
    """To the nearest number with 10 bits of mantissa; infinities and NaN stay what they are."""
    one = np.float32(1)
    array = np.array([[one + 2.0**-12, -one - 3 * 2.0**-12, 3.5, np.inf, np.nan, 0, -0.0, 1e-40]])
    array = array.astype(np.float32)
    halves, text = array.view(np.uint16), program(32, (0, 0))
    got = run(halves, (8, 1), text, element_bytes=4, dims=(8, 1), to_tf32=True).view(np.float32)
    np.testing.assert_array_equal(got[:7], [1, -one - 2.0**-10, 3.5, np.inf, np.nan, 0, 0])
    assert abs(got[7] - array[0, 7]) < 2.0 ** -(126 + 10)


PLAIN = program(2048, (0, 0))
BAD = {
    "no wait": (WAIT, "W:", "before the wait|uninitialised"),
    "too many bytes expected": ("], 2048;", "], 2064;", "mbarrier that never ends"),
    "too few bytes expected": ("], 2048;", "], 2032;", "mbarrier that never ends"),
    "a tile at a wrong place": ("[%d2], [%d4", "[%d2+64], [%d4", "multiple of 128 bytes"),
    "a tile behind the end": ("[%d2], [%d4", "[%d2+4096], [%d4", "out of bounds"),
    "no map": ("mov.b64 %d5, map;", "mov.b64 %d5, out;", "no tensor map|out of bounds"),
    "a map at a wrong place": ("cvta.param.u64 %d4, %d5;", "add.u64 %d4, %d5, 8;", "of 64 bytes"),
    "no mbarrier": ("mbarrier.init.shared.b64 [%d3], 1;", "", "no mbarrier was initialised"),
    "another rank": (".2d.", ".3d.", "3 coordinates"),
    "to global memory": ("2d.shared::cluster.global", "2d.global.shared::cta", "unknown opcode"),
    "to several blocks": (".tile.", ".tile.multicast::cluster.", "unknown opcode"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_planted_bug_is_found(name: str) -> None:
    right, wrong, message = BAD[name]
    assert right in PLAIN
    with pytest.raises(PtxFault, match=message) as caught:
        run(NUMBERS[0], (64, 16), PLAIN.replace(right, wrong))
    assert caught.value.line > 0


def test_two_copies_to_one_place_race() -> None:
    """The second begins while the first is under way: whose bytes stay is not known."""
    copy = next(line for line in PLAIN.splitlines() if "cp.async.bulk.tensor" in line)
    text = PLAIN.replace("], 2048;", "], 4096;").replace(copy, copy + copy)
    with pytest.raises(PtxFault, match="another is under way"):
        run(NUMBERS[0], (64, 16), text)


def test_a_map_of_other_dimensions() -> None:
    text = program(16 * 8 * 2 * 2, (0, 0))
    with pytest.raises(PtxFault, match="3 dimensions"):
        run(NUMBERS, (16, 8, 2), text)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"address": 8}, "address 0x8"),
        ({"strides": (200,)}, "strides"),
        ({"box": (64, 257)}, "box"),
        ({"box": (60, 16)}, "box"),
        ({"dims": (0, 20)}, "dimensions"),
        ({"swizzle_bytes": 64}, "swizzle of 64 bytes"),
        ({"swizzle_bytes": 48}, "swizzle of 48 bytes"),
        ({"element_bytes": 3}, "elements of 3 bytes"),
        ({"to_tf32": True}, "TF32 of another size"),
        ({"dims": (100, 20, 1)}, "1 strides"),
        ({"dims": (), "strides": (), "box": ()}, "0 dimensions"),
    ],
)
def test_maps_that_the_driver_refuses(changes: dict[str, Any], message: str) -> None:
    good = TensorMap(4096, 2, (100, 20), (208,), (64, 16))
    for tensor in (good, replace(good, element_bytes=4, to_tf32=True)):
        assert TensorMap.decoded(tensor.encoded()) == tensor
    with pytest.raises(PtxFault, match=message):
        replace(good, **changes)
