"""The transcripts of docs/devices.md are what the commands print."""

from pathlib import Path

import pytest

from hloc.learn.document import SHELL, Commands, read_cells, write_cells
from tests.unit.learn.transcripts import shell, without_times

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "devices.md"


def test_the_manual_shows_what_the_commands_print(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    cells = [c for c in read_cells(PAGE.read_text()) if isinstance(c, Commands)]
    assert len(cells) == 5
    for cell in cells:
        assert cell.language == SHELL
        steps = tuple((command, without_times(shell(command))) for command, _ in cell.steps)
        assert write_cells([Commands(SHELL, steps)]) == write_cells([cell])
