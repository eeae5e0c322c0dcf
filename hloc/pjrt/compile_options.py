"""Compiler options of JAX programs: XLA's are accepted, others refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hloc.pjrt.native import PjrtError


def check_overrides(overrides: Iterable[tuple[str, Any]]) -> None:
    """Refuse options that XLA does not have, and values that it does not take.

    hloc follows none of them: they tune XLA. XLA's own client is asked, where there is one.

    Raises:
        PjrtError: as XLA says it.
    """
    overrides = list(overrides)
    if not overrides:
        return
    from jax._src import xla_bridge
    from jaxlib import _jax, xla_client

    known = dir(_jax.DebugOptions) if hasattr(_jax, "DebugOptions") else []
    unknown = [name for name, _ in overrides if name not in known]
    if not unknown:
        return
    try:
        cpu = xla_bridge.get_backend("cpu")
    except RuntimeError:
        cpu = None
    if cpu is None or type(cpu).__name__ != "Client" or "hloc" in cpu.platform_version:
        if any(not name.startswith("xla_") for name in unknown):
            raise PjrtError("INVALID_ARGUMENT", f"No such compile option: '{unknown[0]}'")
        return
    options = xla_client.CompileOptions()
    options.env_option_overrides = overrides
    try:
        _compile_nothing(cpu, options)
    except Exception as fault:
        raise PjrtError("INVALID_ARGUMENT", str(fault).removeprefix("INVALID_ARGUMENT: ")) from None


_NOTHING = "module { func.func public @main() -> () { return } }"


def _compile_nothing(cpu: Any, options: Any) -> None:
    """Let XLA compile the smallest program with these options."""
    from jaxlib import xla_client

    devices = xla_client.DeviceList(tuple(cpu.local_devices()[:1]))
    cpu.compile_and_load(_NOTHING, devices, options)
