"""`hloc FILE --run` of a text that ran before needs no passes, unless it is to tell of them."""

from pathlib import Path

import pytest

from hloc.cli import main
from hloc.cli.watching.watched_passes import WatchedPasses
from hloc.ir.module import Module

TEXT = """HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  ROOT r = f32[4] add(p, p)
}
"""


@pytest.fixture
def file(cache_folder: Path) -> str:
    """Return a file that has run once."""
    path = cache_folder.with_name("m.hlo")
    path.write_text(TEXT)
    assert main([str(path), "--run"]) == 0
    return str(path)


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
