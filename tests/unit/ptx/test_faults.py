"""Planted bugs: each must be found, named and placed; the right kernel beside it must pass."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hloc.ptx import PtxFault
from tests.unit.ptx.ptx_running import kernel_text, run

BLOCK = 64
TILE = ".shared .align 16 .b8 tile[1024];"
START = """
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 64, %r0;
    ld.param.u64 %d0, [out]; mad.wide.u32 %d1, %r2, 4, %d0;
    ld.param.u64 %d2, [in]; mad.wide.u32 %d3, %r2, 4, %d2;
    mov.u64 %d4, tile; mad.wide.u32 %d5, %r0, 4, %d4;
    xor.b32 %r3, %r0, 32; mad.wide.u32 %d6, %r3, 4, %d4;
    mad.wide.u32 %d7, %r0, 16, %d4; mad.wide.u32 %d8, %r0, 16, %d2; mad.wide.u32 %d9, %r3, 16, %d4;
"""
EXCHANGE = """
    ld.global.u32 %r4, [%d3]; st.shared.u32 [%d5], %r4;
    bar.sync 0;
    ld.shared.u32 %r5, [%d6]; st.global.u32 [%d1], %r5;
"""
ASYNC = """
    cp.async.cg.shared.global [%d7], [%d8], 16; cp.async.commit_group; cp.async.wait_group 0;
    bar.sync 0; ld.shared.u32 %r5, [%d9]; st.global.u32 [%d1], %r5;
"""
TWICE = """
    ld.global.u32 %r4, [%d3]; st.shared.u32 [%d5], %r4; bar.sync 0; ld.shared.u32 %r5, [%d6];
    bar.sync 0; st.shared.u32 [%d5], %r0; st.global.u32 [%d1], %r5;
"""
SHUFFLE = "shfl.sync.bfly.b32 %r4, %r0, 1, 31, -1; st.global.u32 [%d1], %r4;"
IN_PLACE = """
    ld.global.u32 %r4, [%d3]; add.u32 %r4, %r4, 1; st.global.u32 [%d3], %r4;
    mad.wide.u32 %d10, %r1, 256, %d2; mad.wide.u32 %d10, %r3, 4, %d10;
    bar.sync 0; ld.global.u32 %r5, [%d10]; bar.sync 0; st.global.u32 [%d10], %r5;
    st.global.u32 [%d1], %r5;
