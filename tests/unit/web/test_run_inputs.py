"""The inputs that somebody types for a run in the page."""

from pathlib import Path

import numpy as np
import pytest

import hloc
from hloc.errors import HloError
from hloc.web.run_inputs import inputs_of

MODULE = hloc.parse("""HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  mask = pred[4] parameter(1)
  n = s32[2] parameter(2)
  ROOT t = (f32[4], pred[4], s32[2]) tuple(x, mask, n)
}
""")


def test_each_line_gives_an_input_and_the_others_are_random() -> None:
    inputs = inputs_of("x = [1,2,3,4]\n\n  mask=zeros  \r\n", 3, MODULE)
    x, mask, n = inputs.arrays(MODULE)
    assert x.tolist() == [1, 2, 3, 4]
    assert mask.tolist() == [False] * 4
    assert n.tolist() == inputs_of("", 3, MODULE).arrays(MODULE)[2].tolist()
    assert inputs.describe(MODULE) == "random, seed 3, x=[1,2,3,4], mask=zeros"


def test_the_seed_is_that_of_the_lines_too() -> None:
    first, again, other = (
        inputs_of("x=normal(0,1)", seed, MODULE).arrays(MODULE)[0] for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x", "line 1 of the inputs: expected NAME=SPEC such as x=normal(0,1), found 'x'"),
        ("x=ones\n=ones", "line 2 of the inputs: expected NAME=SPEC"),
        ("x=ones\n\ny=ones", "line 3 of the inputs: the module takes no 'y'"),
        ("x=[1,2]", "line 1 of the inputs: the list has 2 elements, expected 4 for f32[4]"),
        ("x=nothing", "line 1 of the inputs: cannot read the input 'nothing'"),
        ("x=5xf32=ones", "line 1 of the inputs: x is 4xf32, not 5xf32"),
    ],
)
def test_a_fault_names_its_line(text: str, words: str) -> None:
    with pytest.raises(HloError) as caught:
        inputs_of(text, 0, MODULE)
    assert caught.value.message.startswith(words)


@pytest.mark.parametrize("spec", ["@{}", " @{}", "4xf32=@{}"])
def test_no_file_is_read(spec: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(4, np.float32))
    with pytest.raises(HloError, match="the page reads no files") as caught:
        inputs_of("x=" + spec.format(tmp_path / "x.npy"), 0, MODULE)
    assert caught.value.diagnostics[0].notes == ("hloc run --input does",)
