"""Twins in PyTorch of the models, as its users write them: same layers, sizes and inputs.

Weights are random too, but others: they are compared by the shape of the results. Images are in
PyTorch's order of dimensions, in memory with the features last, which is its fastest way on a CPU.
"""

from typing import Any

import numpy as np
import torch

from benchmarks.models.model import Model, Weights
from benchmarks.models.twins import images, transformers

TWINS = images.TWINS | transformers.TWINS
"""By name: functions of the inputs that return module and tensors."""


def load(model: Model) -> Any:
    """Return the module of a model in evaluation mode, and its inputs as tensors."""
    torch.manual_seed(0)
    inputs = model.inputs(Weights(np.random.default_rng(0), "float32"), model.batch)
    module, tensors = TWINS[model.twin](*inputs)
    module = module.eval().requires_grad_(False)
    if model.dtype == "bfloat16":
        module = module.to(torch.bfloat16)
        tensors = [t.to(torch.bfloat16) if t.is_floating_point() else t for t in tensors]
    return module, tensors


def leaves(result: Any) -> Any:
    """Return the tensors of a result."""
    if isinstance(result, torch.Tensor):
        return [result]
    return [leaf for part in result for leaf in leaves(part)]
