"""Reading without the grammar takes what the grammar takes, and gives the same tree and module.

`hlo.lark` is the definition of the format; patterns made of its terminals and rules, or beside
them, read XLA's spelling faster. Here both ways read a sample of the examples, golden texts and
corpus, and mutations of them; `make parse-equality` reads all.
"""

import random
import re
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Lark

from hloc.errors import HloError
from hloc.parser import plain_values, read_module
from hloc.parser.grammar_file import grammar_text, rule_pattern
from hloc.parser.lexer import Lexer
from hloc.parser.plain_values import read_plain
from hloc.parser.value_tools import BadValue
from hloc.parser.values import ValueReader
from hloc.source import SourceFile
from tests.unit.parser.test_verdicts import ACCEPTED_LITERALS
from tests.unit.parser.two_ways import SMALL_BYTES, compare, corpus_texts, mutations, own_texts

MUTATIONS = 400
SAMPLE = 150


@cache
def small_texts() -> list[str]:
    return [text for text in own_texts() + corpus_texts() if len(text) < SMALL_BYTES]


def test_a_sample_of_texts_is_read_the_same_both_ways() -> None:
    for text in random.Random(16).sample(small_texts(), SAMPLE):
        assert compare(text)[1] == "", text


@pytest.mark.parametrize("seed", range(4))
def test_a_sample_of_mutations_is_read_the_same_both_ways(seed: int) -> None:
    verdicts = set()
    for text in mutations(small_texts(), MUTATIONS // 4, seed):
        taken, difference = compare(text)
        assert difference == "", text
        verdicts.add(taken)
    assert verdicts == {True, False}


MODULE = """HloModule m, num_partitions=1

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y), metadata={op_name="sum"}
}

ENTRY %main (a: (f32[2,3]{1,0}, s32[])) -> f32[2] {
  %a = (f32[2,3]{1,0}, s32[]) parameter(0), sharding={{replicated}, {replicated}}
  %g = f32[2,3]{1,0} get-tuple-element(%a), index=0
  %zero = f32[] constant(0)
  ROOT %r = f32[2]{0} reduce(%g, %zero), dimensions={1}, to_apply=%add
}
"""


COMMENTED = """// A module as XLA dumps it, with a note on top.
HloModule m, entry_computation_layout={(f32[], f32[], f32[], f32[], f32[], /*index=5*/f32[])->f32[]}

FileNames
1 "m.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=3 end_column=4}

StackFrames
1 {file_location_id=1 parent_frame_id=1}


ENTRY main {
  a = f32[] parameter(0)
  b = f32[1,2,1]{2,1,0} constant({ { /*i0=0*/ { /*i1=0*/ 1 }, { /*i1=1*/ 2 } } })
  ROOT c = f32[] negate(a)
}
"""


def test_comments_and_tables_of_xla_do_not_need_the_grammar() -> None:
    assert Lexer(SourceFile(COMMENTED)).whole_module() is not None
    assert compare(COMMENTED)[1] == ""


def test_the_seam_turns_the_fast_way_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault in each part of the fast way is a difference."""
    assert compare(MODULE) == (True, "")
    with monkeypatch.context() as patch:
        patch.setattr("hloc.parser.values.read_plain", lambda *_: (9,))
        assert compare(MODULE)[1]
    with monkeypatch.context() as patch:
        patch.setattr("hloc.parser.whole_text.WholeText.module", lambda _: None)
        patch.setattr("hloc.parser.whole_text.WholeText.computations", lambda *_: ([], 0))
        patch.setattr("hloc.parser.whole_text.WholeText.instructions", lambda *_: ([], 0))
        assert compare(MODULE) == (True, "")


# ---------------------------------------------------------------- values

_USUAL = {
    "dim_labels": ("b01f_01io->b01f", "bf_io->fb", "b0f?_0io->b0f", "01bf_10oi->f10b"),
    "entry_computation_layout": (
        "{(f32[2]{0}, s32[])->f32[2]{0}}", "{((f32[1], u8[]))->()}",
    ),
    "input_output_alias": ("{ {0}: (0, {}, may-alias), {1,2}: (3, {4, 5}, must-alias) }", "{}"),
    "int_list": ("{}", "{0}", "{2,0,1}", "{123456789012345678}", "{-1, 3}"),
    "int_lists": ("{{0,1},{2,3}}", "{{}}", "{{7}}", "{{},{1}}"),
    "metadata": ('{op_type="a" op_name="b/c\\"" source_line=7}', "{}"),
    "names": ("{%copy.11}", "{%a,%b.2,c}", "{constant.25}"),
    "output_to_operand_aliasing": ("{{}: (1, {})}", "{{0,1}: (0, {2}), {}: (12, {})}"),
    "padding": ("0_0", "1_1x0_0", "-1_2_3x0_-5", "1_2_0"),
    "parameters": ("()", "(a: f32[2])", "(a.1: f32[2]{0}, b: (s32[], (f32[])))"),
    "propagation": ("true", "false", "{true}", "{false,true,true}"),
    "replica_groups": ("{{0,1},{2,3}}", "{{0}}", "{{}}"),
    "shape": ("f32[]", "s4[2,<=3]{0,1}", "(f32[2], (), (pred[?]))", "(f32[1], /*index=5*/s8[2])"),
    "shapes": ("{f32[2]{0}, s32[]}", "{(f32[])}"),
    "slice": ("{[0:8]}", "{[0:8], [1:32:3]}", "{[3:3], [0:1], [0:2]}"),
    "window": (
        "{size=3}", "{size=3x3 pad=1_1x-1_1}", "{size=3x2 rhs_reversal=1x0}",
        "{size=2x3x1 stride=1x2x1 pad=0_0x1_1x0_0 lhs_dilate=1x2x3 rhs_dilate=3x2x1}",
    ),
    "words": ("{highest,highest}", "{default}"),
}  # fmt: skip
"""By rule of the grammar: texts as XLA prints them."""

_PIECES = (
    "{", "}", "{{", "},{", "(", ")", "[", "]", ",", ", ", ":", "->", "=", "<=", "?", "0", "1", "12",
    "-1", "-", "_", "x", "0_1", "2x2", "%", "%a", "a.1", "b", "if", "true", "f32[2]", "f32[]{}",
    "{0}", "{1,0}", " ", "\n", "/*index=5*/", "//", '"', 'op_name="a"', "size=3", "pad=1_1", ".",
    "12345678901234567890", "\u0663", "\u00b2", "\u00a0", "+",
)  # fmt: skip


def _by_grammar(rule: str, text: str) -> object:
    try:
        return ValueReader(SourceFile(text), fast=False).read(rule, text, 0)
    except HloError:
        return "refused"


def _shape_of(text: str, _at: int) -> object:
    return ValueReader(SourceFile(text), fast=False).shape(text, 0)


@pytest.mark.parametrize(
    ("rule", "text"), [(rule, text) for rule, texts in _USUAL.items() for text in texts]
)
def test_usual_spellings_need_no_lark(rule: str, text: str) -> None:
    plain = ValueReader(SourceFile(text))
    found = plain.read(rule, text, 0)
    assert found == _by_grammar(rule, text)
    spelled = text.replace("/*index=5*/", "")
    if rule != "parameters":  # their value is dropped
        assert read_plain(rule, spelled, _shape_of) == found  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("dim_labels", "b01f_01io->b01f"),
        ("dim_labels", "bf012?_oi012->bf012"),
        ("entry_computation_layout", "{(f32[2]{0}, s32[])->f32[2]{0}}"),
        ("entry_computation_layout", "{((f32[1], u8[]))->()}"),
        ("input_output_alias", "{ {0}: (0, {}, may-alias), {1,2}: (3, {4}, must-alias) }"),
        ("int_list", "{2,0,1}"),
        ("int_lists", "{{0,1},{2,3}}"),
        ("output_to_operand_aliasing", "{{0,1}: (0, {2}), {}: (12, {})}"),
        ("padding", "1_1_0x0_-1x-2_3_1"),
        ("replica_groups", "{{0,1},{2,3}}"),
        ("shape", "(f32[2], (), (pred[?]))"),
        ("shapes", "{f32[2]{0}, (s32[])}"),
        ("slice", "{[0:8], [1:32:3]}"),
        ("window", "{size=3x3 pad=1_1x-1_1}"),
        ("words", "{highest,default}"),
    ],
)
def test_what_xla_prints_needs_no_pattern_of_its_rule(
    rule: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Patterns take 0.7 to 5 ms to compile; that of arrays is needed by every module."""
    array = plain_values._pattern("array")
    monkeypatch.setattr(plain_values, "_pattern", {"array": array}.__getitem__)
    assert ValueReader(SourceFile(text)).read(rule, text, 0) == _by_grammar(rule, text)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("entry_computation_layout", "{f32[2]->f32[]}"),
        ("entry_computation_layout", "{(f32[2])(s32[])->f32[]}"),
        ("entry_computation_layout", "{(f32[2], )->f32[]}"),
        ("input_output_alias", "{ {0}: (0, {}, may-alias), }"),
        ("input_output_alias", "{ {a}: (0, {}) }"),
        ("int_list", "{2,,1}"),
        ("int_lists", "{{0,1}{2,3}}"),
        ("output_to_operand_aliasing", "{{0}: (0, {}, may-alias)}"),
        ("dim_labels", "b_io->b"),
        ("padding", "1_1_-1"),
        ("padding", "1_1x0_0_0_0"),
        ("replica_groups", "{{0,1},2}"),
        ("shape", "(f32[2],, s32[])"),
        ("shape", "(f32[2] s32[])"),
        ("shape", "f32[2], s32[]"),
        ("shapes", "{(f32[2]), }"),
        ("slice", "{[0]}"),
        ("slice", "{[0:1:2:3]}"),
        ("window", "{size=3x3  pad=1_1x1_1}"),
        ("words", "{a b}"),
    ],
)
def test_what_looks_printed_but_is_not_is_read_as_by_the_grammar(rule: str, text: str) -> None:
    try:
        found: object = ValueReader(SourceFile(text)).read(rule, text, 0)
    except HloError:
        found = "refused"
    assert found == _by_grammar(rule, text)


