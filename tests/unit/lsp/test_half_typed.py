"""Whatever stands in the editor, each feature answers: texts cut off, deletions, garbage."""

import random
from collections.abc import Iterator

import pytest

from hloc.errors import HloError
from hloc.lsp import document
from hloc.lsp.colours import coloured
from hloc.lsp.completion import complete
from hloc.lsp.document import Document
from hloc.lsp.fixes import fixes
from hloc.lsp.hints import shape_hints
from hloc.lsp.hover import hover
from hloc.lsp.names import definition, references, renamed
from hloc.lsp.open_text import OpenText
from hloc.lsp.outline import folds, lenses, symbols
from hloc.lsp.parts import Range
from hloc.lsp.positions import Change

TEXT = """HloModule m, entry_computation_layout={(f32[2]{0})->f32[]}

%cond (s: (s32[], f32[2])) -> pred[] {
  %s = (s32[], f32[2]{0}) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  ROOT %less = pred[] compare(%i, %i), direction=LT
}

%add { /* sums */ x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }

ENTRY %main (p: f32[2]) -> f32[] {
  %p = f32[2]{0} parameter(0), metadata={op_name="jit(f)/p" source_file="m.py"}
  %zero = f32[] constant(-inf)
  ROOT %r = reduce(%p, f32[] %zero), dimensions={0}, to_apply=%add
}
// -----
HloModule n
ENTRY e { ROOT a = (f32[2], s8[]) parameter(0) }
"""


def answers(found: Document, offset: int) -> None:
    """Ask for everything at `offset`."""
    whole = Range(0, len(found.text))
    hover(found, offset)
    assert complete(found, offset).range.end == offset
    here = definition(found, offset)
    uses = references(found, offset)
    if here is not None:
        assert any(use.end == here.end for use in uses)
        for start, end in uses:
            assert found.text[start:end].endswith(found.text[here.start : here.end].strip("%"))
    for name in ("other", "p", "%add", "f32", ""):
        try:
            assert renamed(found, offset, name)
        except HloError:
            continue
    list(shape_hints(found, whole))
    ends = [0, *(token.range.start for token in coloured(found, whole)), len(found.text)]
    assert ends == sorted(ends)
    for symbol in symbols(found):
        assert symbol.range.start <= symbol.name_range.start
        assert symbol.name_range.end <= symbol.range.end
        assert found.text[slice(*symbol.name_range)] == symbol.name
    list(folds(found))
    list(lenses(found))
    for fault in found.faults():
        assert 0 <= fault.start <= fault.end <= len(found.text) + 1
        list(fixes(found, fault))


def ask(opened: OpenText, offset: int) -> None:
    assert [placed.document.text in opened.text for placed in opened.documents]
    position = opened.positions.position(offset)
    placed, inside = opened.document_at(position)
    assert not any("bug in hloc" in fault.message for _, fault in opened.faults())
    answers(placed.document, inside)


@pytest.mark.parametrize(("small", "step"), [(0, 5), (100_000, 1)])
def test_a_text_that_is_typed_character_by_character(
    small: int, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "SMALL", small)
    opened = OpenText("")
    for end in range(0, len(TEXT) + 1, step):
        place = opened.positions.position(len(opened.text))
        opened.change([Change(TEXT[len(opened.text) : end], place, place)])
        assert opened.text == TEXT[:end]
        ask(opened, end)


def _edits() -> Iterator[tuple[int, int, str]]:
    draw = random.Random(23)
    for _ in range(60):
        start = draw.randrange(len(TEXT))
        size = draw.choice((0, 1, 1, 5, 40, 400))
        yield (
            start,
            start + size,
            draw.choice(("", "", "}", "{", '"', "%", "=", "\n", "\0\udcff", "/*")),
        )


@pytest.mark.parametrize("small", [0, 100_000])
def test_random_edits(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "SMALL", small)
    for start, end, new in _edits():
        opened = OpenText(TEXT)
        assert list(opened.faults()) == [] or opened.documents
        first, last = map(opened.positions.position, (start, end))
        opened.change([Change(new, first, last)])
        ask(opened, min(start, len(opened.text)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "\0\x01\x7fELF\udcff\r",
        "HloModule",
        "}" * 1000,
        "{" * 1000,
        "ENTRY e {\n",
        '"',
        "// -----\n// -----\n",
        "ENTRY ENTRY {\n  ROOT a = f32[] parameter(0)\n}\n",
        "%a = f32[2] constant({" + "1, " * 5_000 + "2})",
    ],
)
def test_texts_that_are_no_modules(text: str) -> None:
    opened = OpenText(text)
    for offset in {0, len(opened.text) // 2, len(opened.text)}:
        ask(opened, offset)


def test_a_computation_that_others_call_is_deleted_and_put_back() -> None:
    opened = OpenText(TEXT)
    assert list(opened.faults()) == []
    start, end = TEXT.index("%add {"), TEXT.index("ENTRY %main")
    places = [opened.positions.position(offset) for offset in (start, end)]
    opened.change([Change("", *places)])
    assert [fault.code for _, fault in opened.faults()] == ["HLOC0107"]
    opened.change([Change(TEXT[start:end], places[0], places[0])])
    assert opened.text == TEXT
    assert list(opened.faults()) == []
