"""What a program of a library is, and the numbers that it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

Made = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function that `jax.jit` takes, and its arguments."""


@dataclass(frozen=True)
class Program:
    """One program.

    Attributes:
        package: on PyPI.
        make: returns the function and its arguments; it imports the package.
    """

    package: str
    make: Callable[[], Made]


PROGRAMS: dict[str, Program] = {}


def program(package: str) -> Callable[[Callable[[], Made]], Callable[[], Made]]:
    """Add a function to the programs, under the name of the package."""

    def register(make: Callable[[], Made]) -> Callable[[], Made]:
        PROGRAMS[package] = Program(package, make)
        return make

    return register


def normal(*dims: int, seed: int = 0) -> Any:
    """Return normal random numbers of f32."""
    return np.random.default_rng(seed).standard_normal(dims).astype(np.float32)


def uniform(*dims: int, seed: int = 0) -> Any:
    """Return random numbers of f32 between 0 and 1."""
    return np.random.default_rng(seed).random(dims).astype(np.float32)


def key(seed: int = 0) -> Any:
    """Return a random key as an array, which every library takes."""
    return jax.random.PRNGKey(seed)
