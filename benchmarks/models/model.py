"""One model of the benchmark: a JAX function, its weights and inputs, and the table of all.

Weights are arguments of the compiled function, as `jax.jit(apply)(weights, inputs)` has them and as
PyTorch's modules hold them. No engine may fold them into the program.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Function = Callable[..., Any]

ARCHITECTURES = (
    "resnet", "mobilenet", "vit", "bert", "gpt2", "llama", "moe", "mamba", "lstm", "wavenet",
    "unet", "gnn", "dlrm",
)  # fmt: skip
"""Files of this folder, one per architecture, in the order of the tables."""


class Quantised(NamedTuple):
    """A matrix in s8; `numbers * scale` is its value, `scale` has one f32 per column."""

    numbers: Any
    scale: Any


@dataclass(frozen=True)
class Weights:
    """Makes the random weights of one model.

    Attributes:
        random: seeded generator.
        dtype: `float32`, `bfloat16`, or `int8`: matrices in s8, all else in f32.
    """

    random: np.random.Generator
    dtype: str

    def matrix(self, rows: int, columns: int, *, batch: tuple[int, ...] = ()) -> Any:
        """Return a matrix that keeps the size of activations, quantised for `int8`."""
        values = self.normal(*batch, rows, columns, scale=rows**-0.5)
        if self.dtype != "int8":
            return values
        scale = np.abs(values).max(axis=-2, keepdims=True) / 127
        return Quantised(np.round(values / scale).astype(np.int8), scale)

    def normal(self, *dims: int, scale: float = 0.02) -> Any:
        """Return normal numbers."""
        return self.cast(self.random.standard_normal(dims, np.float32) * np.float32(scale))

    def kernel(self, *dims: int) -> Any:
        """Return the kernel of a convolution, its output features last."""
        return self.normal(*dims, scale=float(np.prod(dims[:-1])) ** -0.5)

    def near(self, value: float, *dims: int) -> Any:
        """Return numbers near `value`: scales near 1, biases near 0."""
        return self.cast(value + 0.05 * self.random.standard_normal(dims, np.float32))

    def cast(self, values: Any) -> Any:
        """Return floats as the type of activations."""
        import ml_dtypes

        kind = ml_dtypes.bfloat16 if self.dtype == "bfloat16" else np.float32
        return np.asarray(values).astype(kind)

    def integers(self, high: int, *dims: int) -> Any:
        """Return s32 numbers from 0 to `high` - 1."""
        return self.random.integers(0, high, dims).astype(np.int32)


@dataclass(frozen=True)
class Model:
    """One row of the benchmark.

    Attributes:
        name: `ARCHITECTURE_bBATCH`, and the type of the weights if that is not f32.
        group: the file it is in.
        function: what JAX traces; takes weights and inputs.
        weights, inputs: make the arguments; `inputs` returns a tuple.
        carried: index of the argument that the function takes over and returns as the last of its
            results: weights of a training step, caches of a decoding step. None if there is none.
        twin: name of the same model in `twins/`, "" if there is none.
    """

    name: str
    group: str
    function: Function
    weights: Callable[[Weights], Any]
    inputs: Callable[[Weights, int], tuple[Any, ...]]
    batch: int
    dtype: str
    carried: int | None
    twin: str

    @property
    def trains(self) -> bool:
        """Return whether a run is a step of training: it takes the weights over."""
        return self.carried == 0

    def arguments(self) -> tuple[Any, ...]:
        """Return weights and inputs as NumPy arrays, the same in every process."""
        maker = Weights(np.random.default_rng(0), self.dtype)
        return (self.weights(maker), *self.inputs(maker, self.batch))


MODELS: dict[str, Model] = {}
"""All models by name, in the order of the tables; filled by `load_all`."""


def model(
    weights: Callable[[Weights], Any],
    inputs: Callable[[Weights, int], tuple[Any, ...]],
    *,
    batches: tuple[int, ...] = (1, 8),
    others: tuple[tuple[int, str], ...] = (),
    carried: int | None = None,
    twin: str = "",
) -> Callable[[Function], Function]:
    """Register a function: once per batch with f32, and for the (batch, type) pairs of `others`."""

    def register(function: Function) -> Function:
        group = function.__module__.rpartition(".")[2]
        for batch, dtype in (*((b, "float32") for b in batches), *others):
            short = {"float32": "", "bfloat16": "_bf16", "int8": "_s8"}[dtype]
            name = f"{function.__name__}_b{batch}{short}"
            assert name not in MODELS, f"two models are called {name}"
            MODELS[name] = Model(
                name, group, function, weights, inputs, batch, dtype, carried, twin
            )
        return function

    return register


def load_all() -> dict[str, Model]:
    """Import every architecture; returns `MODELS`."""
    for architecture in ARCHITECTURES:
        importlib.import_module(f"benchmarks.models.{architecture}")
    return MODELS
