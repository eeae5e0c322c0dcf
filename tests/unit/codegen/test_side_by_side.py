"""Independent kernels run side by side, with the same bits as one after the other."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hloc import driver
from hloc.codegen.cpu import kernel, side_by_side
from hloc.codegen.cpu.backend import CpuModule
from hloc.codegen.cpu.side_by_side import group_scratch_bytes, groups_of
from hloc.codegen.plan.plan import KernelStep, SideBySideStep, kernel_steps
from hloc.options import CompileOptions
from hloc.runtime import host_programs
from tests.inputs import inputs_for
from tests.lent_threads import FILES, last_worker_alone, lend_threads
from tests.waiting import all_at_once

SORTED = """HloModule m
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT }
ENTRY e {
  x = f32[20000] parameter(0)
  y = f32[20000] parameter(1)
  z = f32[30000] parameter(2)
  a = f32[20000] sort(x), dimensions={0}, to_apply=less
  b = f32[20000] sort(y), dimensions={0}, to_apply=less
  c = f32[30000] sort(z), dimensions={0}, to_apply=less
  d = f32[20000] sort(a), dimensions={0}, to_apply=less
  ROOT t = (f32[20000], f32[20000], f32[30000], f32[20000]) tuple(a, b, c, d)
}"""
"""Three independent sorts, each with scratch memory, and one that reads a result of the first."""

OVERWRITTEN = """HloModule m, input_output_alias={ {1}: (0, {}, may-alias) }
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT }
ENTRY e {
  x = f32[20000] parameter(0)
  y = f32[20000] parameter(1)
  a = f32[20000] sort(x), dimensions={0}, to_apply=less
  b = f32[20000] sort(y), dimensions={0}, to_apply=less
  c = f32[20000] add(a, b)
  ROOT t = (f32[20000], f32[20000]) tuple(c, b)
}"""
"""The second sort may write over what the first reads: the caller may donate `x` for result 1."""


def compiled(text: str) -> CpuModule:
    options = CompileOptions()
    module = driver.parse_text(text)
    driver.optimise(module, options)
    made = driver.generate(module, options)
    assert isinstance(made, CpuModule)
    return made


def bits(module: CpuModule, threads: int, arrays: list[Any]) -> list[bytes]:
    module.objects()
    options = replace(module.options, threads=threads)
    run = host_programs.load_compiled(replace(module, options=options))
    with np.errstate(all="ignore"):
        return [found.tobytes() for found in run(*arrays)]


@pytest.fixture
def nothing_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel may run beside others, the shortest too."""
    monkeypatch.setattr(kernel, "split_of", lambda *_: None)
    for name in ("_MIN_NANOSECONDS", "_MEMBER_NANOSECONDS"):
        monkeypatch.setattr(side_by_side, name, 0)
    monkeypatch.setattr(side_by_side, "_GAIN_NANOSECONDS", 1)


@pytest.fixture(params=[last_worker_alone, all_at_once])
def shared(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let Python call the parts; returns how many each region had."""
    return lend_threads(monkeypatch, request.param)


@pytest.mark.usefixtures("nothing_is_split")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_same_bits_side_by_side(
    path: Path, shared: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a compilation without groups, whoever runs a kernel."""
    text = path.read_text()
    module = compiled(text)
    arrays = inputs_for(driver.parse_text(text))
    monkeypatch.setattr(side_by_side, "_GAIN_NANOSECONDS", 1 << 60)
    apart = compiled(text)
    assert not groups_of(apart.arranged)
    want = bits(apart, 1, arrays)
    for threads in (1, 2, 5):
        assert bits(module, threads, arrays) == want, threads


def test_scratch_memory_is_not_shared(shared: list[int]) -> None:
    module = compiled(SORTED)
    (group,) = groups_of(module.arranged)
    assert len(group.steps) == 3
    assert module.worker_bytes >= group_scratch_bytes(group, module.kernels) > 0
    arrays = inputs_for(driver.parse_text(SORTED))
    want = bits(module, 1, arrays)
    assert not shared
    assert bits(module, 2, arrays) == want
    assert bits(module, 7, arrays) == want
    assert shared == [2, 3]


def test_the_longest_kernel_begins_first() -> None:
    module = compiled(SORTED)
    (group,) = groups_of(module.arranged)
    times = [module.kernels[step.kernel].nanoseconds for step in group.steps]
    assert times == sorted(times, reverse=True)
    assert times[0] > times[-1]


def test_a_kernel_that_reads_a_result_stays_behind() -> None:
    steps = compiled(SORTED).arranged.computations[0]
    assert [type(step) for step in steps] == [SideBySideStep, KernelStep]


def test_a_donated_argument_is_not_overwritten_too_early() -> None:
    module = compiled(OVERWRITTEN)
    assert any(pair.is_shared for pair in module.plan.assignment.aliases)
    assert not groups_of(module.arranged)
    apart = compiled(OVERWRITTEN.replace(", input_output_alias={ {1}: (0, {}, may-alias) }", ""))
    assert len(groups_of(apart.arranged)) == 1


def test_no_kernel_is_lost() -> None:
    for text in (SORTED, OVERWRITTEN):
        module = compiled(text)
        for before, after in zip(
            module.plan.computations, module.arranged.computations, strict=True
        ):
            assert {*kernel_steps(before)} == {*kernel_steps(after)}
            assert len([*kernel_steps(after)]) == len(before)


def test_small_kernels_are_left_alone() -> None:
    assert not groups_of(compiled(SORTED.replace("0000]", "]")).arranged)
