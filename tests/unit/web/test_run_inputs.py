"""The inputs that somebody types for a run in the page, or sends as a file."""

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
    assert caught.value.diagnostics[0].notes == ("choose the file below the lines",)


def test_a_file_gives_all_inputs_and_lines_go_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    x, mask, n = np.arange(4, dtype=np.float32), np.ones(4, bool), np.array([7, 8], np.int32)
    np.savez("all.npz", x=x, mask=mask, n=n)
    inputs = inputs_of("n=[1,2]", 0, MODULE, "all.npz")
    assert [array.tolist() for array in inputs.arrays(MODULE)] == [x.tolist(), [True] * 4, [1, 2]]
    assert inputs.describe(MODULE) == "all.npz, n=[1,2]"


def test_a_line_takes_one_array_of_the_file_and_the_others_are_random(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("some.npz", a=np.arange(4, dtype=np.float32), b=np.zeros(3))
    inputs = inputs_of("x=@some.npz:a", 1, MODULE, "some.npz")
    assert inputs.arrays(MODULE)[0].tolist() == [0, 1, 2, 3]
    assert np.array_equal(inputs.arrays(MODULE)[1], inputs_of("", 1, MODULE).arrays(MODULE)[1])
    with pytest.raises(HloError, match=r"the page reads no file but some\.npz"):
        inputs_of("x=@other.npz:a", 1, MODULE, "some.npz")


def test_an_array_alone_is_the_only_input_or_is_named_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.arange(4, dtype=np.float32))
    one = hloc.parse("HloModule m\nENTRY e { x = f32[4] parameter(0) ROOT n = f32[4] negate(x) }")
    assert inputs_of("", 0, one, "x.npy").arrays(one)[0].tolist() == [0, 1, 2, 3]
    assert inputs_of("x=@x.npy", 0, MODULE, "x.npy").arrays(MODULE)[0].tolist() == [0, 1, 2, 3]
    with pytest.raises(HloError, match=r"x\.npy holds one array, and the module takes 3") as caught:
        inputs_of("", 0, MODULE, "x.npy")
    assert caught.value.diagnostics[0].notes == ("say which in a line: x=@x.npy",)
