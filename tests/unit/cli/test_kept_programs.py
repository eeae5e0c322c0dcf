"""`hloc FILE --run` of a text that ran before needs no passes, unless it is to tell of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hloc.cache_directory import cache_directory
from hloc.cli import main
from hloc.cli.watched_passes import WatchedPasses
from hloc.ir.module import Module

TEXT = """HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  ROOT r = f32[4] add(p, p)
}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return a file that has run once."""
    monkeypatch.setenv("HLOC_CACHE_DIR", str(tmp_path / "cache"))
    cache_directory.cache_clear()
    path = tmp_path / "m.hlo"
    path.write_text(TEXT)
    assert main([str(path), "--run"]) == 0
    yield str(path)
    cache_directory.cache_clear()


@pytest.fixture
def optimised(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of modules whose passes run from now on."""
    names: list[str] = []
    run = WatchedPasses.run

    def noted(self: WatchedPasses, module: Module) -> None:
        names.append(module.name)
        run(self, module)

    monkeypatch.setattr(WatchedPasses, "run", noted)
    return names


def test_the_second_run_needs_no_passes(
    file: str, optimised: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([file, "--run", "--compare-with=interp"]) == 0
    output = capsys.readouterr()
    assert "out0 = f32[4]" in output.out
    assert "OK" in output.err
    assert not optimised


@pytest.mark.parametrize(
    "option",
    ["--time-passes", "--print-changed", "--verify-each", "--memory", "-O1", "--emit=hlo"],
)
def test_passes_run_where_they_are_asked_for(file: str, optimised: list[str], option: str) -> None:
    assert main([file, "--run", option]) == 0
    assert optimised == ["m"]


def test_another_text_is_another_program(file: str, optimised: list[str]) -> None:
    Path(file).write_text(TEXT.replace("add", "multiply"))
    assert main([file, "--run"]) == 0
    assert optimised == ["m"]
