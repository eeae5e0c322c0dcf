"""Passes over the IR: each takes a verified module and leaves a verified module.

The names for plug-ins are here, loaded on first use: `from hloc.opt import rule, Pass`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hloc.opt.authoring import COMPLEX as COMPLEX
    from hloc.opt.authoring import FLOAT as FLOAT
    from hloc.opt.authoring import INT as INT
    from hloc.opt.authoring import PRED as PRED
    from hloc.opt.authoring import ModulePass as ModulePass
    from hloc.opt.authoring import Pass as Pass
    from hloc.opt.authoring import any_ as any_
    from hloc.opt.authoring import const as const
    from hloc.opt.authoring import ops as ops
    from hloc.opt.authoring import rule as rule

_AUTHORING = (
    "COMPLEX",
    "FLOAT",
    "INT",
    "PRED",
    "ModulePass",
    "Pass",
    "any_",
    "const",
    "ops",
    "rule",
)


class _Package(ModuleType):
    """Keeps `rule` the decorator: importing the file rule.py would replace it by the module."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "rule" or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _AUTHORING:
        raise AttributeError(f"module 'hloc.opt' has no attribute {name!r}")
    from hloc.opt import authoring

    return getattr(authoring, name)
