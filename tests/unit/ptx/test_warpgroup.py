"""Products of a warpgroup: swizzled operands in shared memory, accumulators in registers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hloc.ptx import Memory, PtxFault, launch, parse_ptx
from tests.unit.ptx.ptx_running import Array, kernel_text, run

N = 16


def swizzled(offset: Array) -> Array:
    """Pieces of 16 bytes change places within a row of 128 bytes, by row modulo 8."""
    return np.asarray(offset ^ (offset >> 7 & 7) << 4)


def placed(matrix: Array, transposed: bool) -> Array:
    """Return 8 KiB with a [rows, 64] matrix in it: rows of depth, or if transposed of rows."""
    memory = np.zeros(4096, np.uint16)
    row, deep = (np.asarray(index) for index in np.indices(matrix.shape))
    if transposed:
        offset = deep // 8 * 1024 + deep % 8 * 128 + row * 2
    else:
        offset = row // 8 * 1024 + row % 8 * 128 + deep * 2
    memory[swizzled(np.asarray(offset)) // 2] = matrix.view(np.uint16)
    return memory


def descriptor(start: int, stride: int) -> int:
    return start >> 4 | (stride >> 4) << 32 | 1 << 62


FILL = """
    mov.u32 %r0, %tid.x; ld.param.u64 %d0, [out]; ld.param.u64 %d1, [in]; mov.u64 %d2, tile;
    mad.wide.u32 %d3, %r0, 16, %d1; mad.wide.u32 %d4, %r0, 16, %d2; mov.u32 %r1, 0;
FILL: ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d3]; st.shared.v4.u32 [%d4], {%r4, %r5, %r6, %r7};
    add.u64 %d3, %d3, 2048; add.u64 %d4, %d4, 2048; add.u32 %r1, %r1, 1;
    setp.lt.u32 %p0, %r1, 8; @%p0 bra FILL; fence.proxy.async.shared::cta; bar.sync 0;
