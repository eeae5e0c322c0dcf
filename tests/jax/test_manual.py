"""The Python of README and docs/jax.md runs as it stands there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("google.protobuf")
pytestmark = pytest.mark.jax

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import hloc  # noqa: E402
import hloc.jax  # noqa: E402
from hloc.jax.program import JaxProgram  # noqa: E402
from hloc.opt import any_, ops, rule  # noqa: E402
from tests.tolerance import bounds  # noqa: E402
from tests.unit.test_manual_python import block  # noqa: E402


@pytest.fixture(autouse=True)
def _on_xla(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(JaxProgram, "repl", lambda self: print("opened"))
    with jax.default_device(jax.devices("cpu")[0]):
        yield


def _loss(weights: Any, batch: Any) -> Any:
    return jnp.mean(jnp.tanh(jnp.negative(jnp.negative(batch)) @ weights) ** 2)


def _given() -> dict[str, Any]:
    weights, batch = jnp.full((8, 4), 0.125), jnp.ones((16, 8))
    return {"hloc": hloc, "jax": jax, "loss": _loss, "weights": weights, "batch": batch}


@pytest.mark.parametrize(
    ("page", "containing"), [("README.md", "hloc.from_jax"), ("docs/jax.md", "from_jax(jax.grad")]
)
def test_a_function_is_looked_at_and_run(
    page: str, containing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = _given()
    exec(block(page, containing), names)
    printed = capsys.readouterr().out
    assert "opened" in printed
    assert "negate" in printed, "the difference shows what algsimp removes"
    found = names["program"](names["weights"], names["batch"])
    expected = jax.grad(_loss)(names["weights"], names["batch"])
    np.testing.assert_allclose(found, expected, **bounds("f32 few roundings"))


def test_a_rule_works_inside_compilations_of_jax(capsys: pytest.CaptureFixture[str]) -> None:
    def train() -> None:
        jax.clear_caches()
        jax.jit(lambda x: jnp.sin(x) + 1)(jnp.ones(4))

    names: dict[str, Any] = {"train": train}
    exec(block("docs/jax.md", "sine_to_cosine"), names)
    printed = capsys.readouterr().out
    assert printed.startswith("Counter({'rules/sine-to-cosine': 1})")
    assert "jit__lambda: 7 -> 7 instructions; rules/sine-to-cosine 1" in printed


def test_the_line_of_the_readme_applies_rules() -> None:
    @rule(ops.sine(any_("x")), exact="approximate")
    def my_rule(m: Any, b: Any) -> Any:
        """sin(x) -> cos(x)."""
        return b.cosine(m.x)

    def train() -> None:
        jax.clear_caches()
        assert jax.jit(jnp.sin)(jnp.zeros(4))[0] == 1

    exec(block("README.md", "my_rule"), {"hloc": hloc, "my_rule": my_rule, "train": train})
