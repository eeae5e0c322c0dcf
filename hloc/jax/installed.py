"""The package jax, imported on demand."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hloc.errors import HloError


def jax_package(wanted_for: str) -> Any:
    """Return the package `jax`.

    Args:
        wanted_for: the caller's name in messages, e.g. `hloc.from_jax`.

    Raises:
        HloError: it is not installed.
    """
    try:
        return import_module("jax")
    except ImportError as fault:
        raise HloError(
            f"{wanted_for} needs the package jax: {fault}", notes=("pip install 'hloc[jax]'",)
        ) from None
