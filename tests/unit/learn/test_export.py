"""Lessons as files: HTML that parses and hides nothing dangerous, notebooks of the right schema."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hloc.errors import HloError
from hloc.learn.catalogue import all_lessons
from hloc.learn.document import Code, Commands, Prose, read_cells, write_cells
from hloc.learn.export import write_document
from hloc.learn.page import html_page, markdown_html
from repl.__main__ import main
from repl.program import Recorder, record
from tests.unit.learn.transcripts import without_times

VOID = {"meta", "input", "br", "img", "link"}
TINY = "HloModule m\nENTRY e { p = f32[4] parameter(0)  ROOT r = f32[4] add(p, p) }\n"


class Checker(HTMLParser):
    """Fails where elements are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def checked(page: str) -> Checker:
    found = Checker()
    found.feed(page)
    found.close()
    assert found.open == []
    return found


@pytest.mark.parametrize("lesson", all_lessons(), ids=lambda lesson: lesson.folder.name)
def test_a_lesson_survives_all_three_forms(lesson, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    text = lesson.read("lesson.md")
    cells = read_cells(text)
    assert read_cells(write_cells(cells)) == cells
    page = html_page(cells, lesson.title)
    found = checked(page)
    assert found.links == []  # needs no network
    steps = sum(len(cell.steps) for cell in cells if isinstance(cell, Commands))
    assert f'data-steps="{steps}"' in page
    assert lesson.title in "".join(found.text)
    path = tmp_path / "x.ipynb"
    write_document(cells, str(path), {"input.hlo": lesson.read("input.hlo")})
    check_notebook(json.loads(path.read_text()), steps)


def check_notebook(table: dict, steps: int) -> None:  # type: ignore[type-arg]
    """Check the fields that the schema of notebooks 4.5 demands."""
    assert table["nbformat"] == 4
    assert table["nbformat_minor"] == 5
    assert {"kernelspec", "language_info"} <= set(table["metadata"])
    ids = [cell["id"] for cell in table["cells"]]
    assert len(set(ids)) == len(ids)
    code = [cell for cell in table["cells"] if cell["cell_type"] == "code"]
    assert len(code) == steps + 2
    for cell in table["cells"]:
        assert isinstance(cell["source"], list)
        assert isinstance(cell["metadata"], dict)
    for cell in code:
        assert set(cell) == {"cell_type", "execution_count", "metadata", "outputs", "source", "id"}
        for output in cell["outputs"]:
            assert output["output_type"] == "stream"
            assert output["name"] == "stdout"


def test_texts_cannot_become_markup() -> None:
    evil = "<script>alert(1)</script>"
    page = html_page(
        [Prose(f"# {evil}\n\n- `{evil}`"), Code("", evil), Commands("sh", ((evil, evil),))], evil
    )
    assert page.count("<script>") == 1  # its own
    assert "alert(1)" in "".join(checked(page).text)


def test_markdown_of_lessons() -> None:
    text = "# A `b`\nintro\n\n- one\n  more\n- **two** < `x*y*`\n\n1. first"
    assert markdown_html(text).splitlines() == [
        "<h1>A <code>b</code></h1>",
        "<p>intro</p>",
        "<ul><li>one more</li><li><b>two</b> &lt; <code>x*y*</code></li></ul>",
        "<ol><li>first</li></ol>",
    ]


def test_a_script_becomes_a_page(tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(TINY)
    script = f"# # Title\n# Some prose.\n\nload {tmp_path / 'm.hlo'}\nshow r\n# The end.\n"
    cells, faults = record(script)
    assert faults == 0
    for ending in ("md", "html", "ipynb"):
        target = tmp_path / f"out.{ending}"
        write_document(cells, str(target))
        assert "ROOT r = f32[4] add(p, p)" in target.read_text()
    checked((tmp_path / "out.html").read_text())
    cells, faults = record(script + "load nothing.hlo\n")
    assert faults == 1
    assert [type(cell) for cell in cells] == [Prose, Commands, Prose, Commands]
    with pytest.raises(HloError, match=r"expected the ending \.md, \.html, \.ipynb"):
        write_document(cells, "x.pdf")


def test_the_program_exports_a_script_with_its_prose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lesson = all_lessons()[5]
    monkeypatch.chdir(lesson.folder)
    page = tmp_path / "six.html"
    assert main(["-x", "script.hlor", "--export", str(page)]) == 0
    text = "".join(checked(page.read_text()).text)
    assert "6. Algebra, and its traps" in text
    assert "> step algebraic-simplifier" in text


def test_a_recorder_keeps_its_session(tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(TINY)
    recorder = Recorder()
    recorder.run(f"load {tmp_path / 'm.hlo'}")
    assert "ROOT r" in recorder.run("show r")
    assert recorder.run("") == ""
    assert recorder.faults == 0
    recorder.close()
    assert without_times("0.3 ms and 12 us, f32[3]") == "... ms and ... us, f32[3]"
