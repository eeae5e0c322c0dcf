"""A watch writes down what one block of a launch does, and changes nothing of what it does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from hloc.ptx import Memory, PtxFault, Watch, launch, parse_ptx, stepping
from tests.unit.ptx.ptx_running import HEADER, Array

SWAP = """
.visible .entry k(.param .u64 target)
{
.reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %d<4>;
.shared .align 4 .b8 tile[256];
ld.param.u64 %d0, [target];
mov.u32 %r0, %tid.x;
shl.b32 %r1, %r0, 2;
mov.u32 %r2, tile;
add.u32 %r2, %r2, %r1;
mov.u32 %r3, 7;
setp.lt.u32 %p0, %r0, 40;
@!%p0 bra LATER;
add.u32 %r3, %r0, 100;
LATER:
st.shared.u32 [%r2], %r3;
bar.sync 0;
xor.b32 %r1, %r1, 128;
mov.u32 %r4, tile;
add.u32 %r4, %r4, %r1;
ld.shared.u32 %r5, [%r4];
shfl.sync.down.b32 %r6, %r5, 1, 31, -1;
mov.u32 %r7, %ctaid.x;
mad.lo.u32 %r7, %r7, 64, %r0;
mad.wide.u32 %d1, %r7, 4, %d0;
st.global.u32 [%d1], %r6;
ret;
}
"""
"""64 threads: two warps exchange what they made, then shift it; lanes 8-31 of warp 1 differ."""


def run(watch: Watch | None, text: str = SWAP, blocks: int = 5) -> Array:
    memory = Memory(limit_bytes=1 << 20)
    size = 4 * 64 * blocks
    target = memory.allocate(size)
    launch(
        parse_ptx(HEADER + text),
        "k",
        grid=(blocks, 1, 1),
        block=(64, 1, 1),
        arguments=[target],
        memory=memory,
        watch=watch,
    )
    return memory.read(target, size).view(np.uint32)


def opcodes(watch: Watch) -> Sequence[str]:
    return [moment.instruction.opcode for moment in watch.moments]


def test_watching_a_run_does_not_change_its_results() -> None:
    plain = run(None)
    for block in (0, 2, 4):
        watch = Watch(block, 0)
        assert np.array_equal(run(watch), plain)
        assert opcodes(watch)[-1] == "ret"


def test_registers_of_the_warp_are_recorded_when_they_change() -> None:
    watch = Watch(block=3, warp=1)
    run(watch)
    values = {name: v for m in watch.moments for name, v in m.registers.items()}
    assert values["%r0"].tolist() == list(range(32, 64))
    assert values["%r3"].tolist() == [*range(132, 140), *[7] * 24]
    assert values["%r5"].tolist() == list(range(100, 132))
    assert values["%r6"].tolist() == [*range(101, 132), 131]
    assert values["%r7"].tolist() == list(range(3 * 64 + 32, 4 * 64))
    assert values["%p0"].tolist() == [True] * 8 + [False] * 24


def test_active_lanes_are_recorded_where_lanes_diverge() -> None:
    watch = Watch(0, 1)
    run(watch)
    (added,) = (m for m in watch.moments if m.instruction.text.startswith("add.u32 %r3"))
    assert added.active(1).tolist() == list(range(8))
    assert added.active(0).tolist() == list(range(32))


def test_accesses_and_new_words_of_shared_memory_are_recorded() -> None:
    watch = Watch(2, 1)
    run(watch)
    spaces = {m.instruction.opcode: m.accesses for m in watch.moments if m.accesses}
    (stored,) = spaces["st.shared.u32"]
    assert (stored.space, stored.size) == ("shared", 4)
    assert stored.addresses.tolist() == list(range(128, 256, 4))
    (written,) = spaces["st.global.u32"]
    assert written.space == "global"
    assert np.diff(written.addresses.astype(np.int64)).tolist() == [4] * 31
    (words,) = (m.shared for m in watch.moments if m.shared)
    assert sorted(words) == list(range(0, 256, 4))
    assert words[128] == (132).to_bytes(4, "little")


def test_what_happened_before_a_fault_is_kept() -> None:
    """The load of global memory beyond the array stops the kernel; the steps before are there."""
    watch = Watch(0, 0)
    wrong = SWAP.replace("st.global.u32 [%d1]", "st.global.u32 [%d1+1048576]")
    with pytest.raises(PtxFault, match="out of bounds"):
        run(watch, wrong)
    assert opcodes(watch)[-1] == "mad.wide.u32"


def test_an_endless_story_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepping, "MOST_MOMENTS", 6)
    watch = Watch(0, 0)
    assert np.array_equal(run(watch), run(None))
    assert len(watch.moments) == 6
    assert watch.is_cut


def test_nothing_is_gathered_once_the_story_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that goes on for long must not fill the memory."""
    noted: list[str] = []

    def access(space: str, *_: object) -> None:
        noted.append(space)

    monkeypatch.setattr(stepping, "MOST_MOMENTS", 6)
    monkeypatch.setattr(stepping, "Access", access)
    run(Watch(0, 0))
    assert set(noted) <= {"param"}
