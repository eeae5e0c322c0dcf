"""topk on GPUs: rows of one chunk and of many, ties, both ends, several rounds."""

from __future__ import annotations

import pytest

from hloc.codegen.gpu.emitters.sort import topk
from tests.unit.codegen.emitters import gpu_emitter_for
from tests.unit.gpu.simulate import check, compiled, entry


@pytest.mark.parametrize(
    ("shape", "k", "largest"),
    [
        ("f32[1]", 1, "true"),
        ("f32[3,50]", 7, "true"),
        ("f32[3,50]", 50, "false"),
        ("s8[2,2500]", 5, "true"),  # many ties, and a short last chunk
        ("bf16[1030]", 20, "false"),  # the last chunk has fewer than are kept
        ("f64[4200]", 300, "true"),  # three rounds
        ("f32[1100]", 1100, "true"),  # two runs are merged
        ("bf16[2,2100]", 700, "false"),  # three, the last short; most of a row is left out
        pytest.param("s16[4100]", 4000, "true", marks=pytest.mark.slow),  # three merges
    ],
)
def test_first_elements(shape: str, k: int, largest: str) -> None:
    dtype, _, dims = shape.rstrip("]").partition("[")
    kept = ",".join([*dims.split(",")[:-1], str(k)])
    text = entry(shape, f"({dtype}[{kept}], s32[{kept}]) topk(p0), k={k}, largest={largest}")
    requests = compiled(text).plan.kernels
    assert any(gpu_emitter_for(r.inst) is topk.EMITTER for r in requests)
    check(text, special=dtype == "f32")
