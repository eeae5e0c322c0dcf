"""Compile one program by hloc and by XLA, run both, and say which is nearer where they differ.

    python -m benchmarks.libraries.compare PACKAGE

prints one line of JSON. The judge of a difference is XLA with doubles: of the two answers in f32,
the nearer one is right. Where the doubles take another path as well, the program decides by a
comparison of rounded numbers, and neither is wrong.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import jax
import numpy as np

import hloc
from benchmarks.libraries import games, networks, optimisers, physics, sampling
from benchmarks.libraries.program import PROGRAMS

AREAS = (networks, optimisers, sampling, physics, games)
_BOUNDS = {2: 2e-2, 4: 2e-4, 8: 1e-9}
"""How far results may be apart, relative to the largest number of the array, by bytes of a real."""

Array = np.ndarray[Any, np.dtype[Any]]


def distance(found: Array, expected: Array) -> float:
    """Return how far arrays are apart, relative to the largest finite number; integers count."""
    if found.dtype.kind not in "fcV" or found.size == 0:
        return float(np.count_nonzero(found != expected))
    a, b = (
        x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (found, expected)
    )
    finite = np.isfinite(b)
    if not np.array_equal(np.where(finite, 0, b), np.where(finite, 0, a), equal_nan=True):
        return float("inf")
    scale = float(np.abs(b[finite]).max(initial=0.0)) or 1.0
    return float(np.abs(a[finite] - b[finite]).max(initial=0.0)) / scale


def is_equal(found: Array, expected: Array) -> bool:
    """True if arrays are the same but for rounding."""
    real = expected.dtype.itemsize // (2 if expected.dtype.kind == "c" else 1)
    bound = _BOUNDS.get(real, 0.0) if expected.dtype.kind in "fcV" else 0.0
    return distance(found, expected) <= bound


def outputs_of_xla(function: Any, arguments: Any) -> list[Array]:
    """Return what XLA computes, as arrays."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function)(*arguments))]


def wide(leaf: Any) -> Any:
    """Return a leaf with doubles in place of floats."""
    array = np.asarray(leaf)
    kinds = {"f": np.float64, "c": np.complex128}
    return array.astype(kinds[array.dtype.kind]) if array.dtype.kind in kinds else array


def verdict(package: str) -> dict[str, Any]:
    """Run one program both ways."""
    function, arguments = PROGRAMS[package].make()
    lowered = jax.jit(function, keep_unused=True).lower(*arguments)
    program = hloc.compile(lowered.as_text("hlo"), opt_level=2)
    made = program(*[np.asarray(leaf) for leaf in jax.tree.leaves(arguments)])
    found = [np.asarray(x) for x in (made if isinstance(made, tuple | list) else (made,))]
    expected = outputs_of_xla(function, arguments)
    row: dict[str, Any] = {"package": package, "results": len(expected)}
    apart = [(f, e) for f, e in zip(found, expected, strict=True) if not is_equal(f, e)]
    floats = [distance(f, e) for f, e in zip(found, expected, strict=True) if e.dtype.kind in "fc"]
    row |= {"apart": max(floats, default=0.0), "equal": not apart}
    if apart:
        jax.config.update("jax_enable_x64", True)
        exact = outputs_of_xla(function, jax.tree.map(wide, arguments))
        both = [
            (distance(f, x), distance(e, x))
            for f, e, x in zip(found, expected, exact, strict=True)
            if x.dtype.kind in "fc"
        ]
        row["judge"] = [max(pair[i] for pair in both) for i in range(2)] if both else None
    return row


def main() -> int:
    """Print the verdict on the program named on the command line."""
    print(json.dumps(verdict(sys.argv[1])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
