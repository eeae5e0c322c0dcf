"""Questions of the page, checked before they reach a child process."""

from __future__ import annotations

from typing import Any

from hloc.web.limits import ARRAY_BYTES

_NEEDED = ("ask", "text")
DEFAULTS: dict[str, Any] = {
    "pipeline": "-O2", "state": 0, "rewrite": 0, "whole": False, "form": "hlo", "seed": 0,
    "measure": False, "name": "", "launch": 0, "block": 0, "thread": 0, "at": 0, "to": "",
    "other": "", "inputs": "", "known": 0, "dump": -1, "file": "", "data": "",
}  # fmt: skip
"""Values of the fields that a question may omit."""

_TYPES: dict[str, type] = {
    **dict.fromkeys(_NEEDED, str),
    **{name: type(value) for name, value in DEFAULTS.items()},
}

ASKED = (
    "check", "walk", "rewrites", "state", "text", "graph", "run", "verify", "cost", "memory",
    "roofline", "kernel", "compare",
)  # fmt: skip
"""The questions of the page; only the server asks `open`."""

_MOST_LETTERS = {
    "pipeline": 4000, "inputs": 200_000, "file": 200, "data": ARRAY_BYTES // 3 * 4 + 4,
}  # fmt: skip


def read_question(data: Any) -> dict[str, Any]:
    """Return a question with all its fields.

    Raises:
        ValueError: it has other fields, or values of other types; the message names them.
    """
    if not isinstance(data, dict):
        raise ValueError("expected an object")
    for name, value in data.items():
        if name not in _TYPES:
            raise ValueError(f"it has no field {name[:40]!r}")
        if type(value) is not _TYPES[name]:
            raise ValueError(f"{name} is a value of another type")
    for name in _NEEDED:
        if name not in data:
            raise ValueError(f"it lacks {name}")
    found = {**DEFAULTS, **data}
    if found["ask"] not in ASKED:
        raise ValueError(f"it asks for none of {', '.join(ASKED)}")
    for name, most in _MOST_LETTERS.items():
        if len(found[name]) > most:
            raise ValueError(f"{name} has more than {most} letters")
    if not 0 <= found["seed"] < 1 << 31:
        raise ValueError("seed is out of range")
    return found
