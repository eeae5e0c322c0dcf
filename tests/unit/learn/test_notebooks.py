"""Lessons as notebooks: executed, their cells print what the text of the lesson shows.

Needs nbclient and ipykernel: `pytest -m slow tests/unit/learn/test_notebooks.py`.
"""

from pathlib import Path

import pytest

from hloc.learn.catalogue import Lesson, all_lessons
from hloc.learn.document import MACHINE, Commands, read_cells
from hloc.learn.export import write_document
from tests.unit.learn.transcripts import without_lines, without_times
from tests.unit.notebook.executed import run


def _comparable(text: str) -> str:
    """Return `text` without times, and without line breaks, since a terminal folds."""
    return " ".join(without_lines(without_times(text.replace("\r", ""))).split())


@pytest.mark.slow
@pytest.mark.parametrize("lesson", all_lessons(), ids=lambda lesson: lesson.folder.name)
def test_a_lesson_runs_as_a_notebook(lesson: Lesson, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="runs notebooks")
    cells = read_cells(lesson.read("lesson.md"))
    names = ["exercise.py", *(file.name for file in lesson.folder.glob("*.hlo"))]
    path = tmp_path / "lesson.ipynb"
    write_document(cells, str(path), {name: lesson.read(name) for name in names})
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    outputs = [cell.outputs for cell in run(book, tmp_path).cells if cell.cell_type == "code"]
    assert [o for some in outputs for o in some if o.output_type != "stream"] == []
    printed = ["".join(output.text for output in some) for some in outputs]
    written = printed[1 : 1 + len(names)]
    assert [line.partition(" ")[0] for line in written] == ["Writing"] * len(names)
    shown = printed[1 + len(names) :]
    steps = [(c.language, step) for c in cells if isinstance(c, Commands) for step in c.steps]
    assert len(shown) == len(steps) >= 2
    for (language, (command, expected)), text in zip(steps, shown, strict=True):
        if language == MACHINE:
            assert "error" not in text, command
        elif " | head -" in command:  # the text counts the lines of stderr, too
            assert _comparable(text).startswith(_comparable(expected)), command
        else:
            assert _comparable(text) == _comparable(expected), command
