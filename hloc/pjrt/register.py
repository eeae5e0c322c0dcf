"""hloc as a backend of JAX."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from hloc.errors import HloError
from hloc.pjrt.ffi.registered import watch_registrations

NAME = "hloc"
"""The platform name: `JAX_PLATFORMS=hloc,cpu`, `jax.devices("hloc")`."""

TESTED = ((0, 10), (0, 10))
"""The first and the last version of jaxlib that the plug-in was tested with."""

_PRIORITY = -100
"""Below that of JAX's own CPU client, so that hloc is used on request only."""


def register() -> None:
    """Register the backend with JAX, once; JAX creates it on first use."""
    from jax._src import xla_bridge

    if NAME not in xla_bridge._backend_factories:
        xla_bridge.register_backend_factory(
            NAME, _new_client, priority=_PRIORITY, fail_quietly=True, experimental=False
        )
        watch_registrations()


def is_started() -> bool:
    """True if JAX has created its backends, after which none can be added."""
    from jax._src import xla_bridge

    return bool(xla_bridge._backends)


def _new_client() -> Any:
    """Return a client of jaxlib over hloc's functions."""
    from jax._src.lib import xla_client

    check_version()
    _load()
    if not xla_client.pjrt_plugin_initialized(NAME):
        xla_client.initialize_pjrt_plugin(NAME)
    return xla_client.make_c_api_client(NAME, {}, None)


def check_version() -> None:
    """Check that this version of jaxlib was tested.

    Raises:
        HloError: it was not; the message has the tested versions.
    """
    import jaxlib

    version = tuple(int(part) for part in jaxlib.__version__.split(".")[:2])
    first, last = TESTED
    if not first <= version <= last:
        tested = " to ".join(dict.fromkeys(f"{a}.{b}.x" for a, b in TESTED))
        raise HloError(
            f"hloc was tested with jaxlib {tested}, and this is {jaxlib.__version__}",
            notes=(f"pip install 'jaxlib=={last[0]}.{last[1]}.*'",),
        )


@cache
def _load() -> None:
    """Pass the table of functions to jaxlib, once in a process."""
    from jax._src.lib import xla_client

    from hloc.pjrt.table import api_table

    xla_client.load_pjrt_plugin_with_c_api(NAME, capsule(api_table()))


def capsule(address: int) -> Any:
    """Return the address of a `PJRT_Api` as a capsule for jaxlib."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(address, _CAPSULE_NAME, None)


_CAPSULE_NAME = ctypes.c_char_p(b"pjrt_c_api")  # the capsule keeps its address
