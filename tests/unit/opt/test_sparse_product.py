"""Products of CSR matrices keep their bits, for matrices that are not well formed too."""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc.opt.pipeline import Pipeline

PRODUCT = """
HloModule product
ENTRY e {{
  values = {kind}[{count}] parameter(0)
  starts = {index}[{starts}] parameter(1)
  columns = {index}[{count}] parameter(2)
  right = {kind}[{right}] parameter(3)
  ROOT product = {kind}[{result}] custom-call(values, starts, columns, right),
    custom_call_target="cpu_csr_sparse_dense_ffi", api_version=API_VERSION_TYPED_FFI,
    backend_config={{}}
}}
"""
KINDS = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "s32": np.int32}
INDICES = {"s32": np.int32, "s64": np.int64, "u32": np.uint32}


@pytest.mark.parametrize("seed", range(60))
def test_the_bits_are_those_of_the_call(seed: int) -> None:
    """A quarter of the matrices have rows out of order, a third columns that do not exist."""
    rng = np.random.default_rng(seed)
    kind, index = str(rng.choice(list(KINDS))), str(rng.choice(list(INDICES)))
    rows, width, count = (int(size) for size in rng.integers(1, 9, 3))
    more = [int(rng.integers(1, 4))] * int(rng.integers(0, 2))
    below = 0 if index == "u32" else -1
    starts = rng.integers(2 * below, count + 3, rows + 1)
    if seed % 4:
        starts = np.sort(starts)
    low, high = (0, width) if seed % 3 else (below, width + 1)
    columns = rng.integers(low, high, count)
    values, right = (
        (rng.standard_normal(dims) * 8).astype(KINDS[kind]) for dims in ((count,), (width, *more))
    )
    text = PRODUCT.format(
        kind=kind,
        index=index,
        count=count,
        starts=rows + 1,
        right=",".join(map(str, (width, *more))),
        result=",".join(map(str, (rows, *more))),
    )
    numbers = INDICES[index]
    arguments = (values, starts.astype(numbers), columns.astype(numbers), right)
    (want,) = hloc.evaluate(hloc.parse(text), *arguments)
    module = hloc.parse(text)
    assert Pipeline.parse("sparse-product-rewriter,dce").run(module)
    (got,) = hloc.evaluate(module, *arguments)
    assert got.tobytes() == want.tobytes()
