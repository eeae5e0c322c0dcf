"""What the language server answers, feature by feature, without the protocol."""

import pytest

from hloc.errors import HloError
from hloc.lsp.colours import coloured
from hloc.lsp.completion import complete
from hloc.lsp.document import Document, read_document
from hloc.lsp.fixes import fixes
from hloc.lsp.hints import shape_hints
from hloc.lsp.hover import hover
from hloc.lsp.names import definition, references, renamed
from hloc.lsp.outline import folds, lenses, symbols
from hloc.lsp.parts import Range
from hloc.source import SourceFile

MODULE = """HloModule m

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}

ENTRY %main (p: f32[2,3]) -> f32[2] {
  %p = f32[2,3]{0,1} parameter(0), metadata={op_name="jit(f)/p" source_file="m.py" source_line=7}
  %zero = constant(0)
  %x = f32[2,3]{1,0} tanh(%p)
  ROOT %r = f32[2]{0} reduce(%x, %zero), dimensions={1}, to_apply=%add
}
""".replace("%zero = constant(0)", "%zero = f32[] constant(0)")


def document_of(text: str = MODULE) -> Document:
    return read_document(SourceFile(text))


def at(text: str, mark: str) -> int:
    """Return the offset of `|` in `mark`, which stands in `text` without it."""
    return text.index(mark.replace("|", "")) + mark.index("|")


def texts(document: Document, ranges: list[Range]) -> list[str]:
    return [document.text[start:end] for start, end in ranges]


# ---------------------------------------------------------------- hover


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        ("ROOT %|r =", ["reduce(x, zero)", "memory: 8 B", "6 FLOP", "users: the result"]),
        ("tanh(%p|)", ["f32[2,3]{0,1} parameter", "users: x", "m.py:7", "jit(f)/p"]),
        ("%|x = f32[2", ["elementary functions: 6", "24 B read, 24 B written"]),
        ("f32[] ad|d(", ["operands: 2", "example:"]),
        ("to_apply=%|add", ["add (x: f32[], y: f32[]) -> f32[]", "3 instructions, called from 1"]),
        ("dim|ensions={1}", ["`dimensions`: int list, required"]),
        ("to_ap|ply=%add", ["`to_apply`: computation, required"]),
    ],
)
def test_hover_says_what_a_word_is(mark: str, expected: list[str]) -> None:
    found = hover(document_of(), at(MODULE, mark))
    assert found is not None
    for piece in expected:
        assert piece in found.text.replace("\\", "")


def test_hover_of_a_blank_or_an_unknown_name_is_nothing() -> None:
    assert hover(document_of(), 0) is None
    broken = MODULE.replace("tanh(", "tahn(")
    assert hover(document_of(broken), at(broken, "%|x = f32[2,3]{1,0} tahn")) is None
    assert hover(document_of(broken), at(broken, "ad|d(%x")) is not None
    found = hover(document_of(broken), at(broken, "tahn(%|p"))
    assert found is not None  # what could be read is known
    assert "users: none" in found.text


def test_a_name_cannot_write_markup() -> None:
    text = MODULE.replace('"jit(f)/p"', '"<img src=x>[a](b)"')
    found = hover(document_of(text), at(text, "tanh(%p|)"))
    assert found is not None
    assert "<img" not in found.text.replace("\\<", "")


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("mark", "line"),
    [
        ("tanh(%p|)", "%p = f32[2,3]{0,1}"),
        ("reduce(%|x", "%x = f32[2,3]{1,0}"),
        ("add(%|x", "%x = f32[] parameter"),
        ("to_apply=%a|dd", "add (x:"),
    ],
)
def test_a_name_leads_to_its_definition(mark: str, line: str) -> None:
    found = definition(document_of(), at(MODULE, mark))
    assert found is not None
    assert MODULE.startswith(line, found.start)


def test_references_stay_in_the_computation() -> None:
    document = document_of()
    assert len(references(document, at(MODULE, "reduce(%|x"))) == 2
    assert len(references(document, at(MODULE, "add(%|x"))) == 3  # the signature too
    found = references(document, at(MODULE, "to_apply=%a|dd"))
    assert [MODULE[:start].count("\n") for start, _ in found] == [2, 12]
    assert references(document, at(MODULE, "ad|d(%x")) == []


def test_rename_replaces_every_use_and_keeps_the_sign() -> None:
    document = document_of()
    edits = renamed(document, at(MODULE, "reduce(%|x"), "hyper")
    assert [text for _, text in edits] == ["%hyper", "%hyper"]
    text = MODULE
    for (start, end), new in reversed(edits):
        text = text[:start] + new + text[end:]
    assert list(document_of(text).faults()) == []
    assert "add(%x, %y)" in text


@pytest.mark.parametrize("name", ["", "a b", "ROOT", "f32", "p", "%p", "1"])
def test_rename_refuses_invalid_and_taken_names(name: str) -> None:
    with pytest.raises(HloError):
        renamed(document_of(), at(MODULE, "reduce(%|x"), name)


