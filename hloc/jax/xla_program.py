"""XLA:CPU for comparison, through jaxlib if that is installed.

Only this file uses private parts of jaxlib; hlo-repl runs it in its child process.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np

from hloc.dtypes import Array
from hloc.errors import HloError

_REPEAT = 5


def is_installed() -> bool:
    """Return whether jax and jaxlib are installed."""
    return all(find_spec(name) is not None for name in ("jax", "jaxlib"))


def need_xla(option: str) -> None:
    """Raise HloError for `option` if jax and jaxlib are not installed."""
    if not is_installed():
        raise HloError(f"{option} needs jax", notes=("pip install 'hloc[jax]'",))


class XlaProgram:
    """A module compiled by XLA:CPU, which can be run repeatedly."""

    def __init__(self, proto: bytes, flags: Sequence[tuple[str, str]] = ()) -> None:
        """Compile a serialized HloModuleProto, with flags of XLA.

        Raises:
            HloError: XLA does not take the module.
        """
        import jax
        from jaxlib import _jax, xla_client

        self._device = jax.devices("cpu")[0]
        try:
            stablehlo = _jax.mlir.hlo_to_stablehlo(proto)
            options = xla_client.CompileOptions()
            options.env_option_overrides = list(flags)
            self._program = self._device.client.compile_and_load(
                stablehlo, _jax.DeviceList((self._device,)), options
            )
        except Exception as fault:  # jaxlib raises what it likes
            raise _refused(fault) from fault

    @classmethod
    def from_text(cls, text: str, flags: Sequence[tuple[str, str]] = ()) -> XlaProgram:
        """Compile HLO text, with flags of XLA.

        Raises:
            HloError: XLA does not take the module.
        """
        import jax  # noqa: F401  before jaxlib, whose log it turns off
        from jaxlib import _hlo

        try:
            proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
        except Exception as fault:  # jaxlib raises what it likes
            raise _refused(fault) from fault
        return cls(proto, flags)

    def run(
        self, arrays: Sequence[Array], repeat: int = 1
    ) -> tuple[tuple[Array, ...], tuple[float, ...]]:
        """Run the program `repeat` times; return the results and the seconds.

        Raises:
            HloError: XLA cannot run it.
        """
        import jax

        try:
            with jax.enable_x64(True):  # JAX would convert f64 to f32
                buffers = jax.device_put(list(arrays), self._device)
            seconds = []
            for _ in range(repeat):
                started = time.perf_counter()
                results = self._program.execute_sharded(buffers)
                parts = results.disassemble_into_single_device_arrays()
                jax.block_until_ready(parts)
                seconds.append(time.perf_counter() - started)
        except Exception as fault:  # jaxlib raises what it likes
            raise _refused(fault) from fault
        return tuple(np.asarray(part[0]) for part in parts), tuple(seconds)


def _refused(fault: Exception) -> HloError:
    return HloError(f"XLA refuses the module: {str(fault).splitlines()[0]}")


def run_by_xla(text: str, arrays: Sequence[Array]) -> tuple[tuple[Array, ...], tuple[float, ...]]:
    """Compile HLO text by XLA and run it a few times; return the results and the seconds.

    Raises:
        HloError: XLA does not take the module.
    """
    return XlaProgram.from_text(text).run(arrays, _REPEAT)


def run_proto_by_xla(
    proto: bytes, arrays: Sequence[Array], repeat: int
) -> tuple[tuple[Array, ...], tuple[float, ...]]:
    """Compile a serialized HloModuleProto by XLA and run it, like `run_by_xla`."""
    return XlaProgram(proto).run(arrays, repeat)


def run_sharded_by_xla(
    text: str, arrays: Sequence[Array], result_dims: Sequence[tuple[int, ...]], devices: int
) -> list[Array]:
    """Let XLA partition an annotated program, and run it on virtual devices.

    Args:
        text: an annotated module, with the number of partitions in its header.
        arrays: whole arguments.
        result_dims: dimensions of the whole results.
        devices: number of partitions.

    Raises:
        HloError: XLA rejects the module, or was started with fewer devices.
    """
    flag = f"--xla_force_host_platform_device_count={devices}"
    if "jax" not in sys.modules:  # XLA reads its flags at start
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()
    import jax
    from jax._src.sharding_impls import GSPMDSharding
    from jaxlib import _hlo, _jax, xla_client

    found = jax.devices("cpu")
    if len(found) < devices:
        raise HloError(f"XLA has {len(found)} of {devices} devices", notes=(f"XLA_FLAGS={flag}",))
    list_of_devices = _jax.DeviceList(tuple(found[:devices]))
    options = xla_client.CompileOptions()
    build = options.executable_build_options
    assignment = xla_client.DeviceAssignment.create(np.arange(devices).reshape(1, devices))
    for part in (options, build):
        part.num_replicas, part.num_partitions = 1, devices
        part.device_assignment = assignment
    build.use_spmd_partitioning = True
    build.use_shardy_partitioner = "xla.sdy." in text
    try:
        proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
        stablehlo = _jax.mlir.hlo_to_stablehlo(proto)
        program = found[0].client.compile_and_load(stablehlo, list_of_devices, options)
        given = [
            jax.device_put(array, GSPMDSharding(list_of_devices, sharding))
            for array, sharding in zip(arrays, program.get_parameter_shardings(), strict=True)
        ]
        parts = program.execute_sharded(given).disassemble_into_single_device_arrays()
        shardings = program.get_output_shardings()
        return [
            np.asarray(
                jax.make_array_from_single_device_arrays(
                    dims, GSPMDSharding(list_of_devices, sharding), own
                )
            )
            for dims, sharding, own in zip(result_dims, shardings, parts, strict=True)
        ]
    except Exception as fault:  # jaxlib raises what it likes
        raise _refused(fault) from fault
