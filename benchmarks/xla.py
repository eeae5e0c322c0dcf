"""XLA:CPU as the thing to compare with: reads HLO text, compiles and runs it through jaxlib.

Needs the `jax` extra; `available()` says whether it is there. Everything of jaxlib that is not
public API is used in this file only.
"""

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any


def available() -> bool:
    """Return whether jax and jaxlib are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("jax", "jaxlib"))


def parse(text: str) -> Any:
    """Return XLA's own module for `text`."""
    from jaxlib import _hlo

    return _hlo.hlo_module_from_text(text)


def memory_of(text: str) -> tuple[int, str]:
    """Compile `text` and return the bytes it reserves for temporaries, and the optimised module."""
    executable = _executable(text)
    stats = executable.get_compiled_memory_stats()
    (optimised,) = executable.hlo_modules()
    return stats.temp_size_in_bytes, optimised.to_string()


def compiled(
    text: str, arrays: Sequence[Any], platform: str = "cpu"
) -> Callable[[], Sequence[Any]]:
    """Return a function that runs the module once on `arrays`, which lie on the device already."""
    import jax

    device = jax.devices(platform)[0]
    executable = _executable(text, platform)
    buffers = [jax.device_put(array, device) for array in arrays]

    def run() -> Sequence[Any]:
        results = executable.execute_sharded(buffers)
        found: Sequence[Any] = results.disassemble_into_single_device_arrays()
        jax.block_until_ready(found)
        return found

    return run


def _executable(text: str, platform: str = "cpu") -> Any:
    import jax
    from jaxlib import _jax, xla_client

    device = jax.devices(platform)[0]
    stablehlo = _jax.mlir.hlo_to_stablehlo(parse(text).as_serialized_hlo_module_proto())
    return device.client.compile_and_load(
        stablehlo, _jax.DeviceList((device,)), xla_client.CompileOptions()
    )
