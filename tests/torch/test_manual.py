"""The Python of docs/torch.md runs as it stands there."""

from typing import Any

import numpy as np
import pytest

import hloc.torch
from tests.tolerance import bounds
from tests.unit.test_manual_python import block

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def test_a_model_is_trained() -> None:
    """With the object, since the name needs an installed hloc."""
    text = block("docs/torch.md", "backward()").replace('"hloc"', "hloc.torch.backend")
    model, x = torch.nn.Linear(4, 2), torch.ones(3, 4)
    exec(text, {"torch": torch, "hloc": hloc, "model": model, "x": x})
    np.testing.assert_allclose(model.bias.grad, np.full(2, 3.0), **bounds("f32 few roundings"))


def test_a_model_is_compiled_alone(capsys: pytest.CaptureFixture[str]) -> None:
    model, x = torch.nn.Linear(4, 2), torch.ones(3, 4)
    names: dict[str, Any] = {"model": model, "x": x}
    exec(block("docs/torch.md", "compiled.hlo()"), names)
    assert capsys.readouterr().out.startswith("HloModule")
    found = names["compiled"](x).detach()
    np.testing.assert_allclose(found, model(x).detach(), **bounds("f32 few roundings"))
