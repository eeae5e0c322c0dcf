"""Limits: what is above one is refused with a sentence that says how to change it."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest

import hloc
from hloc import driver
from hloc.cli import main
from hloc.errors import HloError
from hloc.limits import LIMIT_ROWS, Limits, current_limits, limited, read_limits
from tests.unit.runtime.test_interrupt import FOREVER

Capture = pytest.CaptureFixture[str]

ADD = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  c = f32[4] constant({1, 2, 3, 4})
  ROOT s = f32[4] add(x, c)
}
"""


def doubled(levels: int) -> str:
    """Return a module whose computations each call the one before twice."""
    lines = ["HloModule doubled", "l0 { p = s32[] parameter(0)\n ROOT a = s32[] add(p, p) }"]
    lines += [
        f"l{i} {{ p = s32[] parameter(0)\n a = s32[] call(p), to_apply=l{i - 1}\n"
        f" ROOT b = s32[] call(a), to_apply=l{i - 1} }}"
        for i in range(1, levels + 1)
    ]
    lines += [f"ENTRY e {{ p = s32[] parameter(0)\n ROOT a = s32[] call(p), to_apply=l{levels} }}"]
    return "\n".join(lines)


def test_calls_that_double_at_each_level_are_refused_before_they_run() -> None:
    with pytest.raises(HloError, match="at most 100000000 instructions; e needs more") as fault:
        hloc.evaluate(doubled(40), np.array(1, np.int32))
    assert "--limit=evaluated-instructions=N" in str(fault.value)


def test_what_can_run_within_the_limit_does() -> None:
    (found,) = hloc.evaluate(doubled(4), np.array(1, np.int32))
    assert found == 2**16
    with limited(evaluated_instructions=20), pytest.raises(HloError, match="at most 20"):
        hloc.evaluate(doubled(4), np.array(1, np.int32))


def test_a_loop_without_end_ends_at_the_limit() -> None:
    with limited(evaluated_instructions=1000), pytest.raises(HloError, match="at most 1000 inst"):
        hloc.evaluate(FOREVER, np.array(1, np.int32))


def test_branches_count_as_the_cheapest_one() -> None:
    text = doubled(12).replace(
        "ROOT a = s32[] call(p), to_apply=l12 }",
        "q = pred[] compare(p, p), direction=NE\n"
        " ROOT a = s32[] conditional(q, p, p), true_computation=l12, false_computation=l0 }",
    )
    with limited(evaluated_instructions=100):
        assert hloc.evaluate(text, np.array(3, np.int32))[0] == 6


@pytest.mark.parametrize("backend", ["native", "interp"])
def test_a_run_ends_after_its_seconds(backend: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "forever.hlo"
    path.write_text(FOREVER)
    words = ["run", str(path), "--random", "-O0", f"--backend={backend}", "--limit=run-seconds=1"]
    assert main(words) == 4
    error = capsys.readouterr().err
    assert "run failed: the run took longer than 1 s" in error
    assert "--limit=run-seconds=N or HLOC_LIMITS=run-seconds=N" in error


def test_passes_and_llvm_end_after_the_seconds_of_a_compilation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter(range(0, 10_000, 10))
    module = hloc.parse(ADD)
    compiled = driver.generate(module, driver.DEFAULT)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with limited(compile_seconds=5):
        with pytest.raises(HloError, match="the passes took longer than 5 s"):
            driver.optimise(module, driver.DEFAULT)
        monkeypatch.setattr("hloc.codegen.llvm.object_cache.kept_object", lambda name: None)
        with pytest.raises(HloError, match="LLVM took longer than 5 s"):
            driver.load_compiled(compiled)


def test_texts_and_constants_have_a_limit(tmp_path: Path, capsys: Capture) -> None:
    with limited(input_bytes=20), pytest.raises(HloError, match="has more than 20 bytes"):
        hloc.parse(ADD.encode())
    with limited(constant_bytes=15), pytest.raises(HloError, match="larger than 15 bytes; --limit"):
        hloc.parse(ADD)
    with limited(constant_bytes=16):
        hloc.parse(ADD)


def test_results_of_the_evaluator_have_a_limit() -> None:
    with limited(evaluated_bytes=15), pytest.raises(HloError, match="needs 16 bytes") as fault:
        hloc.evaluate(ADD, np.zeros(4, np.float32))
    assert "--limit=evaluated-bytes=N" in str(fault.value)


def test_limits_come_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOC_LIMITS", "run-seconds=7, input-bytes=3M")
    assert current_limits() == Limits(run_seconds=7, input_bytes=3 << 20)
    with limited(run_seconds=8):
        assert current_limits() == Limits(run_seconds=8, input_bytes=3 << 20)
    monkeypatch.setenv("HLOC_LIMITS", "runseconds=7")
    with pytest.raises(HloError, match="did you mean run-seconds"):
        current_limits()


def test_a_limit_of_one_command_does_not_reach_the_next(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "add.hlo"
    path.write_text(ADD)
    assert main([str(path), "--limit=input-bytes=20"]) == 1
    assert "--limit=input-bytes=N" in capsys.readouterr().err
    assert main([str(path)]) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run-second=3", "did you mean run-seconds"),
        ("run-seconds", "expected a whole number for run-seconds"),
        ("run-seconds=-1", "expected a whole number"),
        ("run-seconds=1e9", "expected a whole number"),
        ("run-seconds=" + "9" * 30, "expected a whole number"),
    ],
)
def test_what_is_no_limit_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_limits(text)


def test_limits_inside_do_not_reach_other_threads() -> None:
    seen: list[Limits] = []
    with limited(run_seconds=9):
        thread = threading.Thread(target=lambda: seen.append(current_limits()))
        thread.start()
        thread.join()
    assert seen == [Limits()]


def test_each_limit_is_documented() -> None:
    assert [row.name.replace("-", "_") for row in LIMIT_ROWS] == list(Limits.__slots__)
