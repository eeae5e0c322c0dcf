"""`--autotune` on the CPU: the fastest kernel is taken and remembered, and no bit changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import hloc
from hloc import cache_directory
from hloc.cli import main
from hloc.codegen.cpu.backend import CpuModule
from hloc.codegen.cpu.kernel import choices_of
from hloc.driver import compile_module, generate, parse_text
from hloc.errors import HloError
from hloc.options import CompileOptions
from hloc.report.tuning_text import tuning_lines
from hloc.runtime import autotune
from hloc.runtime.autotune import tuned
from hloc.runtime.trial import Trial
from tests.inputs import inputs_for

PRODUCT = """HloModule m
ENTRY e {
  a = f32[128,500] parameter(0)
  b = f32[500,192] parameter(1)
  ROOT d = f32[128,192] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
IN_PLACE = """HloModule m
body {
  a = f32[128,500] parameter(0)
  b = f32[500,192] parameter(1)
  c = f32[128,192] parameter(2)
  d = f32[128,192] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[128,192] add(d, c)
}
ENTRY e {
  a = f32[128,500] parameter(0)
  b = f32[500,192] parameter(1)
  c = f32[128,192] parameter(2)
  s = f32[128,192] negate(c)
  f = f32[128,192] fusion(a, b, s), kind=kOutput, calls=body
  ROOT n = f32[128,192] sine(f)
}"""
USUAL = 1e-3
pytestmark = pytest.mark.usefixtures("cache_folder")


def module_of(text: str = PRODUCT, **options: object) -> CpuModule:
    compiled = generate(parse_text(text), CompileOptions(**options))  # type: ignore[arg-type]
    assert isinstance(compiled, CpuModule)
    return compiled


def choices(compiled: CpuModule) -> tuple[object, ...]:
    (request,) = compiled.plan.kernels
    return choices_of(request, compiled.machine)


def one_is_fast(fastest: int, number: int) -> float:
    return USUAL / 2 if number == fastest else USUAL


REAL_RESULTS = Trial.results


def timed_by(
    seconds: Callable[[int], float], monkeypatch: pytest.MonkeyPatch
) -> list[tuple[int, int]]:
    """Let choice `number` take what `seconds` says; returns the samples as they are taken."""
    samples: list[tuple[int, int]] = []

    def sample(trial: Trial, number: int, calls: int) -> float:
        samples.append((number, calls))
        return seconds(number)

    def results(trial: Trial, number: int) -> tuple[list[bytes], float]:
        return REAL_RESULTS(trial, number)[0], USUAL

    monkeypatch.setattr(Trial, "seconds", sample)
    monkeypatch.setattr(Trial, "results", results)
    return samples


def test_the_fastest_is_taken_and_remembered(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = module_of()
    samples = timed_by(lambda number: 0.8e-3 if number == 3 else USUAL, monkeypatch)
    first = tuned(compiled)
    (tuning,) = first.tuning
    assert tuning.best == 3
    assert not tuning.is_kept
    assert tuning.choices == tuple(map(str, choices(compiled)))
    assert tuning.seconds[0] == USUAL
    assert tuning.gain == pytest.approx(1.25)
    assert {number for number, _ in samples} == set(range(len(tuning.choices)))
    assert first.kernels[0].name == compiled.kernels[0].name
    assert first.kernels[0].text != compiled.kernels[0].text
    samples.clear()
    again = tuned(compiled)
    assert not samples
    assert again.kernels == first.kernels
    assert again.tuning[0].is_kept
    assert (again.tuning[0].seconds, again.tuning[0].gain) == (tuning.seconds, tuning.gain)


@pytest.mark.parametrize(
    "text", ["", "[", "{}", '{"best": 3}', '{"best": 99, "seconds": []}', '{"best": 0.0}']
)
def test_a_damaged_file_is_measured_again(
    text: str, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = module_of()
    samples = timed_by(lambda number: 0.8e-3 if number == 3 else USUAL, monkeypatch)
    tuned(compiled)
    (file,) = cache_folder.glob("tuning-*.json")
    found = json.loads(file.read_text())
    times = [-1.0, *found["seconds"][1:]]
    for damage in (
        text,
        json.dumps({**found, "seconds": times}),
        json.dumps({**found, "gain": "x"}),
    ):
        file.write_text(damage)
        samples.clear()
        assert tuned(compiled).tuning[0].best == 3
        assert samples


def test_another_kernel_machine_or_option_is_measured_again(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = timed_by(lambda number: USUAL, monkeypatch)
    wider = PRODUCT.replace("192", "208")
    for number, compiled in enumerate(
        (module_of(), module_of(wider), module_of(flush_subnormals=True)), 1
    ):
        samples.clear()
        tuned(compiled)
        assert samples
        assert len(list(cache_folder.glob("tuning-*.json"))) == number


def test_the_model_is_kept_where_the_fastest_is_hardly_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timed_by(lambda number: USUAL if number else USUAL * 1.01, monkeypatch)
    compiled = module_of()
    found = tuned(compiled)
    assert found.tuning[0].best == 0
    assert found.kernels == compiled.kernels


def test_one_lucky_sample_does_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    lucky = [USUAL / 2]

    def seconds(number: int) -> float:
        return lucky.pop() if number == 5 and lucky else USUAL

    samples = timed_by(seconds, monkeypatch)
    assert tuned(module_of()).tuning[0].best == 0
    assert [number for number, _ in samples[-2:]] == [0, 5]


def test_slow_choices_are_dropped_and_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = timed_by(lambda number: 10 * USUAL if number in (1, 2) else USUAL, monkeypatch)
    tuned(module_of())
    assert sum(number == 1 for number, _ in samples) == 1
    assert sum(number == 3 for number, _ in samples) == autotune.ROUNDS
    timed_by(lambda number: autotune.MOST_SECONDS, monkeypatch)
    (tuning,) = tuned(module_of(PRODUCT.replace("192", "208"))).tuning
    assert tuning.best == 0
    assert sum(seconds is not None for seconds in tuning.seconds) == 1


def test_a_choice_with_other_bits_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    timed_by(lambda number: USUAL / 2 if number == 3 else USUAL, monkeypatch)
    results = Trial.results
    monkeypatch.setattr(
        Trial, "results", lambda t, n: ([b"other"], USUAL) if n == 3 else results(t, n)
    )
    (tuning,) = tuned(module_of()).tuning
    assert tuning.best == 0
    assert tuning.seconds[3] is None


@pytest.mark.parametrize("text", [PRODUCT, IN_PLACE])
@pytest.mark.parametrize("options", [{}, {"flush_subnormals": True}, {"opt_level": 0}])
def test_results_have_the_same_bits(
    text: str, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = inputs_for(parse_text(text), 0, special=False)
    (wanted,) = compile_module(parse_text(text), CompileOptions(**options))(*arrays)  # type: ignore[arg-type]
    for fastest in (1, 4):
        timed_by(partial(one_is_fast, fastest), monkeypatch)
        compiled = generate(
            parse_text(text),
            CompileOptions(autotune=True, **options),  # type: ignore[arg-type]
        )
        assert isinstance(compiled, CpuModule)
        with_it = [tuning for tuning in compiled.tuning if len(tuning.choices) > fastest]
        assert with_it
        assert {tuning.best for tuning in with_it} == {fastest}
        (found,) = hloc.driver.load_compiled(compiled)(*arrays)
        assert found.tobytes() == wanted.tobytes()
        for file in cache_directory.cache_directory().glob("tuning-*"):  # type: ignore[union-attr]
            file.unlink()


def test_without_a_fake_clock_results_are_the_same(cache_folder: Path) -> None:
    arrays = inputs_for(parse_text(PRODUCT), 0, special=False)
    (wanted,) = hloc.compile(PRODUCT)(*arrays)
    for _ in range(2):
        (found,) = hloc.compile(PRODUCT, autotune=True)(*arrays)
        assert found.tobytes() == wanted.tobytes()
    assert len(list(cache_folder.glob("tuning-*.json"))) == 1


def test_small_and_huge_kernels_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = timed_by(lambda number: USUAL, monkeypatch)
    small = PRODUCT.replace("128", "32").replace("500", "40").replace("192", "64")
    assert len(choices(module_of(small))) > 1
    assert not tuned(module_of(small)).tuning
    monkeypatch.setattr(autotune, "MOST_BYTES", 1000)
    assert not tuned(module_of()).tuning
    assert not samples


def test_a_module_with_nothing_to_measure_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = timed_by(lambda number: USUAL, monkeypatch)
    compiled = module_of(
        "HloModule m\nENTRY e { a = f32[64] parameter(0)\n ROOT n = f32[64] negate(a) }"
    )
    assert tuned(compiled) is compiled
    assert not samples
    assert tuning_lines(compiled.tuning) == ["autotune: no kernel to measure"]


def test_another_machine_is_refused() -> None:
    with pytest.raises(HloError, match="the code is for another one"):
        module_of(triple="aarch64", autotune=True)


def test_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    timed_by(lambda number: 0.8e-3 if number == 3 else USUAL, monkeypatch)
    file = tmp_path / "m.hlo"
    file.write_text(PRODUCT)
    texts = tuple(map(str, choices(module_of())))
    assert main([str(file), "--autotune"]) == 0
    said = capsys.readouterr().err
    assert "autotune: 1 kernel\n" in said
    assert f"{len(texts)} of {len(texts)}  1.00 ms  0.80 ms             1.25\n" in said
    assert (
        f"  d; the model errs by more than 10%\n    model    {texts[0]}\n    fastest  {texts[3]}"
        in said
    )
    assert main([str(file), "--autotune", "--run", "--random=0"]) == 0
    assert "autotune: 1 kernel (1 from the cache)" in capsys.readouterr().err
    assert main([str(file), "--autotune", "--format=json"]) == 0
    (module,) = json.loads(capsys.readouterr().out)["modules"]
    (kernel,) = module["autotune"]
    assert (kernel["kernel"], kernel["fastest"], kernel["from_cache"]) == ("d", 3, True)
    assert kernel["choices"][3] == {"choice": texts[3], "seconds": 0.8e-3}
