"""`ptx step`: a kernel instruction by instruction, on the inputs of the session."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from hloc.codegen.gpu.kernel import GpuFunction
from hloc.errors import HloError
from hloc.ptx.stepping import Access
from hloc.runtime.gpu.simulated import PROCESSORS
from repl.kernels.memory import accessed
from repl.kernels.steps import KernelSteps, Launched
from repl.session import Session
from tests.repl.conftest import Say

MODULE = """new <<END
HloModule rows
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT ab = f32[] add(a, b)
}
ENTRY main {
  x = f32[3,301] parameter(0)
  n = f32[3,301] negate(x)
  zero = f32[] constant(0)
  ROOT r = f32[3] reduce(n, zero), dimensions={1}, to_apply=sum
}
END
input x=ones
"""


def last(say: Say, script: str) -> str:
    """Return what the last command of a script prints; `MODULE` is loaded before."""
    say(MODULE)
    *before, command = script.split("\n")
    say("\n".join(before))
    return say(command)


def next_line(said: str) -> str:
    """Return the marked line of PTX without its number."""
    (line,) = (line for line in said.splitlines() if line.startswith("> "))
    return line.split(" ", 2)[2]


def lanes(said: str) -> list[str]:
    """Return the values in a table of lanes."""
    return [value for line in said.splitlines()[1:] for value in line.split()[4:]]


def step_of(said: str) -> int:
    found = re.search(r"; step (\d+) of", said)
    assert found is not None
    return int(found[1])


def test_it_opens_at_the_first_instruction_of_a_kernel(say: Say) -> None:
    title, launch, place, *_ = last(say, "ptx step %r").splitlines()
    assert title == "ROOT r = f32[3] reduce(n, zero), dimensions={1}, to_apply=sum"
    assert re.match(
        r"launch 1 of 1: 3 blocks of \d+ threads; inputs random, seed 0, x=ones", launch
    )
    assert place.startswith("block 0, thread 0 (lane 0 of warp 0); step 0 of")
    assert next_line(say("ptx back")).startswith("ld.param.b64")
    assert f"{'#' * 32} 32 of 32 lanes" in say("ptx back")


def test_steps_forward_and_back_are_the_same_places(say: Say) -> None:
    last(say, "ptx step r")
    there = [say("ptx next") for _ in range(12)]
    back = [say("ptx back") for _ in range(11)]
    assert back == there[-2::-1]
    assert say("ptx next 11") == there[-1]
    assert step_of(say("ptx back 500")) == 0


def test_a_load_shows_register_address_and_sectors(say: Say) -> None:
    """The operand has the value that it has in the session: -1, for x is all ones."""
    said = last(say, "ptx step %r\nptx thread 5\nptx to global\nptx next")
    assert re.search(r"wrote %\w+ = -1$", said, re.MULTILINE)
    assert "global at argument 0 + 20, 4 bytes; 32 lanes, 4 sectors of 32 bytes" in said


def test_a_shuffle_in_all_lanes(say: Say) -> None:
    """A lane gets what the lane so many behind it has; the last ones keep their own."""
    last(say, "ptx step %r\nptx thread 40")
    opcode, target, source, distance, *_ = next_line(say("ptx to warp")).replace(",", "").split()
    assert opcode == "shfl.sync.down.b32"
    given = lanes(say(f"ptx lanes {source}"))
    assert len(given) == 32
    assert len(set(given)) > 1
    say("ptx next")
    far = int(distance)
    assert lanes(say(f"ptx lanes {target[1:]}")) == [*given[far:], *given[32 - far :]]


def test_lanes_part_and_meet_again_at_the_barrier(say: Say) -> None:
    """The first lane of each warp writes what the warp has added up; the others wait below."""
    said = last(say, "ptx step %r\nptx to shared")
    assert next_line(said).startswith("st.shared")
    assert f"#{'.' * 31} 1 of 32 lanes" in said
    assert "; thread 3 is not among them" in say("ptx thread 3")
    first, second = say("ptx where").splitlines()[1:]
    assert first.split()[1] == "st.shared.b32"
    assert "threads 0, 32" in first
    assert "bar.sync 0 threads 1-31, 33" in second
    assert "shared byte 4 is now" in say("ptx to barrier")
    sums = [float(line.split("(")[1].split()[0]) for line in say("ptx shared").splitlines()[1:]]
    assert sum(sums) == -301
    assert len(say("ptx shared 4").splitlines()) == len(sums)


def test_another_warp_and_block_at_the_same_time(say: Say) -> None:
    """301 elements are no multiple of a block: some lanes of a warp have one more than others."""
    last(say, "ptx step %r\nptx thread 40")
    found = re.search(r"([#.]{32}) (\d+) of 32 lanes", say("ptx to divergence"))
    assert found is not None
    assert found[1].count("#") == int(found[2]) < 32
    assert "block 2, thread 40" in say("ptx block 2")
    assert say("ptx to end").splitlines()[-1] == "warp 1 has left"
    assert say("ptx where").splitlines()[-1].startswith("left threads 0-")


def test_registers_are_those_that_the_thread_has_written(say: Say) -> None:
    assert "none yet" in last(say, "ptx step %r\nptx regs")
    assert re.search(r"^\* %rd\d+ 0x\w+$", say("ptx next\nptx regs"), re.MULTILINE)


def test_a_line_of_ptx_is_a_place(say: Say) -> None:
    said = last(say, "ptx step %r\nptx to barrier")
    (line,) = (line.split()[1] for line in said.splitlines() if line.startswith("> "))
    assert next_line(last(say, f"ptx step %r\nptx to {line}")) == next_line(said)


def test_the_whole_state_lists_its_launches(say: Say) -> None:
    said = last(say, "ptx step")
    assert "launch 1 of 2" in said
    assert said.startswith("n = f32[3,301] negate(x)")
    assert say("ptx launch 2").startswith("ROOT r = f32[3] reduce(")
    assert [line.split()[0] for line in say("ptx launch").splitlines()] == ["launch", "1", "2"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("ptx next", "no kernel is open"),
        ("ptx step %nobody", "no instruction named"),
        ("ptx step %x", "computes nothing"),
        ("ptx step %r\nptx to nowhere", "cannot go to"),
        ("ptx step %r\nptx to end\nptx to barrier", "warp 0 does not come to a barrier from here"),
        ("ptx step %r\nptx to 1", "does not come to line 1"),
        ("ptx step %r\nptx thread 5000", "there is no thread '5000' here: threads are 0 to"),
        ("ptx step %r\nptx thread 0,1", "there is no thread '0,1'"),
        ("ptx step %r\nptx block -1", "there is no block '-1'"),
        (f"ptx step %r\nptx to {'1' * 5000}", "cannot go to"),
        (f"ptx step %r\nptx launch {'1' * 5000}", "launches are 1 to 1"),
        (f"ptx step %r\nptx shared {'1' * 5000}", "an offset in bytes"),
        (f"ptx step %r\nptx thread {'1' * 5000}", "there is no thread"),
        ("ptx step %r\nptx launch 2", "launches are 1 to 1"),
        ("ptx step %r\nptx lanes %r99", "register %r99 has no value yet"),
        ("ptx step %r\nptx shared x", "an offset in bytes"),
        ("ptx step %r\nptx end\nptx regs", "no kernel is open"),
    ],
)
def test_faults_are_reported(say: Say, repl: Session, script: str, said: str) -> None:
    say(MODULE)
    with pytest.raises(HloError, match=re.escape(said)):
        say(script)


def test_a_choice_that_is_broken_off_changes_nothing(
    say: Say, repl: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    last(say, "ptx step %r\nptx next 5")
    before = say("ptx next")

    def broken_off(_: KernelSteps) -> None:
        raise KeyboardInterrupt

    assert repl.kernel is not None
    with monkeypatch.context() as during:
        during.setattr(KernelSteps, "trace", broken_off)
        for choose, text in ((repl.kernel.choose_block, "2"), (repl.kernel.choose_thread, "33")):
            with pytest.raises(KeyboardInterrupt):
                choose(text)
    say("ptx back")
    assert say("ptx next") == before


def test_blocks_that_take_turns_are_as_many_as_run() -> None:
    function = GpuFunction("k", (), "", grid=(50, 2, 1), block=(32, 1, 1), takes_turns=True)
    assert Launched(function, ()).grid == (PROCESSORS, 2, 1)
    assert Launched(replace(function, takes_turns=False), ()).grid == (50, 2, 1)


def test_wide_accesses_are_counted_in_words_and_lanes() -> None:
    """Each of 8 lanes reads 16 bytes; a copy of a tile is one lane's, however large."""
    lanes = np.arange(8)
    wide = Access("shared", lanes, 16 * lanes, 16)
    assert accessed(wide) == "8 lanes, 32 words, 1 on one bank at most"
    tile = Access("global", np.zeros(4, int), np.arange(0, 64, 16), 16)
    assert accessed(tile) == "1 lane, 2 sectors of 32 bytes"


def test_another_module_closes_the_kernel(say: Say, repl: Session) -> None:
    last(say, "ptx step %r")
    assert repl.kernel is not None
    say(MODULE)
    assert repl.kernel is None
