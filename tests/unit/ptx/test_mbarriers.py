"""Barriers in shared memory and the bulk copies that complete on them."""

from __future__ import annotations

import numpy as np
import pytest

from hloc.ptx import PtxFault
from tests.unit.ptx.ptx_running import Array, kernel_text, run

TILE = ".shared .align 16 .b8 tile[512]; .shared .align 8 .b8 bars[16];"
START = """
    mov.u32 %r0, %tid.x; ld.param.u64 %d0, [out]; ld.param.u64 %d1, [in];
    mov.u64 %d2, tile; mov.u64 %d3, bars; setp.ne.u32 %p0, %r0, 0;
"""
# Warp 1 fills the tile step by step, warp 0 adds one and stores it: full and empty barriers.
RING = """
    @%p0 bra READY; mbarrier.init.shared.b64 [%d3], 1; mbarrier.init.shared.b64 [%d3+8], 32;
READY: bar.sync 0; mov.u32 %r1, 0; setp.gt.u32 %p1, %r0, 31; @%p1 bra PRODUCE;
CONSUME: and.b32 %r2, %r1, 1;
W: mbarrier.try_wait.parity.shared.b64 %p2, [%d3], %r2; @!%p2 bra W;
    mad.wide.u32 %d4, %r0, 16, %d2; ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%d4];
    mbarrier.arrive.shared.b64 %d5, [%d3+8];
    add.u32 %r4, %r4, 1; shl.b32 %r8, %r1, 9; cvt.u64.u32 %d6, %r8; add.u64 %d6, %d6, %d0;
    mad.wide.u32 %d6, %r0, 16, %d6; st.global.v4.u32 [%d6], {%r4, %r5, %r6, %r7};
    add.u32 %r1, %r1, 1; setp.lt.u32 %p3, %r1, 4; @%p3 bra CONSUME; ret;
PRODUCE: setp.ne.u32 %p4, %r0, 32; @%p4 ret;
FILL: and.b32 %r2, %r1, 1; xor.b32 %r2, %r2, 1;
V: mbarrier.try_wait.parity.shared.b64 %p2, [%d3+8], %r2; @!%p2 bra V;
    mbarrier.arrive.expect_tx.shared.b64 %d5, [%d3], 512;
    shl.b32 %r8, %r1, 9; cvt.u64.u32 %d6, %r8; add.u64 %d6, %d6, %d1;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%d2], [%d6], 512, [%d3];
    add.u32 %r1, %r1, 1; setp.lt.u32 %p3, %r1, 4; @%p3 bra FILL;
"""
TOKENS = """
    @%p0 bra READY; mbarrier.init.shared.b64 [%d3], 64;
READY: bar.sync 0; mad.wide.u32 %d4, %r0, 4, %d2; st.shared.u32 [%d4], %r0;
    mbarrier.arrive.shared.b64 %d5, [%d3];
W: mbarrier.test_wait.shared.b64 %p2, [%d3], %d5; @!%p2 bra W;
    xor.b32 %r3, %r0, 32; mad.wide.u32 %d4, %r3, 4, %d2; ld.shared.u32 %r4, [%d4];
    mad.wide.u32 %d6, %r0, 4, %d0; st.global.u32 [%d6], %r4;
"""


def launch_it(body: str, out: Array) -> Array:
    data = np.arange(512, dtype=np.uint32)
    text = kernel_text(".param .u64 out, .param .u64 in", START + body, TILE)
    (got, _), _ = run(text, "k", [out, data], grid=(1, 1, 1), block=(64, 1, 1), step_limit=10**5)
    return got


def test_a_ring_of_bulk_copies() -> None:
    expected = np.arange(512, dtype=np.uint32)
    expected[::4] += 1
    np.testing.assert_array_equal(launch_it(RING, np.zeros(512, np.uint32)), expected)


def test_arrivals_order_the_warps() -> None:
    got = launch_it(TOKENS, np.zeros(64, np.uint32))
    np.testing.assert_array_equal(got, np.arange(64) ^ 32)


def test_copies_of_single_lanes_arrive_at_a_barrier() -> None:
    body = """
    @%p0 bra READY; mbarrier.init.shared.b64 [%d3], 64;
READY: bar.sync 0; mad.wide.u32 %d4, %r0, 4, %d2; mad.wide.u32 %d7, %r0, 4, %d1;
    cp.async.ca.shared.global [%d4], [%d7], 4; cp.async.mbarrier.arrive.noinc.shared.b64 [%d3];
W: mbarrier.try_wait.parity.shared.b64 %p2, [%d3], 0; @!%p2 bra W;
    xor.b32 %r3, %r0, 32; mad.wide.u32 %d4, %r3, 4, %d2; ld.shared.u32 %r4, [%d4];
    mad.wide.u32 %d6, %r0, 4, %d0; st.global.u32 [%d6], %r4;
"""
    got = launch_it(body, np.zeros(64, np.uint32))
    np.testing.assert_array_equal(got, np.arange(64) ^ 32)