# ---------------------------------------------------------------- faults and fixes

FIXES = {
    "opcode": ("tanh(", "tahn("),
    "operand": ("reduce(%x, %zero)", "reduce(%x, %zeero)"),
    "attribute": ("dimensions=", "dimension="),
    "computation": ("to_apply=%add", "to_apply=%ad"),
    "shape": ("%x = f32[2,3]{1,0}", "%x = f32[3,3]{1,0}"),
    "shape of an operand": ("tanh(%p)", "tanh(f32[2,3] %p)"),
}


@pytest.mark.parametrize("case", FIXES)
def test_a_fix_makes_the_text_right(case: str) -> None:
    good, bad = FIXES[case]
    text = MODULE.replace(good, bad.replace("f32[2,3] %p", "f32[2,9] %p"))
    document = document_of(text)
    (fault, *_) = document.faults()
    (fix, *_) = fixes(document, fault)
    start, end = fix.range
    repaired = document_of(text[:start] + fix.text + text[end:])
    assert list(repaired.faults()) == []
    if case != "shape of an operand":
        assert repaired.text == MODULE


def test_a_fault_without_advice_has_no_fix() -> None:
    document = document_of(MODULE.replace("ROOT %r", "ROOT %x"))
    (fault,) = document.faults()
    assert list(fixes(document, fault)) == []


# ---------------------------------------------------------------- outline


def test_the_outline_lists_computations_and_instructions() -> None:
    add, main = symbols(document_of())
    assert (add.name, add.detail, main.name, main.detail) == ("add", "", "main", "entry")
    assert [child.name for child in main.children] == ["p", "zero", "x", "r"]
    child = main.children[3]
    assert child.detail == "reduce f32[2]"
    assert MODULE[slice(*child.name_range)] == "%r"
    assert MODULE[slice(*child.range)].endswith("to_apply=%add")
    assert MODULE[slice(*main.name_range)] == "main"


def test_computations_fold_and_the_entry_has_lenses() -> None:
    document = document_of()
    ends = [MODULE[:end].count("\n") for _, end in folds(document)]
    assert ends == [6, 13]
    found = list(lenses(document))
    assert [lens.command for lens in found] == ["hloc.run", "hloc.graph", "hloc.passes"]
    assert {MODULE[: lens.range.start].count("\n") for lens in found} == {8}
    assert list(lenses(document_of("HloModule m\n"))) == []


def test_shapes_that_are_left_out_are_hints() -> None:
    text = MODULE.replace("f32[2,3]{1,0} tanh", "tanh")
    (hint,) = shape_hints(document_of(text), Range(0, len(text)))
    assert hint.text == "f32[2,3]"
    assert text.startswith("tanh(", hint.at)
    assert list(shape_hints(document_of(text), Range(0, 100))) == []


def test_tokens_have_the_colours_of_their_kinds() -> None:
    found = {
        MODULE[slice(*token.range)]: token.colour
        for token in coloured(document_of(), Range(0, len(MODULE)))
    }
    assert found["ENTRY"] == "keyword"
    assert found["tanh"] == "method"
    assert found["%main"] == "function"
    assert found["%x"] == "variable"
    assert found["dimensions"] == "property"


# ---------------------------------------------------------------- completion


@pytest.mark.parametrize(
    ("line", "label", "others"),
    [
        ("  %n = f32[2] ta|", "tanh", True),
        ("  ROOT n = tan|", "tanh", True),
        ("  %n = f32[2] tanh(%|", "%p", True),
        ("  %n = f32[2] add(%p, %z|", "%zero", True),
        ("  %n = f32[2] reduce-window(%p, %zero), window={size=2x2 |", "", False),
        ("  %n = f32[2] reduce(%p, %zero), dim|", "dimensions", True),
        ("  %n = f32[2] reduce(%p, %zero), dimensions={1}, to_apply=|", "add", False),
        ("  %n = pred[] compare(%p, %p), direction=|", "LT", True),
    ],
)
def test_completion_offers_what_may_stand_there(line: str, label: str, others: bool) -> None:
    text = MODULE.replace("  ROOT %r", f"{line}\n  ROOT %r")
    offset = text.index("|")
    found = complete(document_of(text.replace("|", "")), offset)
    labels = [item.label for item in found.items]
    assert label in labels or not label
    assert (len(labels) > 1) == others
    assert text[found.range.start : offset] in ("ta", "tan", "%", "%z", "dim", "")


def test_completion_offers_no_later_instruction_and_no_attribute_twice() -> None:
    text = MODULE.replace("tanh(%p)", "tanh()")
    labels = [i.label for i in complete(document_of(text), at(text, "tanh(|)")).items]
    assert labels == ["%zero", "%p"]  # the nearest first
    text = MODULE.replace(", to_apply=%add", ", ")
    labels = [i.label for i in complete(document_of(text), at(text, "{1}, |")).items]
    assert "to_apply" in labels
    assert "dimensions" not in labels