"""
"""Copies the operands to shared memory, where two tiles begin at %d2."""


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("from_registers", [False, True])
def test_products_of_swizzled_operands(transposed: bool, from_registers: bool) -> None:
    """Four steps of 16 through a depth of 64, as a kernel advances its descriptors."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (rows, 64)).astype(np.float16) for rows in (64, N))
    registers = [f"%r{20 + i}" for i in range(N // 2)]
    body = (
        FILL
        + """
    setp.ne.u32 %p1, %r0, 9999;
"""
    )
    body += "".join(f"mov.b32 {r}, 0f3F800000;\n" for r in registers)
    for k in range(4):
        body += f"mov.u64 %d5, {descriptor(32 * k, 1024)};\n"
        step = 2048 * k if transposed else 32 * k
        body += f"mov.u64 %d6, {descriptor(8192 + step, 1024)};\n"
        left, flags = "%d5", f"1, 1, 0, {int(transposed)}"
        if from_registers:  # lane by lane from the plain matrix behind the two tiles
            body += "shr.u32 %r1, %r0, 5; and.b32 %r2, %r0, 31; shr.u32 %r3, %r2, 2;\n"
            body += "mad.lo.u32 %r1, %r1, 16, %r3; and.b32 %r2, %r2, 3; shl.b32 %r2, %r2, 2;\n"
            body += "mad.lo.u32 %r1, %r1, 128, %r2; cvt.u64.u32 %d7, %r1; add.u64 %d7, %d7, %d1;\n"
            for i, at in enumerate((0, 1024, 16, 1040)):
                body += f"ld.global.u32 %r{30 + 4 * k + i}, [%d7+{16384 + 32 * k + at}];\n"
            held = ", ".join(f"%r{30 + 4 * k + i}" for i in range(4))
            left, flags = f"{{{held}}}", f"1, 1, {int(transposed)}"
        if k == 0 or from_registers:
            body += "wgmma.fence.sync.aligned;\n"
        body += "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 "
        body += f"{{{', '.join(registers)}}}, {left}, %d6, %p1, {flags};\n"
    body += "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n"
    body += f"mad.wide.u32 %d8, %r0, {2 * N}, %d0;\n"
    body += "".join(f"st.global.b32 [%d8+{4 * i}], {r};\n" for i, r in enumerate(registers))
    text = kernel_text(
        ".param .u64 out, .param .u64 in", body, ".shared .align 1024 .b8 tile[16384];"
    )
    data = np.concatenate([placed(a, False), placed(b, transposed), a.view(np.uint16).reshape(-1)])
    out = np.zeros((128, N // 2), np.float32)
    (got, _), _ = run(text, "k", [out, data], grid=(1, 1, 1), block=(128, 1, 1))
    expected = a.astype(np.float32) @ b.astype(np.float32).T + 1
    lane, place = np.indices(out.shape)
    row = lane // 32 * 16 + lane % 32 // 4 + 8 * (place // 2 % 2)
    column = 8 * (place // 4) + 2 * (lane % 4) + place % 2
    np.testing.assert_array_equal(got, expected[row, column])


PROXY_FENCE = "fence.proxy.async.shared::cta;"


PLAIN = 128 >> 4 << 16 | 256 >> 4 << 32


def ones_and_twos(after: str, fence: str = PROXY_FENCE, descriptor: int = PLAIN) -> Array:
    """Return what a kernel stores that adds 16 products of two and two to ones, and then `after`.

    In `after`, STORE keeps the sums. `fence` makes the operands visible to the product.
    """
    body = """
    mov.u32 %r0, %tid.x; ld.param.u64 %d0, [out]; mov.u64 %d2, tile; mov.b32 %r1, 0x40004000;
    mad.wide.u32 %d4, %r0, 32, %d2; st.shared.v4.b32 [%d4], {%r1, %r1, %r1, %r1};
    st.shared.v4.b32 [%d4+16], {%r1, %r1, %r1, %r1}; VISIBLE bar.sync 0;
    mov.b32 %r20, 0f3F800000;
    mov.b32 %r21, %r20; mov.b32 %r22, %r20; mov.b32 %r23, %r20; wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16
        {%r20, %r21, %r22, %r23}, DESCRIPTOR, DESCRIPTOR, 1, 1, 1, 0, 0;
    mad.wide.u32 %d8, %r0, 16, %d0; AFTER
"""
    store = "st.global.v4.b32 [%d8], {%r20, %r21, %r22, %r23};"
    body = body.replace("AFTER", after.replace("STORE", store)).replace("VISIBLE", fence)
    body = body.replace("DESCRIPTOR", str(descriptor))
    text = kernel_text(".param .u64 out", body, ".shared .align 1024 .b8 tile[4096];")
    buffers: list[Array] = [np.zeros((128, 4), np.float32)]
    (got,), _ = run(text, "k", buffers, grid=(1, 1, 1), block=(128, 1, 1))
    return got


COMMIT, WAIT = "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"


def test_sums_change_when_they_are_waited_for() -> None:
    found = ones_and_twos(f"{COMMIT} {WAIT} STORE")
    np.testing.assert_array_equal(found, np.full((128, 4), 65, np.float32))


@pytest.mark.parametrize(
    "after", ["STORE", f"{COMMIT} STORE {WAIT}", f"{WAIT} {COMMIT} STORE", f"{WAIT} STORE"]
)
def test_sums_read_without_a_wait_are_a_fault(after: str) -> None:
    """Also where their group was not closed before the wait."""
    with pytest.raises(PtxFault, match=r"%r2\d is accessed before the wait for its") as caught:
        ones_and_twos(after)
    assert caught.value.text.startswith("st.global")


SUMS, OTHERS = "%r20, %r21, %r22, %r23", "%r30, %r31, %r32, %r33"


def held(sums: str = SUMS, left: str = OTHERS, columns: int = 8) -> str:
    """Return a product whose left side is in registers."""
    opcode = f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16"
    return f"{opcode} {{{sums}}}, {{{left}}}, 0, 1, 1, 1, 0;"


FENCE = "wgmma.fence.sync.aligned;"
FOUR_MORE = "%r4, %r5, %r6, %r7"
RULES = {
    "no fence at all": (held(), "before the first product"),
    "sums without a fence": (f"{FENCE} mov.b32 %r20, 0; {held()}", "access to %r20 and this"),
    "operands without a fence": (f"{FENCE} mov.b32 %r33, %r1; {held()}", "to %r33 and this"),
    "an operand that changes": (
        f"{FENCE} {held()} mov.b32 %r31, 0; {COMMIT} {WAIT}",
        "%r31 is accessed before the wait",
    ),
    "an operand that a shuffle reads": (
        f"{FENCE} {held()} shfl.sync.bfly.b32 %r2, %r30, 1, 31, -1; {COMMIT} {WAIT}",
        "%r30 is accessed before the wait",
    ),
    "sums as operands": (
        f"{FENCE} {held()} {held(FOUR_MORE, SUMS)}",
        "%r20 belongs to a product without a wait",
    ),
    "another shape": (
        f"{FENCE} {held()} {held(f'{FOUR_MORE}, {SUMS}', columns=16)}",
        "%r20 belongs to a product without a wait",
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_rules_for_registers(name: str) -> None:
    """Fences before products that use registers, and waits before other uses of them."""
    body, message = RULES[name]
    text = kernel_text(".param .u64 out", body, ".shared .align 1024 .b8 tile[4096];")
    with pytest.raises(PtxFault, match=message):
        run(text, "k", [np.zeros(128, np.float32)], grid=(1, 1, 1), block=(128, 1, 1))


@pytest.mark.parametrize("after", ["", COMMIT, f"{WAIT} {COMMIT}", WAIT])
def test_a_product_without_a_wait_is_a_fault(after: str) -> None:
    """Its sums are undefined on a device, also where its group was not closed before the wait."""
    with pytest.raises(PtxFault, match="no thread waits for this product") as caught:
        ones_and_twos(after)
    assert caught.value.text.startswith("wgmma.mma_async")
    assert (caught.value.block, caught.value.thread) == ((0, 0, 0), (0, 0, 0))


@pytest.mark.parametrize("fence", ["", "fence.proxy.alias;", "fence.acq_rel.cta;"])
def test_operands_without_a_fence_are_not_seen(fence: str) -> None:
    """Stores of threads and reads of wgmma are of two proxies."""
    with pytest.raises(PtxFault, match=r"warp \d wrote without a fence\.proxy\.async since"):
        ones_and_twos(f"{COMMIT} {WAIT} STORE", fence)


def test_a_fence_of_a_thread_that_waited_for_the_stores() -> None:
    """One warp fences for all, behind a barrier; a fence before the barrier is for its own."""
    behind = f"bar.sync 0; setp.lt.u32 %p0, %r0, 32; @%p0 {PROXY_FENCE}"
    got = ones_and_twos(f"{COMMIT} {WAIT} STORE", behind)
    np.testing.assert_array_equal(got, np.full((128, 4), 65, np.float32))
    with pytest.raises(PtxFault, match=r"warp [123] wrote without a fence"):
        ones_and_twos(f"{COMMIT} {WAIT} STORE", behind.removeprefix("bar.sync 0;"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (PLAIN | 1 << 14, "bits outside its fields"),  # an address beyond 256 KiB
        (PLAIN | 1 << 49, "bits outside its fields"),
        (descriptor(128, 1024), "within the 8 rows of its swizzle"),
        (descriptor(1024 + 256, 1024), "within the 8 rows of its swizzle"),
    ],
)
def test_descriptors_that_mean_nothing(wrong: int, message: str) -> None:
    with pytest.raises(PtxFault, match=message) as caught:
        ones_and_twos(f"{COMMIT} {WAIT} STORE", descriptor=wrong)
    assert caught.value.text.startswith("wgmma.mma_async")


def test_operands_that_are_missing() -> None:
    body = """wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16
        {%r20, %r21, %r22, %r23}, 0, 0, 1, 1, 1;"""
    with pytest.raises(PtxFault, match="wgmma takes two scales") as caught:
        run(kernel_text(".param .u64 out", body), "k", [np.zeros(128, np.float32)])
    assert caught.value.line > 0


@pytest.mark.parametrize(("threads", "fits"), [(160, True), (128, True), (64, False), (32, False)])
def test_a_warpgroup_is_of_one_block(threads: int, fits: bool) -> None:
    """Blocks run beside one another here; warps of two of them never make a warpgroup."""
    body = """
        mov.u32 %r0, %tid.x; setp.ge.u32 %p0, %r0, 128; @%p0 bra END;
        wgmma.fence.sync.aligned; wgmma.commit_group.sync.aligned;
        wgmma.wait_group.sync.aligned 0;
        END: ret;
    """
    module = parse_ptx(kernel_text(".param .u64 out", body))
    arguments: dict[str, Any] = {"grid": (4, 1, 1), "block": (threads, 1, 1), "arguments": [0]}
    if fits:
        launch(module, "k", memory=Memory(), **arguments)
        return
    with pytest.raises(PtxFault, match=f"{threads} of 128 lanes are here"):
        launch(module, "k", memory=Memory(), **arguments)


def unit_of(turned: bool, width: int, leading: int, stride: int, lines: int) -> Array:
    """Return where a matrix [lines, 16] lies, in units of 16 bytes: [lines, 2] or [lines / 8, 16].

    Source: PTX ISA, "Strides" of matrix descriptors; without a swizzle, `width` is 1.
    """
    if not turned:
        line, piece = np.indices((lines, 2))
        next_piece = leading if width == 1 else 1
        return np.asarray(line % 8 * width + line // 8 * stride + piece * next_piece)
    chunk, deep = np.indices((lines // 8, 16))
    if width == 1:
        return np.asarray(chunk * stride + deep % 8 + deep // 8 * leading)
    inside = chunk % width + chunk // width * leading
    return np.asarray(inside + deep % 8 * width + deep // 8 * stride)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("mode", "width"), [(0, 1), (3, 2), (2, 4), (1, 8)])
def test_layouts_of_descriptors(mode: int, width: int, turned: bool) -> None:
    """One instruction, with operands as the document lays them out for every swizzle."""
    rng = np.random.default_rng(mode)
    a, b = (rng.integers(-4, 5, (lines, 16)).astype(np.float16) for lines in (64, N))
    leading, stride = 264, 32 * max(width // 2, 1)
    if turned:
        leading, stride = (32, 96) if width == 1 else (2 * stride, stride)
    tile = np.zeros((2048, 8), np.uint16)
    for matrix, first in ((a, 0), (b, 1024)):
        place = unit_of(turned, width, leading, stride, len(matrix))
        place = first + (place ^ place // 8 % width)
        assert len(np.unique(place)) == place.size
        if turned:
            pieces = matrix.reshape(-1, 8, 16).transpose(0, 2, 1)
        else:
            pieces = matrix.reshape(len(matrix), 2, 8)
        tile[place] = np.ascontiguousarray(pieces).view(np.uint16)
    fields = leading << 16 | stride << 32 | mode << 62
    if fields >= 1 << 63:
        fields -= 1 << 64
    sums = ", ".join(f"%r{20 + i}" for i in range(N // 2))
    body = f"""
    mov.u32 %r0, %tid.x; ld.param.u64 %d0, [out]; ld.param.u64 %d1, [in]; mov.u64 %d2, tile;
    mad.wide.u32 %d3, %r0, 16, %d1; mad.wide.u32 %d4, %r0, 16, %d2; mov.u32 %r1, 0;
FILL: ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%d3];
    st.shared.v4.u32 [%d4], {{%r4, %r5, %r6, %r7}};
    add.u64 %d3, %d3, 2048; add.u64 %d4, %d4, 2048; add.u32 %r1, %r1, 1;
    setp.lt.u32 %p0, %r1, 16; @%p0 bra FILL; fence.proxy.async.shared::cta; bar.sync 0;
    wgmma.fence.sync.aligned;
    mov.u64 %d5, {fields}; or.b64 %d6, %d5, 1024;
    wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16
        {{{sums}}}, %d5, %d6, 0, 1, 1, {int(turned)}, {int(turned)};
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
    mad.wide.u32 %d8, %r0, {2 * N}, %d0;
"""
    body += "".join(f"st.global.b32 [%d8+{4 * i}], %r{20 + i};\n" for i in range(N // 2))
    text = kernel_text(
        ".param .u64 out, .param .u64 in", body, ".shared .align 1024 .b8 tile[32768];"
    )
    out = np.zeros((128, N // 2), np.float32)
    (got, _), _ = run(text, "k", [out, tile], grid=(1, 1, 1), block=(128, 1, 1))
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    lane, place = np.indices(out.shape)
    row = lane // 32 * 16 + lane % 32 // 4 + 8 * (place // 2 % 2)
    column = 8 * (place // 4) + 2 * (lane % 4) + place % 2
    np.testing.assert_array_equal(got, expected[row, column])
