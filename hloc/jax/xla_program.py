"""XLA:CPU as the thing to compare with, by way of jaxlib, if that is installed.

All that is not public in jaxlib is used here only; hlo-repl runs it in its child process.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from hloc.errors import HloError

Array = np.ndarray[Any, np.dtype[Any]]

_REPEAT = 5


def is_installed() -> bool:
    """Tell whether jax and jaxlib are there."""
    return all(find_spec(name) is not None for name in ("jax", "jaxlib"))


def run_by_xla(text: str, arrays: Sequence[Array]) -> tuple[tuple[Array, ...], tuple[float, ...]]:
    """Compile HLO text by XLA and run it a few times; returns the results and the seconds.

    Raises:
        HloError: XLA does not take the module.
    """
    from jaxlib import _hlo

    try:
        proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    except Exception as fault:  # jaxlib raises what it likes
        raise HloError(f"XLA refuses the module: {str(fault).splitlines()[0]}") from fault
    return run_proto_by_xla(proto, arrays)


def run_proto_by_xla(
    proto: bytes, arrays: Sequence[Array], repeat: int = _REPEAT
) -> tuple[tuple[Array, ...], tuple[float, ...]]:
    """Compile a serialized HloModuleProto by XLA and run it; as `run_by_xla`."""
    import jax
    from jaxlib import _jax, xla_client

    device = jax.devices("cpu")[0]
    try:
        stablehlo = _jax.mlir.hlo_to_stablehlo(proto)
        program = device.client.compile_and_load(
            stablehlo, _jax.DeviceList((device,)), xla_client.CompileOptions()
        )
        buffers = [jax.device_put(array, device) for array in arrays]
        seconds = []
        for _ in range(repeat):
            started = time.perf_counter()
            results = program.execute_sharded(buffers).disassemble_into_single_device_arrays()
            jax.block_until_ready(results)
            seconds.append(time.perf_counter() - started)
    except Exception as fault:  # jaxlib raises what it likes
        raise HloError(f"XLA refuses the module: {str(fault).splitlines()[0]}") from fault
    return tuple(np.asarray(result[0]) for result in results), tuple(seconds)
