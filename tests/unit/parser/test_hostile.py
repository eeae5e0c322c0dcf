"""No text crashes the parser, hangs it or makes it recurse: there is always a diagnostic."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloc.errors import HloError
from hloc.parser import parse
from hloc.source import SourceFile
from tests.unit.parser.test_golden import GOLDEN, cases

HEAD = "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = "
MANY = 10_000


def message(text: str) -> str:
    """Return the first message about `text`, which must be wrong."""
    with pytest.raises(HloError) as caught:
        parse(SourceFile(text), verify=False)
    assert str(caught.value)
    return caught.value.message


@pytest.mark.parametrize("bracket", ["(", "{", "["])
@pytest.mark.parametrize(
    "before", ["f32[2] add(", "f32[2] negate(x), a=", "f32[2] constant(", "", "f32[2] "]
)
def test_deep_brackets(before: str, bracket: str) -> None:
    assert message(HEAD + before + bracket * MANY)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD + "f32[2] " + "negate(" * MANY + "x" + ")" * MANY + "\n}", "nested too deeply"),
        (HEAD + "(" * 500 + "f32[]" + ")" * 500 + " parameter(1)\n}", "nested too deeply"),
        (HEAD + "f32[" + "9" * MANY + "] negate(x)\n}", "does not fit in 63 bits"),
        (HEAD + f"f32[{2**62}] constant(1)\n}}", "larger than"),
        (HEAD + f"f32[{2**40}] constant({{1}})\n}}", "larger than"),
        (HEAD + "s32[1] constant({" + "1" * MANY + "})\n}", "out of range"),
        ("\x7fELF\x01\x02", "unexpected character U\\+007F"),
        ("HloModule m\0", "NUL"),
        ("\ud800", "half a character"),
    ],
)
def test_messages(text: str, expected: str) -> None:
    with pytest.raises(HloError, match=expected):
        parse(SourceFile(text), verify=False)


def test_elided_constants_of_any_size_take_no_memory() -> None:
    module = parse(SourceFile(HEAD + f"f32[{2**60}] constant({{...}})\n}}"), verify=False)
    assert "constant({...})" in module.to_text()


def test_hundreds_of_errors_end_in_a_summary() -> None:
    text = (
        HEAD + "f32[2] negate(x)\n" + "".join(f"  y{i} = f32[] foo(x)\n" for i in range(300)) + "}"
    )
    with pytest.raises(HloError) as caught:
        parse(SourceFile(text), verify=False)
    assert len(caught.value.diagnostics) == 101
    assert caught.value.diagnostics[-1].message == "200 more errors are not shown"


@pytest.mark.parametrize(
    "piece", ["a ", "a = ", "ENTRY ", ";", '"', "'", "/", "/*", "%", "x=", "\\"]
)
def test_time_is_linear(piece: str) -> None:
    started = time.process_time()
    message(HEAD + piece * MANY)
    assert time.process_time() - started < 10


TEXTS = [
    text for path in sorted((GOLDEN / "parser").iterdir()) for _name, text, _expected in cases(path)
]


@given(st.sampled_from(TEXTS), st.data())
def test_a_text_cut_anywhere_is_read_or_explained(text: str, data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(text)))
    _read_or_explain(text[:end])


@given(st.sampled_from(TEXTS), st.data())
def test_a_text_with_a_hole_or_a_stray_character_is_read_or_explained(
    text: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 12)))
    middle = data.draw(st.text("(){}[]\"'/*=,%:;#\\-.0afT \n", max_size=3))
    _read_or_explain(text[:start] + middle + text[end:])


def _read_or_explain(text: str) -> None:
    try:
        shown = parse(SourceFile(text), verify=False).to_text()
    except HloError as error:
        shown = str(error)
    assert shown


def test_a_single_instruction_with_an_unknown_operand_is_explained() -> None:
    with pytest.raises(HloError, match="instruction does not exist: s"):
        parse(SourceFile("s32[3] subtract(s32[3], s)"))
