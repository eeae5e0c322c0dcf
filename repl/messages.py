"""The messages between the session and its child process: fields as JSON, arrays as bytes."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import IO, Any

from hloc import framing
from hloc.dtypes import Array
from hloc.framed_arrays import arrays_from, blocks_of, types_of
from hloc.lazy_dataclass import dataclass
from hloc.options import CompileOptions

UNKNOWN = "unknown program"
"""Error for a request without a text, for a program that the child no longer keeps."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the child.

    Attributes:
        key: names the program; the child keeps programs by key.
        text: HLO text, None if the child has the program already.
        options: those of the compilation, which runs only the passes of the target.
        inputs: one array per parameter leaf; None to run nothing.
        seconds: how long to repeat the run.
        stage: the stage to return, "" for none.
        by_xla: compile and run it with XLA.
        plugins: files to load first, with the time of their last change: they may register targets
            of custom calls.
        devices: number of devices; inputs and outputs of several are stacked.
    """

    key: str
    text: str | None
    options: CompileOptions
    inputs: tuple[Array, ...] | None = None
    seconds: float = 0.0
    stage: str = ""
    by_xla: bool = False
    plugins: tuple[tuple[str, float], ...] = ()
    devices: int = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome; `fault` is an error message or "", `seconds` the time of each run."""

    fault: str = ""
    notes: tuple[str, ...] = ()
    outputs: tuple[Array, ...] = ()
    seconds: tuple[float, ...] = ()
    form: str | bytes = ""


def write_request(stream: IO[bytes], request: Request) -> None:
    """Write one request.

    Raises:
        HloError: an input holds Python objects.
    """
    arrays = request.inputs or ()
    table = _table(replace(request, inputs=None))
    table["options"] = _table(request.options)
    table["inputs"] = None if request.inputs is None else types_of(arrays)
    framing.write_message(stream, table, blocks_of(arrays))


def read_request(stream: IO[bytes]) -> Request | None:
    """Read one request, None at the end of the stream."""
    try:
        table, blocks = framing.read_message(stream)
    except EOFError:
        return None
    types = table["inputs"]
    table["inputs"] = None if types is None else arrays_from(types, blocks)
    table["options"] = CompileOptions(**_with_tuples(table["options"]))
    return Request(**_with_tuples(table))


def write_answer(stream: IO[bytes], answer: Answer) -> None:
    """Write one answer."""
    is_text = isinstance(answer.form, str)
    table = _table(replace(answer, outputs=(), form=answer.form if is_text else ""))
    table["outputs"] = types_of(answer.outputs)
    form = [] if isinstance(answer.form, str) else [answer.form]
    framing.write_message(stream, table, [*blocks_of(answer.outputs), *form])


def read_answer(stream: IO[bytes]) -> Answer | None:
    """Read one answer, None at the end of the stream."""
    try:
        table, blocks = framing.read_message(stream)
    except EOFError:
        return None
    types = table["outputs"]
    table["outputs"] = arrays_from(types, blocks)
    if len(blocks) > len(types):
        table["form"] = bytes(blocks[-1])
    return Answer(**_with_tuples(table))


def _table(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


def _with_tuples(table: dict[str, Any]) -> dict[str, Any]:
    return {name: _tuples(value) for name, value in table.items()}


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
