"""Twins in PyTorch of the models, as its users write them: same layers, sizes and inputs.

Weights are random too, but others: they are compared by the shape of the results. Images are in
PyTorch's order of dimensions, in memory with the features last, which is its fastest way on a CPU.
Twins of training steps return the loss. Mamba has no twin: PyTorch has no scan on a CPU.
"""

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.models.model import Model, Weights
from benchmarks.models.twins import images, sequences, tables, transformers

TWINS = images.TWINS | sequences.TWINS | tables.TWINS | transformers.TWINS
"""By name: functions of the inputs that return module and tensors."""


def load(model: Model) -> Any:
    """Return the module of a model, in evaluation mode unless it trains, and its inputs."""
    torch.manual_seed(0)
    inputs = model.inputs(Weights(np.random.default_rng(0), "float32"), model.batch)
    module, tensors = TWINS[model.twin](*inputs)
    if not model.trains:
        module = module.eval().requires_grad_(False)
    if model.dtype == "int8":
        _quantise(module)
    if model.dtype == "bfloat16":
        module = module.to(torch.bfloat16)
        tensors = [t.to(torch.bfloat16) if t.is_floating_point() else t for t in tensors]
    return module, tensors


class QuantisedLinear(nn.Module):
    """A linear layer whose matrix is in s8 with a scale per feature of the output."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        scale = layer.weight.abs().amax(1) / 127
        self.register_buffer("numbers", (layer.weight / scale[:, None]).round().to(torch.int8))
        self.register_buffer("scale", scale)
        self.bias = layer.bias

    def forward(self, x: Any) -> Any:
        y = functional.linear(x, self.numbers.to(x.dtype)) * self.scale
        return y if self.bias is None else y + self.bias


def _quantise(module: nn.Module) -> None:
    """Replace the linear layers in a module."""
    for name, part in module.named_children():
        if isinstance(part, nn.Linear):
            setattr(module, name, QuantisedLinear(part))
        else:
            _quantise(part)


def leaves(result: Any) -> Any:
    """Return the tensors of a result."""
    if isinstance(result, torch.Tensor):
        return [result]
    return [leaf for part in result for leaf in leaves(part)]
