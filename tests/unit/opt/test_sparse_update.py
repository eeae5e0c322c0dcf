"""A step of gradient descent on a few rows of a table has the bits of the step on all of it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hloc
from hloc.opt.pipeline import Pipeline

FLOATS = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
INDICES = {"u8": np.uint8, "s32": np.int32, "u32": np.uint32, "s64": np.int64}
STEP = """
HloModule step
combine {{
  a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT c = {kind}[] {combiner}(a, b)
}}
ENTRY e {{
  table = {kind}[{table}] parameter(0)
  rows = {index}[{places},1] parameter(1)
  updates = {kind}[{updates}] parameter(2)
  zero = {kind}[] constant(0)
  zeros = {kind}[{table}] broadcast(zero), dimensions={{}}
  gradient = {kind}[{table}] scatter(zeros, rows, updates), update_window_dims={{{window}}},
    inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim={vector_dim},
    to_apply=combine
  rate = {kind}[] constant({rate})
  rates = {kind}[{table}] broadcast(rate), dimensions={{}}
  step = {kind}[{table}] multiply(gradient, rates)
  ROOT new = {kind}[{table}] {root}(table, step)
}}
"""


def _draw(rng: np.random.Generator) -> tuple[str, list[np.ndarray[Any, Any]]]:
    """Return a step and its arguments; many rows are the same, some are beyond the table."""
    kind, index = str(rng.choice(list(FLOATS))), str(rng.choice(list(INDICES)))
    places = [int(size) for size in rng.integers(1, 5, rng.integers(1, 3))]
    row = [int(size) for size in rng.integers(1, 4, rng.integers(0, 3))]
    count = int(np.prod(places))
    height = int(rng.integers(2 * count, 2 * count + 5))
    batch = len(places)
    root = str(rng.choice(["add", "subtract"]))
    text = STEP.format(
        kind=kind,
        index=index,
        combiner=rng.choice(["add", "maximum"]),
        table=",".join(map(str, (height, *row))),
        places=",".join(map(str, places)),
        updates=",".join(map(str, (*places, *row))),
        window=",".join(str(batch + i) for i in range(len(row))),
        vector_dim=batch,
        rate=-0.3 if root == "add" else 0.3,
        root=root,
    )
    table = rng.standard_normal((height, *row))
    table[rng.random(table.shape) < 0.3] = -0.0
    low = 0 if index.startswith("u") else -2
    rows = rng.integers(low, rng.integers(1, height + 3), (*places, 1))
    updates = rng.standard_normal((*places, *row)) * 10.0 ** rng.integers(-3, 3, (*places, *row))
    numbers = FLOATS[kind]
    return text, [table.astype(numbers), rows.astype(INDICES[index]), updates.astype(numbers)]


@pytest.mark.parametrize("seed", range(60))
def test_the_bits_are_those_of_the_dense_step(seed: int) -> None:
    text, arguments = _draw(np.random.default_rng(seed))
    (want,) = hloc.evaluate(hloc.parse(text), *arguments)
    module = hloc.parse(text)
    assert Pipeline.parse("sparse-update-rewriter,dce").run(module)
    (got,) = hloc.evaluate(module, *arguments)
    assert got.tobytes() == want.tobytes()
