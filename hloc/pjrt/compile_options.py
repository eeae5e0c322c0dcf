"""Compiler options of JAX programs: hloc's are applied, XLA's are ignored, others are errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hloc.options import CompileOptions
from hloc.pjrt.native import PjrtError

FLUSH = "hloc_flush_subnormals"
"""The option of a program that flushes subnormal numbers to zero."""


def hloc_options(overrides: Iterable[tuple[str, Any]]) -> CompileOptions:
    """Return hloc's options for a program; the others are checked.

    Subnormal numbers are flushed to zero unless the program says otherwise, as on JAX's own CPU
    client (ADR 0019).

    Raises:
        PjrtError: an option that neither XLA nor hloc has, or an invalid value.
    """
    others = dict(overrides)
    flush = str(others.pop(FLUSH, True))
    if flush.lower() not in ("true", "false"):
        raise PjrtError("INVALID_ARGUMENT", f"{FLUSH} must be true or false, not {flush!r}")
    check_overrides(others.items())
    return CompileOptions(flush_subnormals=flush.lower() == "true")


def check_overrides(overrides: Iterable[tuple[str, Any]]) -> None:
    """Raise an error for options that XLA does not have, and for values that are invalid in XLA.

    They tune XLA; hloc ignores them. XLA's own client checks them, if there is one.

    Raises:
        PjrtError: with XLA's message.
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
