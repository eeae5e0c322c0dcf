"""Tokens of HLO text: each word's kind, and all texts that hloc reads without an error."""

from typing import get_args

import pytest

from hloc.editors.tokens import Kind, tokens
from hloc.errors import HloError
from hloc.ops import OPCODES
from hloc.parser import read_module
from hloc.source import SourceFile
from tests.unit.parser.test_verdicts import ACCEPTED_LITERALS
from tests.unit.parser.two_ways import SMALL_BYTES, own_texts

MODULE = """HloModule m, is_scheduled=true // two
%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT sum = f32[] negate-start(%x, y), metadata={op_name="s" source_line=3}
}
ENTRY e {
  c = f32[2,3]{1,0:T(8,128)} constant({-1.5e3, nan})
  r = f32[2] reduce(c, z), dimensions={1}, to_apply=%add, window={size=2 pad=0_1}
  ROOT d = f32[2] conditional(p, a, b), branch_computations={t.1, f}, control-predecessors={c}
}
"""


def kinds_of(text: str) -> dict[str, str]:
    """Return the kind of each word of `text`, the first time it stands there."""
    found: dict[str, str] = {}
    for token in tokens(text):
        found.setdefault(token.text, token.kind)
    return found


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("HloModule", "section"), ("ENTRY", "section"), ("ROOT", "section"), ("m", "name"),
        ("is_scheduled", "attribute"), ("true", "constant"), ("// two", "comment"),
        ("%add", "computation"), ("e", "computation"), ("x", "name"), ("f32", "type"),
        ("->", "operator"), ("%x", "definition"), ("y", "name"), ("sum", "definition"),
        ("parameter", "opcode"), ("negate-start", "opcode"), ("metadata", "attribute"),
        ("op_name", "attribute"), ('"s"', "string"), ("-1.5e3", "number"), ("nan", "number"),
        ("to_apply", "attribute"), ("window", "attribute"), ("size", "property"),
        ("0_1", "number"), ("t.1", "computation"), ("f", "computation"),
        ("control-predecessors", "attribute"), ("z", "name"), ("T", "name"),
    ],
)  # fmt: skip
def test_a_word_has_its_kind(word: str, kind: str) -> None:
    assert kinds_of(MODULE)[word] == kind


def test_names_after_the_computations_of_an_attribute_are_names_again() -> None:
    named = [t.kind for t in tokens("a = f32[] call(x), to_apply=f, sharding={replicated}, z")]
    assert named.count("computation") == 1
    listed = list(tokens("branch_computations={f, g}, control-predecessors={a}"))
    assert [t.text for t in listed if t.kind == "computation"] == ["f", "g"]


def test_every_opcode_of_the_table_is_an_opcode() -> None:
    assert {kinds_of(f"x = f32[] {name}(y)")[name] for name in OPCODES} == {"opcode"}


@pytest.mark.parametrize("text", ["a = f32[2 add(", '"open', "/* open", "\0", "é§$", "a=b=c"])
def test_joined_tokens_are_the_text_whatever_it_says(text: str) -> None:
    found = list(tokens(text))
    assert "".join(token.text for token in found) == text
    assert {token.kind for token in found} <= set(get_args(Kind))


def test_text_that_is_not_hlo_is_an_error() -> None:
    assert [t.text for t in tokens("a = f32[] add(b; $c)") if t.kind == "error"] == [";", "$"]


def test_texts_that_hloc_reads_have_no_errors() -> None:
    read = 0
    for text in own_texts():
        if len(text) >= SMALL_BYTES:
            continue
        wrong = [token for token in tokens(text) if token.kind == "error"]
        try:
            if wrong:
                read_module(SourceFile(text))
            read += 1
        except HloError:
            continue
        assert not wrong, text
    assert read > 1000
    for literal in ACCEPTED_LITERALS:
        assert not any(token.kind == "error" for token in tokens(str(literal)))
