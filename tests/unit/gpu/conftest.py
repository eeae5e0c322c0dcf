"""Fixtures for tests of GPU kernels."""

from __future__ import annotations

import pytest

from hloc.codegen.gpu.emitters.gemm import warpgroup_gemm
from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem
from hloc.codegen.gpu.emitters.gemm.tensor_core_kinds import Kind
from hloc.codegen.gpu.emitters.gemm.warpgroup_kinds import WarpgroupKind


@pytest.fixture
def small_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost model leaves small products to other kernels, which are not tested here."""

    def always(p: MatrixProblem, kind: WarpgroupKind, other: Kind) -> bool:
        return True

    monkeypatch.setattr(warpgroup_gemm, "is_faster", always)
