"""Both ways of reading an instruction, whole and piece by piece, give the same syntax tree."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloc.parser import read_module
from hloc.parser.to_ast import parse_ast
from hloc.parser.values import ValueReader
from hloc.source import SourceFile
from tests.unit.parser.test_golden import GOLDEN, cases

PRINTED = [
    expected
    for path in sorted((GOLDEN / "parser").iterdir())
    for _name, _text, expected in cases(Path(path))
]


@pytest.mark.parametrize("text", PRINTED)
def test_whole_and_spelled_instructions_agree(text: str) -> None:
    whole, faults = parse_ast(SourceFile(text))
    spelled, more = parse_ast(SourceFile(text), fast=False)
    assert whole == spelled
    assert faults == more == []


_TWO = """HloModule m, num_partitions=1

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y), metadata={op_name="sum"}
}

BETWEEN
ENTRY %main (a: (f32[2,3]{1,0}, s32[])) -> f32[2] {
  %a = (f32[2,3]{1,0}, s32[]) parameter(0), sharding={{replicated}, {replicated}}
  %g = f32[2,3]{1,0} get-tuple-element(%a), index=0
  %zero = f32[] constant(0)
  ROOT %r = f32[2]{0} reduce(%g, %zero), dimensions={1}, to_apply=%add
}TAIL
"""


@pytest.mark.parametrize("between", ["", "// a comment", "/* } */", "\n\n\n"])
@pytest.mark.parametrize("tail", ["", ', execution_thread="main"', " // the end"])
def test_whole_and_spelled_computations_agree(between: str, tail: str) -> None:
    text = _TWO.replace("BETWEEN", between).replace("TAIL", tail)
    whole, faults = parse_ast(SourceFile(text))
    spelled, more = parse_ast(SourceFile(text), fast=False)
    assert whole == spelled
    assert faults == more == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%sum = f32[]", "%sum = = f32[]"),
        ("}\n\nBETWEEN", "}, \n\nBETWEEN"),
        ("BETWEEN", "}"),
        ("ENTRY %main", "ENTRY ROOT"),
        ("index=0", "index="),
        (" -> f32[2] {", " -> {"),
    ],
)
def test_faults_beside_whole_computations_are_those_of_the_spelled_ones(old: str, new: str) -> None:
    text = _TWO.replace(old, new, 1).replace("BETWEEN", "").replace("TAIL", "")
    _, whole = parse_ast(SourceFile(text))
    _, spelled = parse_ast(SourceFile(text), fast=False)
    assert whole
    assert whole == spelled


_PLAIN = """
ENTRY e {
  ROOT a = f32[2]{0} parameter(0)
}
"""
_HEADERS = (
    "HloModule m",
    "HloModule %m.1, is_scheduled=true",
    "\n\nHloModule jit_f, entry_computation_layout={(f32[2]{0})->f32[2]{0}}, num_partitions=4",
    "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }, replica_count=2",
    'HloModule m, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2]>}}',
    'HloModule m, frontend_attributes={a="}{",b={"c": 1}}, is_scheduled=true',
    "HloModule m, entry_computation_layout={(f32[2], /*index=5*/f32[2])->f32[2]}",
)


@pytest.mark.parametrize("header", _HEADERS)
@pytest.mark.parametrize("tail", ["", "\n\n", "\n// the end"])
def test_headers_are_read_the_same_as_a_whole_and_piece_by_piece(header: str, tail: str) -> None:
    source = SourceFile(f"{header}\n{_PLAIN}{tail}")
    whole, faults = parse_ast(source)
    spelled, more = parse_ast(source, fast=False)
    assert whole == spelled
    assert faults == more == []


@pytest.mark.parametrize(
    "layout", ["{0}", "{/* { */0}", " /* { */ {0}", "{ // c\n0 }", "{/**/0:T(8)}"]
)
def test_comments_around_the_brace_of_a_layout_are_skipped(layout: str) -> None:
    """As XLA does, which looks at the next token after the brace."""
    operand = f"f32[2]{layout} a"
    text = f"HloModule m\nENTRY e {{\n a = f32[2] parameter(0)\n ROOT b = f32[2] abs({operand})\n}}"
    for fast in (True, False):
        assert read_module(SourceFile(text), fast).entry.root.name == "b"


_HEADER_PIECES = st.lists(
    st.sampled_from(
        ["HloModule", " ", "m", "%m", ",", ", ", "is_scheduled=", "true", "{", "}", "(", ")", "x=",
         "metadata=", "3", '"a"', "'", "//", "/*", "*/", "\n", "ENTRY", "FileNames", ".", "a-b=",
         "f32[2]{0}", "->", "[1,2]<=[2]"]
    ),
    max_size=9,
).map("".join)  # fmt: skip


@given(_HEADER_PIECES)
def test_nonsense_in_a_header_is_read_the_same_both_ways(rest: str) -> None:
    source = SourceFile(f"HloModule {rest}\n{_PLAIN}")
    whole, faults = parse_ast(source)
    spelled, more = parse_ast(source, fast=False)
    assert bool(faults) == bool(more)
    if not faults:
        assert whole == spelled


_PIECES = st.lists(
    st.sampled_from(
        ["{", "}", "(", ")", "[", "]", '"', "'", "/*", "*/", "//", ",", "=", "a", "%b", "ROOT ",
         "f32[2]{0}", " add(", "x=", "\n  ", "metadata=", "1", "\\", "c = "]
    ),
    max_size=25,
).map("".join)  # fmt: skip


@given(_PIECES)
def test_whole_and_spelled_instructions_agree_on_nonsense(middle: str) -> None:
    text = f"HloModule m\n\nENTRY e {{\n  a = f32[2]{{0}} parameter(0)\n  b = {middle}\n}}\n"
    whole, faults = parse_ast(SourceFile(text))
    spelled, more = parse_ast(SourceFile(text), fast=False)
    assert bool(faults) == bool(more)
    if not faults:
        assert whole == spelled


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("metadata", 'metadata={op_type="a" op_name="b/c" source_file="\\"d\\"" source_line=7}'),
        ("metadata", 'metadata={stack_frame_id=3 op_name="order"}'),
        ("metadata", "metadata={}"),
        ("input_output_alias", "x={ {0}: (0, {}, may-alias), {1,2}: (3, {4, 5}, must-alias) }"),
        ("input_output_alias", "x={{}: (1, {})}"),
        ("input_output_alias", "x={}"),
    ],
)
def test_plain_values_are_read_the_same_with_and_without_the_grammar(rule: str, text: str) -> None:
    plain = text.partition("=")[2]
    spaced = plain.replace("{", "{ \t").replace("(", "(  ")  # which no plain pattern takes
    found = ValueReader(SourceFile(plain)).read(rule, plain, 0)
    assert found == ValueReader(SourceFile(spaced)).read(rule, spaced, 0)


@given(
    st.lists(
        st.sampled_from(["f32[2,3]{1,0}", "s8[]", "bf16[4]", "pred[0,2]{0,1}", "u4[7]{0}"]),
        max_size=7,
    )
)
def test_flat_tuples_are_read_the_same_with_and_without_the_grammar(arrays: list[str]) -> None:
    plain = "(" + ", ".join(arrays) + ")"
    spaced = "( " + " , ".join(arrays) + " )"
    assert ValueReader(SourceFile(plain)).shape(plain, 0) == ValueReader(SourceFile(spaced)).shape(
        spaced, 0
    )
