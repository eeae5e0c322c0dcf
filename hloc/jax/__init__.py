"""hloc as the backend of JAX programs.

    import hloc.jax; hloc.jax.enable()

at the top of a program lets the rest run on hloc; the environment
variable `JAX_PLATFORMS=hloc,cpu` does the same. `with hloc.jax.passes(rule):` runs hloc's passes
inside JAX's own compilations, on any backend. See docs/jax.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hloc.errors import HloError

if TYPE_CHECKING:
    from hloc.jax.reporting import report as report
    from hloc.jax.scope import passes as passes
    from hloc.jax.tracing import from_jax as from_jax
    from hloc.jax.tracing import jit as jit

__all__ = ["device", "disable", "enable", "from_jax", "jit", "passes", "report"]

_LAZY = {
    "from_jax": "hloc.jax.tracing",
    "jit": "hloc.jax.tracing",
    "passes": "hloc.jax.scope",
    "report": "hloc.jax.reporting",
}

_PLATFORMS = "hloc,cpu"


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'hloc.jax' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def enable() -> None:
    """Let JAX run on hloc from now on; `jax.devices("cpu")` is still JAX's own CPU client.

    Raises:
        HloError: this version of jaxlib was not tested with hloc.
    """
    import jax

    from hloc.pjrt.register import NAME, check_version, is_started, register

    check_version()
    if not is_started():
        register()
        jax.config.update("jax_platforms", _PLATFORMS)
        return
    try:
        found = jax.devices(NAME)[0]
    except RuntimeError:
        raise HloError(
            "JAX was started without hloc; call hloc.jax.enable() before the first array is made, "
            "or set JAX_PLATFORMS=hloc,cpu"
        ) from None
    jax.config.update("jax_default_device", found)


def disable() -> None:
    """Let JAX run on its own CPU client again; arrays on hloc stay there."""
    import jax

    from hloc.pjrt.register import is_started

    if is_started():
        jax.config.update("jax_default_device", jax.devices("cpu")[0])
    else:
        jax.config.update("jax_platforms", None)


@contextmanager
def device(number: int = 0) -> Iterator[Any]:
    """In this context JAX runs on a device of hloc; yields the device."""
    import jax

    from hloc.pjrt.register import NAME, is_started, register

    if not is_started():
        register()
    found = jax.devices(NAME)[number]
    with jax.default_device(found):
        yield found
