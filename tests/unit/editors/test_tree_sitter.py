"""The tree-sitter grammar: its colours say what hloc says, and it reads what hloc reads.

Most of it needs the program `tree-sitter` and a C compiler, and is skipped without them.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.generators import tree_sitter
from hloc.editors.tokens import Kind, tokens
from hloc.editors.vocabulary import SECTIONS
from tests.unit.editors.tree_sitter_hlo import FOLDER, Grammar, grammar_or_skip, is_legal
from tests.unit.parser.two_ways import SMALL_BYTES, own_texts

ROOT = Path(__file__).resolve().parents[3]

CAPTURES: dict[Kind, set[str]] = {
    "comment": {"comment"},
    "string": {"string"},
    "section": {"keyword"},
    "constant": {"constant.builtin"},
    "type": {"type.builtin"},
    "opcode": {"function.builtin"},
    "attribute": {"attribute"},
    "property": {"property"},
    "definition": {"variable", "property"},  # `mesh = #sdy.mesh<...>` in a dictionary
    "computation": {"function"},
    "number": {"number"},
}
"""By kind of token; names elsewhere have several parts to play."""


def test_the_colours_are_what_the_tables_say() -> None:
    written = (FOLDER / "queries" / "highlights.scm").read_text()
    assert written == tree_sitter.page(), "run `make docs`"


def test_the_grammar_has_the_sections_of_the_table() -> None:
    words = set(re.findall(r'"([A-Z]\w{3,})"', (FOLDER / "grammar.js").read_text()))
    assert words == SECTIONS


def test_files_of_the_manifest_are_there() -> None:
    (grammar,) = json.loads((FOLDER / "tree-sitter.json").read_text())["grammars"]
    assert (FOLDER / grammar["highlights"]).is_file()
    assert (FOLDER / grammar["locals"]).is_file()
    assert re.match(grammar["first-line-regex"], "HloModule jit_f, is_scheduled=true")


@pytest.fixture(scope="module")
def grammar(tmp_path_factory: pytest.TempPathFactory) -> Grammar:
    return grammar_or_skip(tmp_path_factory.mktemp("tree-sitter"))


def test_its_own_tests_pass(grammar: Grammar) -> None:
    said = grammar.test()
    assert "a module without a header" in said
    assert "reductions.hlo" in said


def test_texts_that_hloc_reads_have_no_errors(grammar: Grammar) -> None:
    texts = [text for text in own_texts() if len(text) < SMALL_BYTES and is_legal(text.encode())]
    assert len(texts) > 1000
    wrong = [texts[number] for number in grammar.faults(texts)]
    assert wrong == []


def test_a_text_without_one_of_its_brackets_has_errors(grammar: Grammar) -> None:
    text = (ROOT / "examples" / "softmax_relu.hlo").read_text()
    places = [at for at, c in enumerate(text) if c in "(){}[]"]
    broken = [text[:at] + text[at + 1 :] for at in places]
    assert grammar.faults(broken) == list(range(len(broken)))


def kinds(text: str) -> Iterator[tuple[Kind, str, int, int]]:
    """Yield kind, text, line and column of hloc's tokens."""
    line = start = 0
    for token in tokens(text):
        yield token.kind, token.text, line, token.at - start
        line += token.text.count("\n")
        if "\n" in token.text:
            start = token.at + token.text.rindex("\n") + 1


def test_colours_are_those_of_hlocs_tokens(grammar: Grammar) -> None:
    for path in sorted((ROOT / "examples").glob("*.hlo")):
        captures = {(at.line, at.column): at.name for at in grammar.captures(path)}
        wrong, seen = [], 0
        for kind, word, line, column in kinds(path.read_text()):
            if kind in CAPTURES:
                seen += 1
                if captures.get((line, column)) not in CAPTURES[kind]:
                    wrong.append((path.name, kind, word, line + 1, captures.get((line, column))))
        assert wrong == []
        assert seen > 50
