"""Stand-ins of NVIDIA's libraries on the fake driver: they read and write its memory, that late.

Only what hloc calls is there. `on_call` sees every call, so that tests can compare it with what the
real packages take.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.unit.gpu.fake_cublaslt import FakeLt
from tests.unit.gpu.fake_cuda import FakeCuda
from tests.unit.gpu.fake_cudnn import FakeDnn
from tests.unit.gpu.fake_cufft import FakeFft
from tests.unit.gpu.fake_cusolver import FakeSolver


def fake_libraries(
    cuda: FakeCuda, on_call: Callable[[str, str, tuple[Any, ...]], None] | None = None
) -> dict[str, Any]:
    """Return a stand-in for each library; `on_call` gets library, function and arguments."""

    def seen(library: str) -> Callable[[str, tuple[Any, ...]], None] | None:
        if on_call is None:
            return None
        return lambda name, arguments: on_call(library, name, arguments)

    kinds = {"cublaslt": FakeLt, "cufft": FakeFft, "cusolver": FakeSolver, "cudnn": FakeDnn}
    return {name: kind(cuda, seen(name)) for name, kind in kinds.items()}
