"""Values read without the grammar are those that the grammar gives, for whatever text there is."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hloc.errors import HloError
from hloc.parser import values
from hloc.parser.plain_values import PLAIN_READERS
from hloc.parser.value_tools import BadValue
from hloc.parser.values import ValueReader
from hloc.source import SourceFile

_USUAL = {
    "dim_labels": ("b01f_01io->b01f", "bf_io->fb", "b0f?_0io->b0f", "01bf_10oi->f10b"),
    "input_output_alias": ("{ {0}: (0, {}, may-alias), {1,2}: (3, {4, 5}, must-alias) }", "{}"),
    "int_list": ("{}", "{0}", "{2,0,1}", "{123456789012345678}"),
    "int_lists": ("{{0,1},{2,3}}", "{{}}", "{{7}}", "{{},{1}}"),
    "metadata": ('{op_type="a" op_name="b/c" source_line=7}', "{}"),
    "names": ("{%copy.11}", "{%a,%b.2,c}", "{constant.25}"),
    "output_to_operand_aliasing": ("{{}: (1, {})}", "{{0,1}: (0, {2}), {}: (12, {})}"),
    "padding": ("0_0", "1_1x0_0", "-1_2_3x0_-5", "1_2_0"),
    "propagation": ("true", "false", "{true}", "{false,true,true}"),
    "replica_groups": ("{{0,1},{2,3}}", "{{0}}", "{{}}"),
    "slice": ("{[0:8]}", "{[0:8], [1:32:3]}", "{[3:3], [0:1], [0:2]}"),
    "window": (
        "{size=3}",
        "{size=3x3 pad=1_1x-1_1}",
        "{size=2x3x1 stride=1x2x1 pad=0_0x1_1x0_0 lhs_dilate=1x2x3 rhs_dilate=3x2x1}",
        "{size=3x2 rhs_reversal=1x0}",
        "{rhs_dilate=2 size=3}",
    ),
    "words": ("{highest,highest}", "{default}"),
}  # fmt: skip
"""By rule of the grammar: texts as XLA prints them."""

_PIECES = {
    "dim_labels": ("b", "f", "i", "o", "0", "1", "2", "?", "_", "->", "01", "bf", "io", "-", "x"),
    "input_output_alias": ("{", "}", "(", ")", "0", "1", ":", ", ", "may-alias", "{0}: (1, {})"),
    "int_list": ("{", "}", ",", "0", "17", "-1", " ", "12345678901234567890", "٣", "x", "²"),
    "int_lists": ("{", "}", "{{", "},{", ",", "0", "-1", " ", "x", "{1}", "{{1,2}}"),
    "metadata": ("{", "}", 'op_name="a"', " ", "source_line=3", "x=1", ",", '"', "op_type="),
    "names": ("{", "}", ",", "%", "a.1", "b-c", "%d", ".", "_", " ", "5", "é", "{%a}"),
    "output_to_operand_aliasing": (
        "{", "}", "{}", ": (", "1", ", ", "{0}", ")", ")}", "{1,2}: (0, {})", " ", "-1", "x",
    ),
    "padding": ("0", "1", "_", "x", "-", "12", "0_0", "x1_1", " ", "+", "٣"),
    "propagation": ("true", "false", "{", "}", ",", "True", " ", "{true}"),
    "replica_groups": ("{", "}", "{{", "},{", ",", "0", "5", " ", "[", "{1}", "{{0,1}}"),
    "slice": ("{", "}", "[", "]", "{[0:1]", ", ", ",", ":", "3", "-1", " ", "]}", "[0:2:3]"),
    "window": (
        "{", "}", "size=", "stride=", "pad=", "rhs_reversal=", "lhs_dilate=", "dilate=", "3", "x",
        "0_1", "_", "-", " ", "2x2", "size=3x3", "pad=1_1x0_0", "size=0", ",", "=",
    ),
    "words": (
        "{", "}", ",", "highest", "a1", "3", "%", "true", "x", ".", " ", "if", "ß", "{default}",
    ),
}  # fmt: skip
"""By rule: what texts, right and wrong ones, are put together from."""


def _nonsense() -> st.SearchStrategy[tuple[str, str]]:
    return st.sampled_from(sorted(_PIECES)).flatmap(
        lambda rule: st.tuples(
            st.just(rule), st.lists(st.sampled_from(_PIECES[rule]), max_size=9).map("".join)
        )
    )


def _mixed() -> st.SearchStrategy[tuple[str, str]]:
    """A usual text with something put in, taken out or written over."""

    def change(rule: str, usual: str, at: int, length: int, piece: str) -> tuple[str, str]:
        at %= len(usual) + 1
        return rule, usual[:at] + piece + usual[at + length :]

    return st.sampled_from(sorted(_PIECES)).flatmap(
        lambda rule: st.builds(
            change,
            st.just(rule),
            st.sampled_from(_USUAL[rule]),
            st.integers(0, 99),
            st.integers(0, 3),
            st.sampled_from(("", *_PIECES[rule])),
        )
    )


def _by_grammar(rule: str, text: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the value, or the text of the fault, that the grammar alone gives."""
    with monkeypatch.context() as patch:
        patch.setattr(values, "PLAIN_READERS", {rule: lambda _text: None})
        try:
            return ValueReader(SourceFile(text)).read(rule, text, 0)
        except HloError as fault:
            return str(fault)


def _plainly(rule: str, text: str) -> Any:
    try:
        return PLAIN_READERS[rule](text)
    except BadValue:
        try:
            return ValueReader(SourceFile(text)).read(rule, text, 0)
        except HloError as fault:
            return str(fault)


@pytest.mark.parametrize(
    ("rule", "text"), [(rule, text) for rule in sorted(_USUAL) for text in _USUAL[rule]]
)
def test_usual_spellings_need_no_grammar(
    rule: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = PLAIN_READERS[rule](text)
    assert found is not None
    assert found == _by_grammar(rule, text, monkeypatch)


@settings(max_examples=800)
@given(st.one_of(_nonsense(), _mixed()))
def test_what_is_read_without_the_grammar_is_what_the_grammar_says(case: tuple[str, str]) -> None:
    rule, text = case
    found = _plainly(rule, text)
    if found is not None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            assert found == _by_grammar(rule, text, monkeypatch)


def test_every_plain_reader_is_tested() -> None:
    assert PLAIN_READERS.keys() == _USUAL.keys() == _PIECES.keys()
