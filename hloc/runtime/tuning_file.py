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
    """The measured choices of a kernel.

    Attributes:
        best: number of the choice that is used.
        seconds: time of each, None for those without.
        gain: how many times longer the first choice takes, compared with the best in turn.
    """

    best: int
    seconds: tuple[float | None, ...]
    gain: float = 1.0


def tuning_name(*facts: object) -> str:
    """Return the name of the file for a kernel; `facts` are all that the times depend on."""
    digest = hashlib.sha256("\0".join(map(str, facts)).encode()).hexdigest()
    return f"tuning-{digest[:40]}.json"


def keep_tuning(name: str, found: Measured) -> None:
    """Write a file."""
    data = {"best": found.best, "seconds": found.seconds, "gain": found.gain}
    write_cached(name, json.dumps(data).encode())


def kept_tuning(name: str, count: int) -> Measured | None:
    """Return the cached times of `count` choices, None if there is no valid file."""
    data = read_cached(name)
    try:
        result = json.loads(data) if data else {}
        best, seconds, gain = result["best"], result["seconds"], result["gain"]
    except (ValueError, TypeError, KeyError):
        return None
    is_number = type(best) is int and 0 <= best < count
    if not is_number or not isinstance(seconds, list) or len(seconds) != count:
        return None
    are_times = _is_positive(gain) and all(x is None or _is_positive(x) for x in seconds)
    is_valid = are_times and seconds[best] is not None
    return Measured(best, tuple(seconds), gain) if is_valid else None


def _is_positive(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value) and value > 0


def finite(seconds: Sequence[float]) -> tuple[float | None, ...]:
    """Return times with None for those that are infinite."""
    return tuple(x if math.isfinite(x) else None for x in seconds)


def random_array(rng: np.random.Generator, shape: ArrayShape) -> Array:
    """Return an argument for a measurement: normal numbers, or zeros and ones."""
    dtype = shape.dtype
    if dtype.is_float or dtype.is_complex:
        return rng.standard_normal(shape.dims, np.float32).astype(dtype.numpy)
    return rng.integers(0, 2, shape.dims, np.int8).astype(dtype.numpy)
