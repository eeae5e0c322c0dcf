"""Both ways of reading an instruction, whole and piece by piece, give the same syntax tree."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    spelled, more = parse_ast(SourceFile(text), whole=False)
    assert whole == spelled
    assert faults == more == []


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
    spelled, more = parse_ast(SourceFile(text), whole=False)
    assert bool(faults) == bool(more)
    if not faults:
        assert whole == spelled


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
