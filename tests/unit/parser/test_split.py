"""Several modules in one file: each is read alone, and faults have the lines of the file."""

import pytest

import hloc
from hloc.parser import parse, split_modules
from hloc.source import SourceFile

ONE = "HloModule one\nENTRY e { ROOT a = f32[] parameter(0) }\n"


def test_a_text_without_separator_is_one_module() -> None:
    source = SourceFile(ONE, "x.hlo")
    assert split_modules(source) == (source,)
    assert [piece.text for piece in split_modules(ONE)] == [ONE]


def test_pieces_between_separators_are_modules() -> None:
    two, three = ONE.replace("one", "two"), "f32[2] add(f32[2] x, f32[2] y)"
    text = f"{ONE}// -----\n\n{two}\n// -----  \r\n{three}"
    modules = [parse(piece) for piece in split_modules(text)]
    assert [module.name for module in modules][:2] == ["one", "two"]
    assert modules[2].instruction_count == 3


def test_empty_pieces_are_left_out_unless_all_are_empty() -> None:
    assert len(split_modules(f"// -----\n// only this\n// -----\n{ONE}// -----\n")) == 1
    (empty,) = split_modules("\n// -----\n\n")
    with pytest.raises(hloc.HloError, match="the text is empty"):
        parse(empty)


def test_a_longer_line_is_a_comment() -> None:
    assert len(split_modules(f"{ONE}// ------\n  // -----\n")) == 1


def test_faults_have_the_line_numbers_of_the_file() -> None:
    bad = "HloModule two\nENTRY e {\n  ROOT a = f32[] parametr(0)\n}\n"
    _, piece = split_modules(SourceFile(f"{ONE}// -----\n{bad}", "x.hlo"))
    with pytest.raises(hloc.HloError) as caught:
        parse(piece)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("x.hlo:6:18: error[HLOC0104]")
    assert lines[1] == "    6 |   ROOT a = f32[] parametr(0)"
