"""Messages between processes: what is written is read, and nothing that arrives runs code."""

import io
import json
import pickle
import struct
from typing import Any

import numpy as np
import pytest

from hloc.dtypes import DTYPES
from hloc.errors import HloError
from hloc.framing import read_message, write_message
from hloc.options import CompileOptions
from repl.messages import (
    Answer,
    Request,
    read_answer,
    read_request,
    write_answer,
    write_request,
)


def _written(value: object, *blocks: bytes) -> bytes:
    stream = io.BytesIO()
    write_message(stream, value, blocks)
    return stream.getvalue()


def test_values_and_blocks_come_back() -> None:
    value = {"text": "\udcff \u202e", "numbers": [1, 2.5, None, True]}
    data = _written(value, b"", bytes(range(256)) * 1000) + _written(3)
    stream = io.BytesIO(data)
    found, blocks = read_message(stream)
    assert found == value
    assert blocks == [b"", bytes(range(256)) * 1000]
    found, blocks = read_message(stream)
    assert (found, blocks) == (3, [])
    with pytest.raises(EOFError):
        read_message(stream)


def test_a_message_that_breaks_off_is_an_end() -> None:
    whole = _written([1], b"block")
    for length in range(len(whole)):
        with pytest.raises(EOFError):
            read_message(io.BytesIO(whole[:length]))


def test_a_pickle_is_no_message() -> None:
    """It would have run code of its own."""
    data = pickle.dumps(print)
    with pytest.raises(ValueError, match=r"decode|Expecting"):
        read_message(io.BytesIO(struct.pack("<Q", len(data)) + data))


Array = np.ndarray[Any, np.dtype[Any]]

ARRAYS: tuple[Array, ...] = (
    *(np.ones((2, 3), d.numpy) for d in DTYPES.values() if not d.is_special),
    np.full((), 4, np.float32),
    np.zeros((0, 3), np.int8),
    np.arange(6, dtype=np.int32).reshape(2, 3).T,
    np.ones(3, ">f4"),
)


def _assert_equal(found: tuple[Array, ...], wanted: tuple[Array, ...]) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()
        assert one.flags.writeable


def test_requests_come_back() -> None:
    options = CompileOptions(passes="cse", disabled_passes=("dce", "x"), simulate="ptx")
    request = Request("k", "HloModule \udcff", options, ARRAYS, 0.5, "asm", plugins=(("p", 1.5),))
    stream = io.BytesIO()
    write_request(stream, request)
    write_request(stream, Request("k", None, CompileOptions()))
    stream.seek(0)
    found = read_request(stream)
    assert found is not None
    assert found.inputs is not None
    _assert_equal(found.inputs, ARRAYS)
    assert (found.key, found.text, found.options) == ("k", "HloModule \udcff", options)
    assert (found.seconds, found.stage, found.plugins) == (0.5, "asm", (("p", 1.5),))
    assert read_request(stream) == Request("k", None, CompileOptions())
    assert read_request(stream) is None


@pytest.mark.parametrize("form", ["text", b"\x7fELF", b"", ""])
def test_answers_come_back(form: str | bytes) -> None:
    stream = io.BytesIO()
    write_answer(stream, Answer("fault", ("note",), ARRAYS, (0.25, 1.0), form))
    stream.seek(0)
    found = read_answer(stream)
    assert found is not None
    _assert_equal(found.outputs, ARRAYS)
    assert (found.fault, found.notes, found.seconds) == ("fault", ("note",), (0.25, 1.0))
    assert found.form == form
    assert type(found.form) is type(form)


def test_arrays_of_python_objects_are_refused() -> None:
    request = Request("k", None, CompileOptions(), (np.array([print], object),))
    with pytest.raises(HloError, match="holds Python objects"):
        write_request(io.BytesIO(), request)


def test_messages_are_json() -> None:
    data = _written({"a": 1})
    assert json.loads(data[8:]) == [{"a": 1}, []]