"""
GOOD = {
    "in place": IN_PLACE,
    "exchange": EXCHANGE,
    "asynchronous": ASYNC,
    "twice": TWICE,
    "shuffle": SHUFFLE,
}
BAD = {
    "no barrier": (
        EXCHANGE.replace("bar.sync 0;", ""),
        "race: reads shared memory that warp|uninitialised",
    ),
    "overwritten before all have read": (
        "bar.sync 0;".join(TWICE.split("bar.sync 0;")[:2]) + TWICE.split("bar.sync 0;")[2],
        "race: overwrites shared memory that warp . read",
    ),
    "two warps write different values": (
        "shr.u32 %r4, %r0, 5; st.shared.u32 [tile], %r4;",
        "race: (overwrites shared memory that warp|several threads store different)",
    ),
    "two lanes write different values": (
        "st.shared.u32 [tile], %r0;",
        "race: several threads store different values to one shared address",
    ),
    "uninitialised shared": ("ld.shared.u32 %r4, [%d5];", "read of uninitialised shared memory"),
    "beyond shared": ("st.shared.u32 [%d5+1000], %r0;", "shared store of 4 bytes out of bounds"),
    "before shared": ("st.shared.u32 [%d5+-4], %r0;", "shared store of 4 bytes out of bounds"),
    "misaligned shared": ("st.shared.u32 [%d5+2], %r0;", "misaligned shared store of 4 bytes"),
    "off by one": ("st.global.u32 [%d1+4], %r0;", "global store of 4 bytes out of bounds"),
    "before the buffer": (
        "ld.global.u32 %r4, [%d3+-4];",
        "global load of 4 bytes out of bounds|is",
    ),
    "null": ("mov.u64 %d10, 0; ld.global.u32 %r4, [%d10];", "global load of 4 bytes out of bounds"),
    "misaligned": ("ld.global.v2.u32 {%r4, %r5}, [%d3];", "misaligned global load of 8 bytes"),
    "uninitialised global": ("ld.global.u32 %r4, [%d1];", "uninitialised global memory"),
    "uninitialised local": ("ld.local.u32 %r4, [own];", "read of uninitialised local memory"),
    "beyond local": ("st.local.u32 [own+8], %r0;", "local store of 4 bytes out of bounds"),
    "waits for a group too few": (
        ASYNC.replace("wait_group 0", "wait_group 1"),
        "read of shared memory before the wait for its asynchronous copy",
    ),
    "no wait": (ASYNC.replace("cp.async.wait_group 0;", ""), "before the wait for its asynch"),
    "asynchronous copy without a barrier": (ASYNC.replace("bar.sync 0;", ""), "race|uninitialised"),
    "exit before a barrier": (
        "setp.gt.u32 %p0, %r0, 40; @%p0 ret; bar.sync 0;",
        "41 of 64 threads of the block wait at a barrier",
    ),
    "a warp exits before a barrier": (
        "setp.gt.u32 %p0, %r0, 31; @%p0 exit; bar.sync 0;",
        "32 of 64 threads of the block wait at a barrier",
    ),
    "barriers in both ways of a branch": (
        "and.b32 %r4, %r0, 1; setp.eq.u32 %p0, %r4, 0; @%p0 bra L; bar.sync 0; bra M;\n"
        "L: bar.sync 0;\nM: st.global.u32 [%d1], %r0;",
        "barrier under divergence",
    ),
    "barrier in one way of a branch": (
        "and.b32 %r4, %r0, 1; setp.eq.u32 %p0, %r4, 0; @%p0 bra L; bar.sync 0;\nL:",
        "32 of 64 threads of the block wait at a barrier",
    ),
    "shuffle in one way of a branch": (
        "and.b32 %r4, %r0, 1; setp.eq.u32 %p0, %r4, 0; @%p0 bra L;\n" + SHUFFLE + "\nL:",
        "executed by a partial warp: 16 lanes are here",
    ),
    "shuffle after some lanes left": (
        "setp.gt.u32 %p0, %r0, 60; @%p0 ret;" + SHUFFLE,
        "executed by a partial warp: 29 lanes are here",
    ),
    "mask without the lane": (
        "shfl.sync.idx.b32 %r4, %r0, 0, 31, 1;",
        "whose mask does not include it",
    ),
    "shuffle from outside the mask": (
        "and.b32 %r4, %r0, 31; setp.gt.u32 %p0, %r4, 15; @%p0 bra L;\n"
        "shfl.sync.idx.b32 %r4, %r0, 20, 31, 0xFFFF;\nL:",
        "reads a lane that is not in the mask",
    ),
    "blocks write different values": (
        "and.b32 %r4, %r0, 31; mad.wide.u32 %d10, %r4, 4, %d0; st.global.u32 [%d10], %r2;",
        "race",
    ),
    "reads what another block wrote": (
        "st.global.u32 [%d1], %r0; xor.b32 %r4, %r2, 64; mad.wide.u32 %d10, %r4, 4, %d0;\n"
        "ld.global.u32 %r5, [%d10];",
        "race: reads global memory that warp . of block . wrote",
    ),
    "reads what another warp wrote": (
        "st.global.u32 [%d1], %r0; xor.b32 %r4, %r2, 32; mad.wide.u32 %d10, %r4, 4, %d0;\n"
        "ld.global.u32 %r5, [%d10];",
        "race: reads global memory that warp . of the same block wrote",
    ),
    "overwrites what another block read": (
        "xor.b32 %r4, %r2, 64; mad.wide.u32 %d10, %r4, 4, %d2; ld.global.u32 %r5, [%d10];\n"
        "st.global.u32 [%d3], 77;",
        "race: overwrites global memory that warp . of block . read in this launch",
    ),
    "overwrites what several blocks read": (
        "setp.eq.u32 %p0, %r1, 0; @%p0 ld.global.nc.u32 %r5, [%d2+256];\n"
        "@!%p0 ld.global.nc.u32 %r5, [%d2+256]; st.global.u32 [%d3], 77;",
        "race: overwrites global memory that several blocks read",
    ),
    "overwrites what another warp read": (
        "mad.wide.u32 %d10, %r1, 256, %d2; ld.global.u32 %r4, [%d10];\nst.global.u32 [%d3], 777;",
        "race: overwrites global memory that warp . of the same block read with no barrier",
    ),
    "truncated address": (
        "cvt.u32.u64 %r4, %d1; cvt.u64.u32 %d10, %r4; st.global.u32 [%d10], %r0;",
        "is in no allocation",
    ),
    "trap": ("trap;", "executed trap"),
}


def text_of(body: str) -> str:
    declarations = TILE + ".local .align 4 .b8 own[8];"
    return kernel_text(".param .u64 out, .param .u64 in", START + body, declarations)


def launch_it(body: str) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    data = np.arange(4 * BLOCK, dtype=np.uint32)
    out = np.zeros(2 * BLOCK, np.uint32)
    (got, _), _ = run(text_of(body), "k", [out, data], grid=(2, 1, 1), block=(BLOCK, 1, 1))
    return got


@pytest.mark.parametrize("name", GOOD)
def test_right_kernels_pass(name: str) -> None:
    launch_it(GOOD[name])


@pytest.mark.parametrize("name", BAD)
def test_a_planted_bug_is_found(name: str) -> None:
    body, message = BAD[name]
    with pytest.raises(PtxFault, match=message) as caught:
        launch_it(body)
    fault = caught.value
    assert fault.kernel == "k"
    assert fault.line > 0
    assert fault.block is not None
    assert fault.thread is not None
    assert re.sub(r"\s", "", fault.text) in re.sub(r"\s", "", text_of(body))


def test_the_fault_names_the_first_thread_that_is_wrong() -> None:
    with pytest.raises(PtxFault) as caught:
        launch_it("setp.gt.u32 %p0, %r2, 70; @%p0 st.global.u32 [%d1+256], %r0;")
    assert caught.value.block == (1, 0, 0)
    assert caught.value.thread == (7, 0, 0)
    assert "st.global.u32 [%d1+256], %r0" in str(caught.value)
    assert "28 bytes after the end of an allocation of 512 bytes" in str(caught.value)


def test_freed_memory_is_out_of_bounds() -> None:
    from hloc.ptx import Memory, launch, parse_ptx

    memory = Memory()
    out, in_ = memory.allocate(512), memory.allocate(512)
    memory.write(in_, bytes(512))
    memory.free(in_)
    with pytest.raises(PtxFault, match="global read of 4 bytes out of bounds"):
        launch(
            parse_ptx(text_of(EXCHANGE)),
            "k",
            grid=(1, 1, 1),
            block=(64, 1, 1),
            arguments=[out, in_],
            memory=memory,
        )


def test_without_check_races_pass_but_bounds_do_not() -> None:
    data, out = np.zeros(256, np.uint32), np.zeros(128, np.uint32)
    body = "st.shared.u32 [tile], %r0; st.global.u32 [%d1], %r0;"
    run(text_of(body), "k", [out, data], grid=(2, 1, 1), block=(BLOCK, 1, 1), check=False)
    with pytest.raises(PtxFault, match="out of bounds"):
        run(
            text_of("st.global.u32 [%d1+4], %r0;"),
            "k",
            [out, data],
            grid=(2, 1, 1),
            block=(64, 1, 1),
            check=False,
        )


def test_blocks_may_talk_through_atomics() -> None:
    """The last block to arrive sums what all have written: the classic two-pass reduction."""
    body = """
    st.global.u32 [%d1], %r2; membar.gl; bar.sync 0;
    setp.ne.u32 %p0, %r0, 0; @%p0 ret;
    ld.param.u64 %d10, [cell]; atom.global.add.u32 %r4, [%d10], 1;
    setp.ne.u32 %p1, %r4, 1; @%p1 ret;
    mov.u32 %r5, 0; mov.u32 %r6, 0;
L:  mad.wide.u32 %d11, %r5, 4, %d0; ld.global.u32 %r7, [%d11]; add.u32 %r6, %r6, %r7;
    add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 128; @%p2 bra L;
    st.global.u32 [%d10], %r6;"""
    text = kernel_text(".param .u64 out, .param .u64 in, .param .u64 cell", START + body, TILE)
    out, cell = np.zeros(128, np.uint32), np.zeros(1, np.uint32)
    (_, _, got), _ = run(text, "k", [out, out, cell], grid=(2, 1, 1), block=(64, 1, 1))
    assert got[0] == 127 * 128 // 2
