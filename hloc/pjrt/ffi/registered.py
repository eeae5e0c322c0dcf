"""Handlers, and types of their state, that users and libraries registered with JAX for the CPU.

jaxlib returns all stages of a handler but `instantiate`, so this module intercepts registrations
with XLA, as soon as JAX discovers hloc. So it imports next to nothing of hloc.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from hloc.capsules import address_in

_capsules: dict[str, Any] = {}
_types: list[Any] = []


def watch_registrations() -> None:
    """Intercept registrations, past and future; XLA gets them as from JAX's CPU client."""
    from jaxlib import xla_client

    xla_client.register_custom_type_handler("cpu", _type)  # handlers need their types
    xla_client.register_custom_call_handler("cpu", _target)


def _target(name: Any, function: Any, *rest: Any) -> None:
    from jaxlib import _jax

    _jax.register_custom_call_target(name, function, *rest)  # rejects invalid registrations
    _capsules[name.decode() if isinstance(name, bytes) else name] = function


def _type(name: str, registration: Any, *rest: Any) -> None:
    from jaxlib import _jax

    _jax.register_custom_type(name, registration, *rest)
    _types.append(registration)


def registered_handlers() -> dict[str, Mapping[str, int] | int]:
    """Return by name the handlers' addresses by stage, or the address of a legacy custom call."""
    from jaxlib import xla_client

    capsules = {
        name: function
        for name, function in xla_client.custom_call_targets("Host").items()
        if not name.startswith(_OF_JAXLIB)
    }
    for name, function in _capsules.items():
        is_bundle = isinstance(function, dict) and isinstance(capsules.get(name), dict)
        capsules[name] = function if is_bundle else capsules.get(name, function)
    return {
        name: {stage: address_in(found) for stage, found in value.items() if found is not None}
        if isinstance(value, dict)
        else address_in(value)
        for name, value in capsules.items()
    }


def deleters() -> dict[int, int]:
    """Return the addresses of the deleters of state objects, by type id."""
    found = {}
    for registration in _types:
        if isinstance(registration, dict) and registration.get("type_info") is not None:
            type_id = ctypes.c_int64.from_address(address_in(registration["type_id"])).value
            info = address_in(registration["type_info"])
            deleter = ctypes.c_size_t.from_address(info + _DELETER_OFFSET).value
            if deleter:
                found[type_id] = deleter
    return found


_OF_JAXLIB = ("xla_ffi_", "xla_buffer_", "dce_sink")
"""Prefixes of targets whose handlers need more of XLA than `c_api.h`; hloc has its own."""

_DELETER_OFFSET = 16  # in XLA_FFI_TypeInfo, after its size and extensions