def _changed() -> st.SearchStrategy[tuple[str, str]]:
    """A usual text with something put in, taken out or written over."""

    def change(rule: str, number: int, at: int, length: int, piece: str) -> tuple[str, str]:
        usual = _USUAL[rule][number % len(_USUAL[rule])]
        at %= len(usual) + 1
        return rule, usual[:at] + piece + usual[at + length :]

    return st.builds(
        change, st.sampled_from(sorted(_USUAL)), st.integers(0, 9), st.integers(0, 99),
        st.integers(0, 3), st.sampled_from(("", *_PIECES)),
    )  # fmt: skip


@settings(max_examples=600, deadline=None)
@given(_changed())
def test_values_read_without_lark_are_those_of_the_grammar(case: tuple[str, str]) -> None:
    rule, text = case
    try:
        found = ValueReader(SourceFile(text)).read(rule, text, 0)
    except HloError:
        found = "refused"
    assert found == _by_grammar(rule, text)


@pytest.mark.parametrize(
    "attribute",
    [
        'custom-call(a), custom_call_target="t", literal={[}',
        'custom-call(a), custom_call_target="t", literal={"}',
        "convolution(a, a), dim_labels=bf_io->bf, sparsity_config={lhs={sparsity=2x4(}}",
    ],
)
def test_text_that_is_kept_as_written_balances(attribute: str) -> None:
    line = f"a = f32[2,2] parameter(0)\n  b = f32[2,2] {attribute}"
    assert compare(f"HloModule m\n\nENTRY e {{\n  {line}\n}}\n") == (False, "")


