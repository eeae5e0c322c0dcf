"""The JAX examples run and say what they promise; the report tells what was compiled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("google.protobuf")
pytestmark = pytest.mark.jax

import hloc.jax  # noqa: E402
from hloc.pjrt.records import COMPILATIONS  # noqa: E402
from tests.test_example_scripts import output_of  # noqa: E402


@pytest.fixture(autouse=True)
def _on_xla() -> Iterator[None]:
    with jax.default_device(jax.devices("cpu")[0]):
        yield


def test_diff(capsys: pytest.CaptureFixture[str]) -> None:
    output = output_of("jax_diff.py", capsys)
    assert "   ← maximum-lowest" in output
    assert "arena" in output
    assert "The same answer as XLA: True" in output


def test_pass(capsys: pytest.CaptureFixture[str]) -> None:
    output = output_of("jax_pass.py", capsys)
    assert output.splitlines()[:3] == [
        "outside: [0. 0. 0.]",
        "inside:  [2. 2. 2.]",
        "outside: [0. 0. 0.]",
    ]
    assert "rules/sine-to-cosine 1" in output


def test_jit_and_report(capsys: pytest.CaptureFixture[str]) -> None:
    COMPILATIONS.clear()
    assert "compiled nothing" in str(hloc.jax.report())
    output = output_of("jax_jit.py", capsys)
    assert "same answer: True" in output
    (row,) = hloc.jax.report().rows
    assert row.name == "kalman"
    assert row.instructions > 20
    assert row.xla_us is None  # not asked for here, but by the example
    table = output.splitlines()[1:]
    assert table[0].split()[:2] == ["program", "instructions"]
    assert table[1].startswith("kalman")
    assert table[1].count(" us") == 2