def test_bulk_stores() -> None:
    body = """
    mad.wide.u32 %d4, %r0, 4, %d2; st.shared.u32 [%d4], %r0; FENCE bar.sync 0; @%p0 ret;
    cp.async.bulk.global.shared::cta.bulk_group [%d0], [%d2], 256;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;
"""
    fenced = body.replace("FENCE", "fence.proxy.async;")
    np.testing.assert_array_equal(launch_it(fenced, np.zeros(64, np.uint32)), np.arange(64))
    with pytest.raises(PtxFault, match=r"without a fence\.proxy\.async"):
        launch_it(body.replace("FENCE", ""), np.zeros(64, np.uint32))


def test_a_bulk_copy_over_a_store_without_a_fence() -> None:
    """Either may come last, as far as the two proxies know."""
    body = RING.replace("cp.async.bulk", "st.shared.u32 [%d2], %r0; cp.async.bulk", 1)
    with pytest.raises(PtxFault, match=r"without a fence\.proxy\.async"):
        launch_it(body, np.zeros(64, np.uint32))


FULL_WAIT = "W: mbarrier.try_wait.parity.shared.b64 %p2, [%d3], %r2; @!%p2 bra W;"
EMPTY_WAIT = "V: mbarrier.try_wait.parity.shared.b64 %p2, [%d3+8], %r2; @!%p2 bra V;"
BAD = {
    "no wait for the data": (RING, FULL_WAIT, "", "uninitialised|before the wait"),
    "no wait for the readers": (RING, EMPTY_WAIT, "", "race|more arrivals at an mbarrier than 1"),
    "too many bytes expected": (RING, "[%d3], 512;", "[%d3], 528;", "mbarrier that never ends"),
    "an arrival too few": (RING, "[%d3+8], 32;", "[%d3+8], 33;", "mbarrier that never ends"),
    "an arrival too many": (TOKENS, "b64 [%d3], 64;", "b64 [%d3], 40;", "race|no end after"),
    "not initialised": (
        TOKENS,
        "mbarrier.init.shared.b64 [%d3], 64;",
        "nanosleep.u32 1;",
        "no mbarrier",
    ),
    "no wait for the others": (
        TOKENS,
        "W: mbarrier.test_wait.shared.b64 %p2, [%d3], %d5; @!%p2 bra W;",
        "",
        "race: reads shared memory",
    ),
}


def test_a_copy_that_arrives_after_all_have_left_is_looked_at() -> None:
    """Warp 1 begins a copy and nobody waits; warp 0 wrote where it goes, in no order with it."""
    body = """
    @%p0 bra READY; mbarrier.init.shared.b64 [%d3], 1;
READY: bar.sync 0; mad.wide.u32 %d4, %r0, 4, %d2; setp.gt.u32 %p1, %r0, 31; @%p1 bra COPY;
    st.shared.u32 [%d4], %r0; ret;
COPY: setp.ne.u32 %p4, %r0, 32; @%p4 ret;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%d2], [%d1], 64, [%d3];
"""
    with pytest.raises(PtxFault, match="overwrites shared memory") as caught:
        launch_it(body, np.zeros(64, np.uint32))
    assert caught.value.text.startswith("cp.async.bulk")
    assert caught.value.thread == (32, 0, 0)


def test_copies_that_no_thread_waits_for_arrive_last() -> None:
    """Two copies, each with a barrier: the wait for the younger says nothing of the older."""
    body = """
    @%p0 bra READY; mbarrier.init.shared.b64 [%d3], 1; mbarrier.init.shared.b64 [%d3+8], 1;
    mbarrier.arrive.expect_tx.shared.b64 %d5, [%d3], 256;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%d2], [%d1], 256, [%d3];
    add.u64 %d6, %d2, 256; add.u64 %d7, %d3, 8;
    mbarrier.arrive.expect_tx.shared.b64 %d5, [%d7], 256;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%d6], [%d1], 256, [%d7];
READY: bar.sync 0;
W: mbarrier.try_wait.parity.shared.b64 %p2, [%d3+8], 0; @!%p2 bra W;
    mad.wide.u32 %d4, %r0, 4, %d2; ld.shared.u32 %r4, [%d4+OFFSET];
    mad.wide.u32 %d6, %r0, 4, %d0; st.global.u32 [%d6], %r4;
"""
    launch_it(body.replace("OFFSET", "256"), np.zeros(64, np.uint32))
    with pytest.raises(PtxFault, match="before the wait"):
        launch_it(body.replace("OFFSET", "0"), np.zeros(64, np.uint32))


@pytest.mark.parametrize("name", BAD)
def test_a_planted_bug_is_found(name: str) -> None:
    body, right, wrong, message = BAD[name]
    assert right in body
    with pytest.raises(PtxFault, match=message) as caught:
        launch_it(body.replace(right, wrong), np.zeros(512 if body is RING else 64, np.uint32))
    assert caught.value.line > 0
