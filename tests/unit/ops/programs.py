"""Run a few lines of HLO with the evaluator: the entry's instructions and what they call."""

from __future__ import annotations

from typing import Any

import numpy as np

import hloc
from hloc.evaluator import evaluate_module

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"


def run(entry: str, *arguments: Any, called: str = "") -> list[np.ndarray[Any, Any]]:
    """Return the results of `ENTRY e { entry }` in a module that also has the text `called`."""
    module = hloc.parse(f"HloModule m\n{called}\nENTRY e {{ {entry} }}\n", verify=False)
    return evaluate_module(module, [np.asarray(argument) for argument in arguments])


def f32(values: Any) -> np.ndarray[Any, Any]:
    """Return an f32 array."""
    return np.asarray(values, np.float32)


def s32(values: Any) -> np.ndarray[Any, Any]:
    """Return an s32 array."""
    return np.asarray(values, np.int32)
