"""The choices that measurements made, in the cache: a file per kernel, named by all that counts."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence

import numpy as np

from hloc.cache_directory import read_cached, write_cached
from hloc.dtypes import Array
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape


@dataclass(frozen=True, slots=True)
class Measured:
    """The times of the choices of a kernel, None for those without, and the number of the best."""

    best: int
    seconds: tuple[float | None, ...]


def tuning_name(*facts: object) -> str:
    """Return the name of the file for a kernel; `facts` are all that the times depend on."""
    digest = hashlib.sha256("\0".join(map(str, facts)).encode()).hexdigest()
    return f"tuning-{digest[:40]}.json"


def keep_tuning(name: str, found: Measured) -> None:
    """Write a file."""
    write_cached(name, json.dumps({"best": found.best, "seconds": found.seconds}).encode())


def kept_tuning(name: str, count: int) -> Measured | None:
    """Return the cached times of `count` choices, None if there is no valid file."""
    data = read_cached(name)
    try:
        result = json.loads(data) if data else {}
        best, seconds = result["best"], result["seconds"]
    except (ValueError, TypeError, KeyError):
        return None
    is_number = type(best) is int and 0 <= best < count
    if not is_number or not isinstance(seconds, list) or len(seconds) != count:
        return None
    are_times = all(x is None or (type(x) is float and math.isfinite(x) and x > 0) for x in seconds)
    return Measured(best, tuple(seconds)) if are_times and seconds[best] is not None else None


def finite(seconds: Sequence[float]) -> tuple[float | None, ...]:
    """Return times with None for those that are infinite."""
    return tuple(x if math.isfinite(x) else None for x in seconds)


def random_array(rng: np.random.Generator, shape: ArrayShape) -> Array:
    """Return an argument for a measurement: normal numbers, or zeros and ones."""
    dtype = shape.dtype
    if dtype.is_float or dtype.is_complex:
        return rng.standard_normal(shape.dims, np.float32).astype(dtype.numpy)
    return rng.integers(0, 2, shape.dims, np.int8).astype(dtype.numpy)
