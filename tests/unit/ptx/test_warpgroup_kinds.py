"""The kinds of wgmma: TF32, f8 and bytes, from shared memory or registers; what is refused."""

from __future__ import annotations

import math
from itertools import product

import ml_dtypes
import numpy as np
import pytest

from hloc.ptx import PtxFault
from tests.tolerance import bounds
from tests.unit.ptx.ptx_running import Array, kernel_text, run
from tests.unit.ptx.test_warpgroup import FILL, N, descriptor, placed

TYPES = {
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
}
KINDS = [("tf32", "tf32"), *product(("e4m3", "e5m2"), repeat=2), *product(("s8", "u8"), repeat=2)]
LANE, PLACE = np.indices((128, N // 2))
ROW = LANE // 32 * 16 + LANE % 32 // 4 + 8 * (PLACE // 2 % 2)
COLUMN = 8 * (PLACE // 4) + 2 * (LANE % 4) + PLACE % 2


def elements(kind: str, rows: int, seed: int) -> Array:
    """Return a matrix whose rows have 128 bytes."""
    rng = np.random.default_rng(seed)
    if kind in ("s8", "u8"):
        return np.asarray(rng.integers(0, 256, (rows, 128), np.uint8).view(TYPES[kind]))
    dtype = np.dtype(TYPES[kind])
    return np.asarray(rng.normal(size=(rows, 128 // dtype.itemsize)).astype(dtype))


def wide(matrix: Array) -> Array:
    """Return the numbers that an instruction reads: those of TF32 without the low 13 bits."""
    if matrix.dtype == np.float32:
        matrix = (matrix.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return matrix.astype(np.float64)


def sums_of(
    kind: tuple[str, str], a: Array, b: Array, start: str, registers: bool = False, more: str = ""
) -> Array:
    """Return what four steps through rows of 128 bytes add to sums that begin as `start`."""
    sums = "s32" if kind[0] in ("s8", "u8") else "f32"
    shape = f"m64n16k{32 // a.dtype.itemsize}{more}"
    opcode = f"wgmma.mma_async.sync.aligned.{shape}.{sums}.{'.'.join(kind)}"
    flags = "" if sums == "s32" else ", 1, 1"
    accumulators = [f"%r{20 + i}" for i in range(N // 2)]
    body = (
        FILL
        + """
    shr.u32 %r1, %r0, 5; and.b32 %r2, %r0, 31; shr.u32 %r3, %r2, 2; and.b32 %r2, %r2, 3;
    shl.b32 %r2, %r2, 2; mad.lo.u32 %r1, %r1, 16, %r3; mad.lo.u32 %r1, %r1, 128, %r2;
    cvt.u64.u32 %d7, %r1; add.u64 %d7, %d7, %d1;
"""
    )
    body += "".join(f"mov.b32 {r}, {start};\n" for r in accumulators)
    for k in range(4):
        body += f"mov.u64 %d5, {descriptor(32 * k, 1024)};\n"
        body += f"mov.u64 %d6, {descriptor(8192 + 32 * k, 1024)};\n"
        left = "%d5"
        if registers:  # lane by lane from the plain matrix behind the two tiles
            held = [f"%r{30 + 4 * k + i}" for i in range(4)]
            for register, at in zip(held, (0, 1024, 16, 1040), strict=True):
                body += f"ld.global.u32 {register}, [%d7+{16384 + 32 * k + at}];\n"
            left = f"{{{', '.join(held)}}}"
        body += "wgmma.fence.sync.aligned;\n"
        body += f"{opcode} {{{', '.join(accumulators)}}}, {left}, %d6, 1{flags};\n"
    body += "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n"
    body += f"mad.wide.u32 %d8, %r0, {2 * N}, %d0;\n"
    body += "".join(f"st.global.b32 [%d8+{4 * i}], {r};\n" for i, r in enumerate(accumulators))
    text = kernel_text(
        ".param .u64 out, .param .u64 in", body, ".shared .align 1024 .b8 tile[16384];"
    )
    halves = a.view(np.uint16), b.view(np.uint16)
    data = np.concatenate([*(placed(half, False) for half in halves), halves[0].reshape(-1)])
    out = np.zeros((128, N // 2), np.int32 if sums == "s32" else np.float32)
    (got, _), _ = run(text, "k", [out, data], grid=(1, 1, 1), block=(128, 1, 1))
    return got


def of_14_bits(x: Array, y: Array, total: float) -> float:
    """Add products, 32 at a time: each addend has 14 bits below the highest of the largest."""
    for products in np.split(x * y, len(x) // 32):
        addends = [*products.tolist(), total]
        unit = 2.0 ** (math.frexp(max(map(abs, addends)))[1] - 14)
        total = sum(int(addend / unit) for addend in addends) * unit
    return total


@pytest.mark.parametrize("kind", KINDS, ids=".".join)
@pytest.mark.parametrize("registers", [False, True])
def test_products(kind: tuple[str, str], registers: bool) -> None:
    a, b = elements(kind[0], 64, 0), elements(kind[1], N, 1)
    whole = kind[0] in ("s8", "u8")
    got = sums_of(kind, a, b, "3" if whole else "0f40400000", registers)
    if a.dtype.itemsize == 1 and not whole:
        expected = np.array([[of_14_bits(x, y, 3.0) for y in wide(b)] for x in wide(a)])
        np.testing.assert_array_equal(got, expected[ROW, COLUMN])
        return
    expected = (wide(a) @ wide(b).T)[ROW, COLUMN] + 3
    np.testing.assert_allclose(got, expected, **bounds("exact" if whole else "f32 short sum"))


@pytest.mark.parametrize("more", ["", ".satfinite"])
def test_sums_of_integers_wrap_or_stop(more: str) -> None:
    full, largest = np.full((64, 128), 255, np.uint8), (1 << 31) - 1
    got = sums_of(("u8", "u8"), full, full[:N], str(largest), more=more)
    wrapped = largest + 128 * 255 * 255 - (1 << 32)
    np.testing.assert_array_equal(got, np.full(got.shape, largest if more else wrapped, np.int32))


FOUR = "{%r20, %r21, %r22, %r23}"
REFUSED = {
    f"m64n8k8.f32.tf32.tf32 {FOUR}, 0, 0, 1, 1, 1, 0, 0": "two scales and no transpositions",
    f"m64n8k32.f32.e4m3.e5m2 {FOUR}, 0, 0, 1, 1, 1, 0, 0": "two scales and no transpositions",
    f"m64n8k32.f32.e4m3.e4m3 {FOUR}, 0, 0, 1": "two scales and no transpositions",
    f"m64n8k32.s32.s8.s8 {FOUR}, 0, 0, 1, 1, 1": "no scales and no transpositions",
    f"m64n8k16.f32.f16.f16 {FOUR}, 0, 0, 1, 2, 1, 0, 0": "scales of wgmma are 1 or -1",
    f"m64n8k16.f32.f16.f16 {FOUR}, 0, 0, 1, 1, 1, 0, 2": "transpositions 0 or 1",
    f"m64n8k8.f32.tf32.tf32 {FOUR}, {{%r1, %r2}}, 0, 1, 1, 1": "A has 4 registers",
    f"m64n16k8.f32.tf32.tf32 {FOUR}, 0, 0, 1, 1, 1": "the accumulator has 8 registers",
    f"m64n8k16.f32.e4m3.e4m3 {FOUR}, 0, 0, 1, 1, 1": "unknown opcode",
    f"m64n8k16.f32.tf32.tf32 {FOUR}, 0, 0, 1, 1, 1": "unknown opcode",
    f"m64n8k32.f32.s8.s8 {FOUR}, 0, 0, 1": "unknown opcode",
    f"m64n8k32.f32.s8.e4m3 {FOUR}, 0, 0, 1": "unknown opcode",
    f"m64n8k16.f32.f16.bf16 {FOUR}, 0, 0, 1, 1, 1, 0, 0": "unknown opcode",
    f"m64n4k8.f32.tf32.tf32 {FOUR}, 0, 0, 1, 1, 1": "unknown opcode",
    f"m64n264k32.f32.e4m3.e4m3 {FOUR}, 0, 0, 1, 1, 1": "unknown opcode",
    f"m64n40k32.s32.s8.s8 {FOUR}, 0, 0, 1": "unknown opcode",
}


@pytest.mark.parametrize("rest", REFUSED)
def test_what_no_instruction_does(rest: str) -> None:
    """Only 16-bit operands are transposed, only floats negated; depths have 32 bytes."""
    text = kernel_text(".param .u64 out", f"wgmma.mma_async.sync.aligned.{rest};")
    with pytest.raises(PtxFault, match=REFUSED[rest]):
        run(text, "k", [np.zeros(128, np.float32)])
