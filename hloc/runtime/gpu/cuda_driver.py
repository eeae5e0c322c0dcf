"""Calls of NVIDIA's driver through the package `cuda-bindings`, whose errors become hloc's.

The package is optional; it is imported only here, when a device is first requested.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from hloc.errors import HloError, UnsupportedError

HOW_TO_GET = "`pip install cuda-bindings`, and NVIDIA's driver"


class CudaError(HloError):
    """A call of the driver failed.

    Attributes:
        name: CUDA's name of the error, such as `CUDA_ERROR_OUT_OF_MEMORY`.
    """

    def __init__(self, message: str, name: str = "", notes: tuple[str, ...] = ()) -> None:
        super().__init__(message, notes=notes)
        self.name = name

    def at(self, source: str) -> CudaError:
        """Return the same error with the name of the instruction that caused it."""
        return CudaError(f"{source}: {self.message}", self.name, self.diagnostics[0].notes)


class CudaDriver:
    """The driver's functions; `api` is `cuda.bindings.driver` or an equivalent object."""

    def __init__(self, api: Any) -> None:
        self.api = api

    def call(self, function: str, *arguments: Any) -> Any:
        """Return the result of a function: None, a value, or a tuple of several.

        Raises:
            CudaError: the function reports an error.
        """
        status, *results = getattr(self.api, function)(*arguments)
        if status != self.api.CUresult.CUDA_SUCCESS:
            name, text = self._described(status)
            raise CudaError(f"{function}: {name}: {text}", name)
        return results[0] if len(results) == 1 else (tuple(results) or None)

    def attempt(self, function: str, *arguments: Any) -> tuple[Any, ...]:
        """Call a function of cleanup, ignoring its errors.

        Returns:
            Status and results, as returned by the package.
        """
        result: tuple[Any, ...] = getattr(self.api, function)(*arguments)
        return result

    def _described(self, status: Any) -> tuple[str, str]:
        """Return name and text of an error."""
        success = self.api.CUresult.CUDA_SUCCESS
        texts = []
        for function in (self.api.cuGetErrorName, self.api.cuGetErrorString):
            result, text = function(status)
            texts.append(text.decode() if result == success and text else str(status))
        return texts[0], texts[1]


@cache
def installed_driver() -> CudaDriver:
    """Return the driver of this machine, initialised.

    `cuInit` is called first: without a driver, other calls leave the package in a bad state.

    Raises:
        UnsupportedError: the package or the driver is missing, or finds no device.
    """
    try:
        api = import_module("cuda.bindings.driver")
    except ImportError:
        raise UnsupportedError(
            "the package cuda-bindings is not installed", notes=(HOW_TO_GET,)
        ) from None
    driver = CudaDriver(api)
    try:
        driver.call("cuInit", 0)
    except CudaError as fault:
        raise UnsupportedError(fault.message) from fault
    except RuntimeError as fault:  # the package cannot find the driver's library
        raise UnsupportedError("NVIDIA's driver is not installed", notes=(HOW_TO_GET,)) from fault
    return driver
