"""Convolutions of random sizes, layouts, windows and groups.

They give the evaluator's answer on one thread, and the same bits on two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hloc

Array = np.ndarray[Any, Any]

DTYPES: dict[str, tuple[Any, float]] = {
    "f32": (np.float32, 3e-5),
    "f64": (np.float64, 1e-12),
    "bf16": (ml_dtypes.bfloat16, 2e-2),
    "f16": (np.float16, 4e-3),
}
SIZES = {
    "few": ((1, 2, 3, 4, 5, 8), (1, 2, 3, 4, 7, 8), 12),
    "many": ((8, 16, 20), (16, 21, 40), 18),
}


@dataclass(frozen=True)
class Case:
    """A module's text, and shapes and type of its arguments."""

    text: str
    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    dtype: str


def _text(dtype: str, dims: tuple[int, ...]) -> str:
    return f"{dtype}[{','.join(map(str, dims))}]"


def _case(r: np.random.Generator, sizes: str) -> Case | None:
    """Return a random convolution; None if it has no result."""
    inputs, outputs, longest = SIZES[sizes]
    rank = int(r.choice([1, 2, 2, 2, 3] if sizes == "few" else [1, 2]))
    dtype = str(r.choice(list(DTYPES), p=[0.6, 0.1, 0.2, 0.1]))
    groups, i, o = int(r.choice([1, 1, 2, 8, 16])), int(r.choice(inputs)), int(r.choice(outputs))
    batch = int(r.integers(1, 4))
    spatial = tuple(int(x) for x in r.integers(2, longest if rank < 3 else 7, rank))
    size, stride, low, high = (
        r.integers(a, b, rank) for a, b in ((1, 5), (1, 3), (-1, 4), (-1, 4))
    )
    holes, apart = r.choice([1, 1, 2, 3], rank), r.choice([1, 1, 1, 2], rank)
    reverse = r.integers(0, 2, rank)
    reach = (np.array(spatial) - 1) * holes + 1 + low + high - (size - 1) * apart
    out = tuple(int(x) for x in np.maximum((reach - 1) // stride + 1, 0))
    if 0 in out:
        return None
    names = [str(d) for d in range(rank)]
    labels = ["b", *names, "f"] if r.random() < 0.6 else ["b", "f", *names]
    if r.random() < 0.2:
        labels = [labels[x] for x in r.permutation(rank + 2)]
    kernel = [*names, "i", "o"] if r.random() < 0.6 else ["o", "i", *names]

    def dims(order: list[str], known: dict[str, int], places: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(known[x] if x in known else places[int(x)] for x in order)

    lhs = dims(labels, {"b": batch, "f": i * groups}, spatial)
    rhs = dims(kernel, {"i": i, "o": o * groups}, tuple(int(x) for x in size))
    result = dims(labels, {"b": batch, "f": o * groups}, out)
    by = {"size": size, "stride": stride, "lhs_dilate": holes, "rhs_dilate": apart}
    fields = [f"{name}={'x'.join(map(str, values))}" for name, values in by.items()]
    fields.append("pad=" + "x".join(f"{a}_{b}" for a, b in zip(low, high, strict=True)))
    fields.append("rhs_reversal=" + "x".join(map(str, reverse)))
    order = "".join(labels)
    root = (
        f"{_text(dtype, result)} convolution(x, k), window={{{' '.join(fields)}}}, "
        f"dim_labels={order}_{''.join(kernel)}->{order}, feature_group_count={groups}"
    )
    text = (
        f"HloModule m\nENTRY e {{\n  x = {_text(dtype, lhs)} parameter(0)\n"
        f"  k = {_text(dtype, rhs)} parameter(1)\n  ROOT c = {root}\n}}\n"
    )
    return Case(text, lhs, rhs, dtype)


# Any of them may find what the others do not; the default run takes a few.
@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 12))]
)
@pytest.mark.parametrize("sizes", SIZES)
def test_random_convolution(sizes: str, seed: int) -> None:
    r = np.random.default_rng(seed)
    case = next(found for found in iter(lambda: _case(r, sizes), 0) if found is not None)
    numpy_type, tolerance = DTYPES[case.dtype]
    x, k = (r.standard_normal(dims).astype(numpy_type) for dims in (case.lhs, case.rhs))
    wanted = np.asarray(_only(hloc.evaluate(case.text, x, k)), np.float64)
    one, two = (
        np.asarray(_only(hloc.compile(case.text, threads=threads)(x, k))) for threads in (1, 2)
    )
    scale = np.abs(wanted) + np.abs(wanted).mean() + 1
    assert np.max(np.abs(one.astype(np.float64) - wanted) / scale) <= tolerance, case.text
    assert one.tobytes() == two.tobytes(), case.text


def _only(found: Any) -> Any:
    return found[0] if isinstance(found, (list, tuple)) else found
