"""Files of arrays that the page sends: bounded, in the child's own folder, never unpickled."""

import base64
import pickle
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hloc
from hloc.errors import HloError
from hloc.report.inputs import result_leaves
from hloc.web import array_files
from hloc.web.answers import Answerer
from hloc.web.array_files import given_file, results_file
from tests.unit.web.test_answers import ask

TEXT = "HloModule m\nENTRY e { x = f32[2] parameter(0) ROOT n = f32[2] negate(x) }\n"
GOOD = np.array([3, 4], np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def letters(data: bytes) -> str:
    return base64.b64encode(data).decode()


def archive(**arrays: Any) -> str:
    file = BytesIO()
    np.savez(file, **arrays)
    return letters(file.getvalue())


def array(value: Any, **options: bool) -> str:
    file = BytesIO()
    np.save(file, value, **options)
    return letters(file.getvalue())


def forged() -> str:
    """Return a small .npy that says to hold 2**60 bytes."""
    whole = base64.b64decode(array(GOOD))
    return letters(whole.replace(b"(2,), ", b"(1152921504606846976,), ")[: len(whole)])


def bomb() -> str:
    """Return an archive of a few kilobytes with an array of 256 MiB."""
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("x.npy", b"\0" * (1 << 28))
    return letters(file.getvalue())


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("x.npz", archive(x=np.zeros(3, np.float32)), "x has dimensions [3], expected f32[2]"),
        ("x.npz", archive(x=np.zeros(2)), "x holds float64, expected f32[2] as float32"),
        ("x.npz", archive(y=GOOD), "x.npz has no array 'arg0' (expected f32[2]); it has y"),
        ("x.npz", letters(b"PK"), "x.npz is not a NumPy archive"),
        ("x.npz", array(GOOD), "x.npz is not a NumPy archive"),
        ("x.npz", bomb, "x unpacks to 256 MiB"),
        ("x.npy", letters(b"text"), "x.npy is not a file from numpy.save or numpy.savez"),
        ("x.npy", letters(pickle.dumps(3)), "x.npy is not a file from numpy.save"),
        ("x.npy", array(np.array([None, {}], object), allow_pickle=True), "Object arrays cannot"),
        ("x.npy", array(np.zeros(3, np.float32)), "x.npy has dimensions [3], expected f32[2]"),
        ("x.npy", forged(), "cannot read x.npy"),
        ("x.npy", "*", "x.npy did not arrive as it was sent"),
        ("../x.npz", archive(x=GOOD), "../x.npz is no name of an array file"),
        ("/etc/x.npz", archive(x=GOOD), "is no name of an array file"),
        (".x.npz", archive(x=GOOD), "is no name of an array file"),
        ("x.hlo", archive(x=GOOD), "is no name of an array file"),
    ],
)
def test_a_file_that_does_not_fit_gets_a_message(
    name: str, data: str | Callable[[], str], words: str, folder: Path
) -> None:
    data = data if isinstance(data, str) else data()  # a bomb takes a second to make
    answer = ask(Answerer(), "run", text=TEXT, pipeline="-O0", file=name, data=data)
    assert words in answer["faults"][0]["message"]
    assert list(folder.iterdir()) == []


def test_a_file_is_there_while_it_is_read_and_replaces_none(folder: Path) -> None:
    with given_file("x.npz", archive(x=GOOD)) as name:
        assert [path.name for path in folder.iterdir()] == [name]
    assert list(folder.iterdir()) == []
    (folder / "own.npz").write_text("own")
    with pytest.raises(HloError, match=r"cannot keep own\.npz"), given_file("own.npz", ""):
        pass
    assert (folder / "own.npz").read_text() == "own"


def test_views_of_a_state_do_not_look_for_the_file_of_a_run() -> None:
    answerer = Answerer()
    run = ask(answerer, "run", text=TEXT, pipeline="-O0", file="x.npz", data=archive(x=GOOD))
    assert "(x.npz)" in run["text"]
    kernel = ask(answerer, "kernel", text=TEXT, pipeline="-O0")
    assert "inputs random, seed 0" in kernel["text"]


def test_a_large_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_files, "ARRAY_BYTES", 100)
    with pytest.raises(HloError, match=r"x\.npz has more than"), given_file("x.npz", "A" * 400):
        pass


def test_results_are_an_archive_as_long_as_they_are_not_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shapes = result_leaves(hloc.parse(TEXT))
    stored = np.load(BytesIO(base64.b64decode(results_file([GOOD], shapes))))
    assert stored["out0"].tolist() == [3, 4]
    monkeypatch.setattr(array_files, "ARRAY_BYTES", 7)
    assert results_file([GOOD], shapes) == ""
