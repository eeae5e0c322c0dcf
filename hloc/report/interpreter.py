"""A module run by the reference evaluator, with the interface of a compiled program."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from hloc import driver
from hloc.dtypes import Array
from hloc.errors import HloError
from hloc.ir.module import Module


class Interpreter:
    """Runs `module` with NumPy, on one device or on all of its devices."""

    def __init__(self, module: Module, fill_constants: str) -> None:
        self._module = module
        self._fill_constants = fill_constants

    def __call__(self, *arrays: Any, donate: Collection[int] = ()) -> list[Array]:
        """Run on one device; arguments are never overwritten."""
        return driver.evaluate(self._module, *arrays, fill_constants=self._fill_constants)

    def run_devices(self, args: Sequence[Sequence[Any]]) -> list[list[Array]]:
        """Run on all devices: `args[i][device]` gives `results[j][device]`."""
        return driver.evaluate_devices(self._module, args, fill_constants=self._fill_constants)

    def stage(self, name: str) -> str | bytes:
        """Raise HloError: nothing is compiled."""
        raise HloError(f"the reference evaluator compiles nothing, so there is no {name}")
