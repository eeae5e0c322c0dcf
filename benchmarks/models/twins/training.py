"""What twins of training steps share."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class Loss(nn.Module):
    """The loss of a model; the last input has the labels."""

    def __init__(self, model, loss):
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, *inputs):
        return self.loss(self.model(*inputs[:-1]), inputs[-1])


def training_step(module: Any, loss: Callable[..., Any], inputs: Any) -> Callable[[], Any]:
    """Return what takes a step of gradient descent and returns the loss before it."""
    optimiser = torch.optim.SGD(module.parameters(), lr=1e-3)

    def step() -> Any:
        value = loss(*inputs)
        value.backward()
        optimiser.step()
        optimiser.zero_grad()
        return value.detach()

    return step
