"""The lexer of Pygments: found by name and file, one type of Pygments for each kind of token."""

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import get_args

from pygments import highlight, token
from pygments.formatters import NullFormatter

from hloc.editors.pygments_lexer import _TYPE_OF, HloLexer
from hloc.editors.tokens import Kind

ROOT = Path(__file__).resolve().parents[3]
TEXT = "HloModule m\n\nENTRY e {\n  a = f32[2]{0} parameter(0)\n  ROOT b = f32[2]{0} negate(a)\n}\n"


def test_the_entry_point_names_the_lexer() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    value = project["entry-points"]["pygments.lexers"]["hlo"]
    assert EntryPoint("hlo", value, "pygments.lexers").load() is HloLexer


def test_every_kind_of_token_has_a_type() -> None:
    assert set(_TYPE_OF) == set(get_args(Kind))


def test_examples_have_no_error_tokens() -> None:
    texts = [path.read_text() for path in sorted((ROOT / "examples").glob("*.hlo"))]
    assert len(texts) > 5
    for text in texts:
        found = list(HloLexer().get_tokens(text))
        assert not [value for kind, value in found if kind is token.Error]
        assert sum(kind is token.Name.Builtin for kind, _ in found) > 10


def test_colours_leave_the_text_as_it_is() -> None:
    assert highlight(TEXT, HloLexer(), NullFormatter()) == TEXT


def test_a_text_is_recognised_by_its_header() -> None:
    assert HloLexer.analyse_text(TEXT) == 1.0
    assert 0 < HloLexer.analyse_text(TEXT.removeprefix("HloModule m\n")) < 1
    assert HloLexer.analyse_text("int main() { return 0; }") == 0
    assert HloLexer.filenames == ["*.hlo"]
