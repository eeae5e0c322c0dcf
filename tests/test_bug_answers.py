"""Programs that once gave a wrong answer, with the answer worked out by hand.

    // CASE: what went wrong
    // ANSWER: {1, 2}
    (module without parameters)
    // -----

One ANSWER line per array of the result, as a literal. ON-DEVICES gives the one array of the result
on each device instead; a call as if there were one device is refused then. REFUSED in its place
gives words of the message with which every way of running must refuse the module. NOT-ON-GPU gives
the reason why a case is not asked of the simulated GPU.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hloc
from hloc.errors import HloError, UnsupportedError
from hloc.evaluator.devices import evaluate_devices
from hloc.ir.module import Module
from hloc.parser.literals import parse_literal
from hloc.shapes import Shape, leaves
from hloc.source import SourceFile
from tests.goldens import GOLDEN, SEPARATOR
from tests.tolerance import assert_close

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Case:
    """One program: `answers` by array or, if `on_devices`, by device; or words of a refusal."""

    name: str
    not_on_gpu: str
    answers: tuple[str, ...]
    on_devices: bool
    refused: str
    text: str


def read_cases(file: Path) -> list[Case]:
    """Read all cases of a file."""
    return [_case(part) for part in file.read_text().split(SEPARATOR)]


def _case(part: str) -> Case:
    name, refused, not_on_gpu, answers, body, on_devices = "", "", "", [], [], False
    for line in part.strip().splitlines():
        key, _, value = line.removeprefix("// ").partition(": ")
        if not line.startswith("// "):
            body.append(line)
        elif key == "CASE":
            name = value
        elif key == "ANSWER":
            answers.append(value)
        elif key == "ON-DEVICES":
            answers, on_devices = value.split("; "), True
        elif key == "NOT-ON-GPU":
            not_on_gpu = value
        else:
            assert key == "REFUSED", line
            refused = value
    assert name, part
    assert bool(answers) != bool(refused), part
    return Case(name, not_on_gpu, tuple(answers), on_devices, refused, "\n".join(body))


def on_simulated_gpu(module: Module) -> Any:
    """Return the program of `module` as PTX in the interpreter, on as many GPUs as it needs."""
    return hloc.compile(module, target="nvptx64", simulate="ptx", opt_level=0)


WAYS: dict[str, Callable[[Module], list[Array]]] = {
    "evaluator": hloc.evaluate,
    "O0": lambda module: hloc.compile(module, opt_level=0)(),
    "O2": lambda module: hloc.compile(module, opt_level=2)(),
    "GPU": lambda module: on_simulated_gpu(module)(),
    "GPU-host": lambda module: hloc.compile(module, target="nvptx64", simulate="host")(),
}
ON_DEVICES: dict[str, Callable[[Module], list[list[Array]]]] = {
    "evaluator": lambda module: evaluate_devices(module, []),
    "O0": lambda module: hloc.compile(module, opt_level=0).run_devices([]),
    "O2": lambda module: hloc.compile(module, opt_level=2).run_devices([]),
    "GPU": lambda module: on_simulated_gpu(module).run_devices([]),
}
CASES = [
    (file.stem, case)
    for file in sorted((GOLDEN / "bugs" / "answers").glob("*.hlo"))
    for case in read_cases(file)
]


@pytest.mark.parametrize(
    ("case", "way"),
    [
        pytest.param(case, way, id=f"{file}: {case.name} {way}".replace(" ", "-"))
        for file, case in CASES
        for way in WAYS
        if not (way.startswith("GPU") and case.not_on_gpu)
        if not (way == "GPU-host" and case.on_devices)
    ],
)
def test_answer(case: Case, way: str) -> None:
    module = hloc.parse(case.text)
    if case.refused:
        with pytest.raises(UnsupportedError) as caught:
            WAYS[way](module)
        assert case.refused in str(caught.value)
        return
    if case.on_devices:
        with pytest.raises(HloError, match=r"devices|partitions apart"):
            WAYS[way](module)
        (parts,) = ON_DEVICES[way](module)
        for got, text in zip(parts, case.answers, strict=True):
            np.testing.assert_array_equal(got, _literal(case, module.entry.root.shape, text))
        return
    found = WAYS[way](module)
    for got, want in zip(found, _expected(module, case), strict=True):
        assert_close(np.asarray(got), want)


def _expected(module: Module, case: Case) -> list[Array]:
    shapes = [shape for _, shape in leaves(module.entry.root.shape)]
    return [_literal(case, shape, text) for shape, text in zip(shapes, case.answers, strict=True)]


def _literal(case: Case, shape: Shape, text: str) -> Array:
    return parse_literal(SourceFile(text, case.name), text, 0, shape).array
