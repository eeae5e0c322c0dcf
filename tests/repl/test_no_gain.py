"""The REPL says why nothing got faster, and keeps the time of a run beside kernels and bytes."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from hloc.analysis.diff.diff_rows import DiffTable
from repl import profiling
from repl.commands import execute
from repl.passes import Applied
from repl.prompt.toolbar import StatusLine
from repl.render import render
from repl.running import Bench, Timed
from repl.session import Session

TEXT = """HloModule dots

ENTRY e {
  x = f32[64,64] parameter(0)
  n = f32[64,64] negate(x)
  nn = f32[64,64] negate(n)
  d = f32[64,64] dot(nn, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[64,64] dot(d, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


@pytest.fixture
def dots(repl: Session) -> Session:
    repl.load_text(TEXT)
    return repl


def test_a_pipeline_that_makes_nothing_faster_says_why(
    dots: Session, say: Callable[[str], str]
) -> None:
    assert "not faster" not in say("apply -O2")
    assert "not faster: d is 50 % of the arithmetic, and no pass" in say("apply cse,dce")


def test_a_pass_shows_the_reason_of_its_remarks() -> None:
    idle = Applied("fusion", None, 4, 4, DiffTable(()), (), 0.1)
    shown = [text.plain for text in render(replace(idle, no_gain="not faster: it has 3 users"))]
    assert shown == ["  fusion: nothing to do", "       not faster: it has 3 users"]


def test_remarks_of_a_pass_give_the_reason(dots: Session) -> None:
    dots.load_text(
        """HloModule shared
ENTRY e {
  x = f32[8,8] parameter(0)
  y = f32[8,8] exponential(x)
  b = f32[64,8,8] broadcast(y), dimensions={1,2}
  c = f32[64,8,8] broadcast(y), dimensions={1,2}
  ROOT t = (f32[64,8,8], f32[64,8,8], f32[8,8]) tuple(b, c, y)
}
"""
    )
    (applied,) = (r for r in execute(dots, "apply fusion") if isinstance(r, Applied))
    assert applied.no_gain == (
        "not faster: it is expensive (users: 3), and 8192 elements would be computed instead of 64 "
        "(%y)"
    )


def test_times_that_are_no_better_name_the_kernel_that_bounds_them(
    dots: Session, say: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    say("apply algsimp,dce")
    rows = [Timed(label, "", (seconds,)) for label, seconds in (("s0", 1.0), ("s1", 0.99))]
    found = profiling.with_reason(dots, Bench(tuple(rows), ""))
    assert found.no_gain.startswith("not faster: ")
    assert "% of the time of the kernels" in found.no_gain
    assert f"  {found.no_gain}" in [text.plain for text in render(found)]
    monkeypatch.setattr("repl.commands.running.bench", lambda *_: Bench(tuple(rows), ""))
    assert "not faster: " in say("bench"), "the command tells it"
    faster = Bench((rows[0], Timed("s1", "", (0.5,))), "")
    assert profiling.with_reason(dots, faster) is faster


def test_the_time_of_a_run_stands_with_kernels_and_bytes(
    dots: Session, say: Callable[[str], str]
) -> None:
    status = StatusLine(dots)
    assert "us ·" not in status.toolbar()
    assert "run s0: 4 kernels, 144 KiB, " in say("run --interp")
    dots.seconds[dots.current] = 1.5e-6
    assert " · 1.5 us · 5 instrs" in f" · {status.toolbar()}"
    say("run")
    assert dots.seconds[dots.current] != 1.5e-6
