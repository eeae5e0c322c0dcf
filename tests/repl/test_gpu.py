"""`ptx` and `sim`: the kernels of a state as PTX, and what they do in the simulator."""

from __future__ import annotations

import pytest

from hloc.codegen.gpu.nvptx import cubin
from hloc.errors import HloError
from repl.commands import COMMANDS
from repl.running import options_of
from repl.session import Session
from tests.repl.conftest import Say

MODULE = """new <<END
HloModule m
ENTRY e {
  x = f32[64,48] parameter(0)
  n = f32[64,48] exponential(x)
  ROOT t = f32[48,64] transpose(n), dimensions={1,0}
}
END
"""


def test_the_whole_state_and_one_kernel(say: Say) -> None:
    both = say(MODULE + "ptx")
    assert both.count(".visible .entry") == 2
    one = say("ptx %n")
    assert one.count(".visible .entry") == 1
    assert ".target sm_80" in one
    assert ".target sm_90" in say("set gpu-chip=sm_90\nptx %n")


def test_a_simulation_gives_metrics_and_a_verdict(say: Say) -> None:
    """The transposition reads and writes whole sectors, and no two threads meet on a bank."""
    said = say(MODULE + "sim %t")
    assert "agrees with the evaluator" in said
    (line,) = (line for line in said.splitlines() if line.startswith("t "))
    _, _, _, launches, _, sectors, conflicts, *_ = line.split()
    assert (launches, sectors, conflicts) == ("1", "1.00", "1.00x")


def test_registers_are_unknown_without_an_assembler(
    say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cubin, "_nvjitlink", lambda: None)
    monkeypatch.setenv("PATH", "")
    assert say(MODULE + "sim %n").count("? ?") == 1


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("ptx %nobody", "no instruction named"),
        ("set gpu-chip=sm_1\nptx", "there is no chip"),
        ("ptx %x", "computes nothing"),
    ],
)
def test_faults_are_reported(say: Say, repl: Session, script: str, said: str) -> None:
    say(MODULE)
    with pytest.raises(HloError, match=said):
        say(script)


def test_both_are_in_the_help() -> None:
    assert {COMMANDS[name].group for name in ("ptx", "sim")} == {"Lower"}


@pytest.mark.parametrize("simulate", ["ptx", "host"])
def test_runs_follow_the_target(say: Say, repl: Session, simulate: str) -> None:
    say(MODULE + f"set target=nvptx64\nset simulate={simulate}")
    assert "in the evaluator: OK" in say("run")
    options = options_of(repl)
    assert (options.target, options.cpu, options.simulator) == ("nvptx64", "sm_80", simulate)


def test_lower_forms_follow_the_target(say: Say) -> None:
    """`emit ptx` is what `ptx` shows; what the other target has is named."""
    say(MODULE)
    with pytest.raises(HloError, match="target cpu has no 'ptx' to emit") as caught:
        say("emit ptx")
    assert caught.value.diagnostics[0].notes == ("set target=nvptx64 first",)
    say("set target=nvptx64")
    assert say("emit ptx %n") == say("ptx %n")
    assert "define ptx_kernel void @kernel_" in say("emit llvm-ir %n")
    assert "ROOT t = f32[48,64]" in say("emit schedule")
    assert "parameters" in say("mem")
    with pytest.raises(HloError, match="target nvptx64 has no 'asm' to emit"):
        say("asm")
    with pytest.raises(HloError, match="target is cpu or nvptx64 or amdgcn, not 'cuda'"):
        say("set target=cuda")
