"""Functions that this process registered for targets of custom calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from hloc.errors import HloError

HostCallable: TypeAlias = Callable[..., Any]
"""Takes one array per operand leaf, returns an array or a sequence, one per result leaf."""

_REGISTERED: dict[str, HostCallable] = {}


def register_target(target: str, function: HostCallable) -> None:
    """Register `function` for custom calls of `target`, replacing an earlier registration.

    Raises:
        HloError: the name is empty, or `function` cannot be called.
    """
    if not target or not isinstance(target, str):
        raise HloError(f"a custom-call target is a name, not {target!r}")
    if not callable(function):
        raise HloError(f"custom-call target {target!r} needs a function, not {function!r}")
    _REGISTERED[target] = function


def registered_targets() -> frozenset[str]:
    """Return the targets that were registered in this process."""
    return frozenset(_REGISTERED)


def registered_function(target: str) -> HostCallable | None:
    """Return the function registered for `target`, or None."""
    return _REGISTERED.get(target)