def test_a_fault_of_a_plain_value_is_the_one_of_the_grammar() -> None:
    with pytest.raises(BadValue, match="unknown window field"):
        read_plain("window", "{siz=3}", _shape_of)  # type: ignore[arg-type]


def test_patterns_are_bounded_in_nesting_only() -> None:
    def tuples(nesting: int) -> re.Pattern[str]:
        return re.compile(rule_pattern("tuple_shape", nesting, {"array": "A", "buffer": "(?!)"}))

    assert tuples(2).fullmatch("((A), () , A)")
    assert not tuples(2).fullmatch("(((A)))")
    assert tuples(3).fullmatch("(((A)))")


# ---------------------------------------------------------------- literals


@cache
def _literal_grammar() -> Lark:
    return Lark(grammar_text(), parser="lalr", start="literal")


_LITERAL_PIECES = (
    "{", "}", ",", " ", "1", "-2", "+3", "1.5", ".5", "1e5", "-inf", "nan(0x1)", "nan", "true",
    "...",    "hello", "(", ")", "(1,2)", "/*i0=0*/", "\u0663", "\v", "_", "x", "-",
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([(s, t) for s, texts in ACCEPTED_LITERALS.items() for t in texts]),
    st.integers(0, 40), st.integers(0, 2), st.sampled_from(("", *_LITERAL_PIECES)),
)  # fmt: skip
def test_literals_are_read_the_same_both_ways_and_fit_the_grammar(
    case: tuple[str, str], at: int, length: int, piece: str
) -> None:
    shape, usual = case
    at %= len(usual) + 1
    literal = usual[:at] + piece + usual[at + length :]
    text = f"HloModule m\n\nENTRY e {{\n  ROOT c = {shape} constant({literal})\n}}\n"
    taken, difference = compare(text)
    assert difference == ""
    if taken and read_module(SourceFile(text)).entry.root.opcode.name == "constant":
        _literal_grammar().parse(literal)
