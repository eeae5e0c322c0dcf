"""One small program: a JAX function, its arguments, and the table of all."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arguments = tuple[Any, ...]
Maker = Callable[[np.random.Generator], Any]
GROUPS = ("scans", "equations", "filters", "sampling", "control", "grids", "solvers", "points")


@dataclass(frozen=True)
class Program:
    """One row of the benchmark.

    Attributes:
        group: the file it is in.
        function: what JAX traces.
        makers: of the arguments, from a seeded generator; 64-bit ones turn on JAX's x64 mode.
        source: the public report it follows, "" if none.
    """

    name: str
    group: str
    function: Callable[..., Any]
    makers: tuple[Maker, ...]
    source: str

    def arguments(self) -> Arguments:
        """Return the arguments as NumPy arrays, the same in every process."""
        generator = np.random.default_rng(0)
        return tuple(make(generator) for make in self.makers)


PROGRAMS: dict[str, Program] = {}
"""All programs by name, in the order of the table; filled by `load_all`."""


def program(*makers: Maker, source: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as a program of the group that its file is named for."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__
        assert name not in PROGRAMS, f"two programs are called {name}"
        group = function.__module__.rpartition(".")[2]
        PROGRAMS[name] = Program(name, group, function, makers, source)
        return function

    return register


def load_all() -> dict[str, Program]:
    """Import every group; returns `PROGRAMS`."""
    for group in GROUPS:
        importlib.import_module(f"benchmarks.jax_programs.{group}")
    return PROGRAMS


def normal(*dims: int, scale: float = 1.0, dtype: str = "float32") -> Maker:
    """Return a maker of normal numbers."""
    return lambda rng: (scale * rng.standard_normal(dims)).astype(dtype)


def uniform(*dims: int, low: float = 0.0, high: float = 1.0, dtype: str = "float32") -> Maker:
    """Return a maker of numbers between `low` and `high`."""
    return lambda rng: rng.uniform(low, high, dims).astype(dtype)


def integers(high: int, *dims: int) -> Maker:
    """Return a maker of s32 numbers from 0 to `high` - 1."""
    return lambda rng: rng.integers(0, high, dims).astype(np.int32)


def value(number: float, dtype: str = "float32") -> Maker:
    """Return a maker of one given number."""
    return lambda rng: np.asarray(number, dtype)
