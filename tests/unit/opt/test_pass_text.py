"""Text forms of passes and pipelines: what is printed is read back, and faults are explained."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloc.errors import HloError
from hloc.opt.pass_base import pass_text
from hloc.opt.pipeline import Pipeline
from hloc.opt.registry import ALIASES, PASSES, canonical_name, pass_class

WRITTEN = [
    "dce",
    "fusion{max-operands=8}",
    "fusion{max-operands=8,max-instructions=2}",
    "cse,dce",
    "fixpoint(algebraic-simplifier,dce),fusion",
    "fixpoint{limit=3}(fixpoint(cse),dce)",
    "",
]
IMPLEMENTED = [name for name in PASSES if name not in ("copy-insertion", "flatten-call-graph")]


@pytest.mark.parametrize("text", WRITTEN)
def test_text_survives(text: str) -> None:
    assert str(Pipeline.parse(text)) == text


def test_options_at_their_default_are_not_printed() -> None:
    assert str(Pipeline.parse(" fusion { max-operands = 48 } , dce ")) == "fusion,dce"


@pytest.mark.parametrize("name", IMPLEMENTED)
def test_every_pass_is_found_under_its_own_name(name: str) -> None:
    assert pass_class(name).name == name
    assert pass_text(pass_class(name)()) == name


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_xlas_names_are_accepted(alias: str, name: str) -> None:
    assert canonical_name(alias) == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fusio", "there is no pass 'fusio'"),
        ("fusion{max-operand=8}", "pass fusion has no option 'max-operand'; its options are max-"),
        ("dce{x=1}", "pass dce has no option 'x'; it has no options"),
        (
            "fusion{max-operands=lots}",
            "option max-operands of pass fusion is a number of 0 or more",
        ),
        ("fusion{max-operands=-1}", "is a number of 0 or more, not '-1'"),
        ("fusion{max-operands=" + "9" * 40 + "}", "is a number of 0 or more"),
        ("dce,", "expected the name of a pass, found the end"),
        ("dce cse", "expected the end after 'dce', found 'cse'"),
        ("fixpoint dce", "expected '\\('"),
        ("fixpoint(dce", "expected '\\)'"),
        ("fixpoint{limit=0}(dce)", "limit, a number from 1 to 1000"),
        ("dce;cse", "unexpected character ';'"),
        ("fixpoint(" * 20, "nested more than 8 deep"),
    ],
)
def test_faults_are_explained(text: str, message: str) -> None:
    with pytest.raises(HloError, match=message):
        Pipeline.parse(text)


def test_a_misspelt_pass_gets_a_suggestion() -> None:
    with pytest.raises(HloError) as caught:
        Pipeline.parse("algebraic-simplifer")
    assert "did you mean 'algebraic-simplifier'?" in str(caught.value)


@given(st.text(alphabet="dce,(){}=fixpoint1 -\n\u00e9", max_size=40))
def test_no_text_does_harm(text: str) -> None:
    try:
        pipeline = Pipeline.parse(text)
    except HloError:
        return
    assert Pipeline.parse(str(pipeline)) == pipeline
