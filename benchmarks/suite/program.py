"""One program of the suite: a JAX function, its arguments, and the table of all."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Program:
    """One row of the suite.

    Attributes:
        group: kind of program.
        function: what JAX traces.
        arguments: makes the NumPy arguments from a seeded generator.
    """

    name: str
    group: str
    function: Callable[..., Any]
    arguments: Callable[[np.random.Generator], tuple[Any, ...]]


_GROUPS = (
    "elementwise", "rows", "cumulative", "movement", "random_bits", "sorting", "indexing",
    "windows", "convolution", "matmul", "attention", "loops", "linear_algebra",
    "factorisations", "small_matrices", "models", "small_programs", "small_products",
    "small_models", "general_matrices",
)  # fmt: skip

PROGRAMS: dict[str, Program] = {}
"""All programs by name, in the order of the tables; filled by `load_all`."""


def program(
    *dims: Any, dtype: str = "float32", name: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as a program.

    Args:
        dims: per argument its dimensions, or a function of the generator that makes it.
        dtype: of the arguments given by dimensions.
        name: name of the program, that of the function if empty.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        group = function.__module__.rpartition(".")[2]
        key = name or function.__name__
        assert key not in PROGRAMS, f"two programs are called {key}"
        PROGRAMS[key] = Program(
            key, group, function, lambda rng: tuple(_argument(rng, d, dtype) for d in dims)
        )
        return function

    return register


def _argument(rng: np.random.Generator, dims: Any, dtype: str) -> Any:
    if callable(dims):
        return dims(rng)
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if np.issubdtype(kind, np.integer):
        return rng.integers(-100, 100, dims).astype(kind)
    found = rng.standard_normal(dims, np.float32).astype(kind)
    if np.issubdtype(kind, np.complexfloating):
        found += 1j * rng.standard_normal(dims, np.float32)
    return found


def integers(high: int, *dims: int) -> Callable[[np.random.Generator], Any]:
    """Return a maker of s32 arrays of numbers from 0 to `high` - 1: indices."""
    return lambda rng: rng.integers(0, high, dims).astype(np.int32)


def load_all() -> dict[str, Program]:
    """Import every group; returns `PROGRAMS`."""
    for group in _GROUPS:
        importlib.import_module(f"benchmarks.suite.{group}")
    return PROGRAMS
