"""docs/tutorial.md shows what its commands print; tests/jax/test_tutorial.py runs its Python."""

import re
from contextlib import chdir
from importlib.util import find_spec
from pathlib import Path

import pytest

from hloc.cli import main
from hloc.learn.document import MACHINE, Cell, Commands, read_cells, write_cells
from tests.unit.learn.transcripts import run_cells

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "tutorial.md"
FILES = ROOT / "examples" / "tutorial"
_KERNEL = re.compile(r"^  (\S+(?: \([\w-]+\))?) .* \d+% ", re.MULTILINE)


def _measured(cells: list[Cell]) -> list[Commands]:
    return [c for c in cells if isinstance(c, Commands) and c.language == MACHINE]


def _comparable(cells: list[Cell]) -> str:
    """Return the text without the number of passes that did nothing, which grows."""
    return re.sub(r"\d+ (runs of passes)", r"N \1", write_cells(cells))


def test_the_page_shows_what_the_commands_print(tmp_path: Path, update_golden: bool) -> None:
    """All but the times; `--update-golden` writes the outputs anew."""
    written = read_cells(PAGE.read_text())
    fixed = [cell for cell in written if cell not in _measured(written)]
    run = run_cells(fixed, FILES, tmp_path / "tutorial")
    if update_golden:
        made = iter(run)
        cells = [cell if cell in _measured(written) else next(made) for cell in written]
        PAGE.write_text(write_cells(cells))
    assert _comparable(run) == _comparable(fixed) or update_golden


def test_what_is_measured_runs_and_names_the_kernels_of_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    steps = [step for cell in _measured(read_cells(PAGE.read_text())) for step in cell.steps]
    assert len(steps) == 4
    with chdir(tmp_path):
        for command, shown in steps:
            program, *words = command.split()
            assert program == "hloc"
            if "--compare-with=xla" in words and find_spec("jax") is None:
                continue
            paths = [str(FILES / word) if word.endswith(".hlo") else word for word in words]
            assert main(paths) == 0
            printed = "".join(capsys.readouterr())
            assert sorted(_KERNEL.findall(printed)) == sorted(_KERNEL.findall(shown))
            assert ("--profile" in words) == bool(_KERNEL.findall(shown))
            for line in ("compare with", "out0 = "):
                assert (line in printed) == (line in shown)
            # A difference of few ulp, as with matrix registers, is not explained.
            assert "ulp: rounding" in shown or "ulp: rounding" not in printed


def test_the_page_shows_the_program_of_the_example() -> None:
    """The lines that the page shows stand in margin.py under the numbers it gives them."""
    program = (FILES / "margin.py").read_text().splitlines()
    shown = re.findall(r"^(.*?) +# (?:line )?(\d+)$", PAGE.read_text(), re.MULTILINE)
    assert len(shown) == 6
    for line, number in shown:
        assert program[int(number) - 1] == line
