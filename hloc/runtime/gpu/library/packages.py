"""The Python packages behind libraries, imported when the first call of one is prepared."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from hloc.errors import UnsupportedError

_MODULES = {
    "cublaslt": ("nvmath.bindings.cublasLt", "nvmath-python[cu13]"),
    "cufft": ("nvmath.bindings.cufft", "nvmath-python[cu13]"),
    "cusolver": ("nvmath.bindings.cusolverDn", "nvmath-python[cu13]"),
    "cudnn": ("cudnn", "nvidia-cudnn-frontend nvidia-cudnn-cu13"),
}
"""For each library its Python module and the package for `pip install`; cu12 for CUDA 12."""


@cache
def library_module(library: str) -> Any:
    """Return the module that calls `library`.

    Raises:
        UnsupportedError: it is not installed; the notes say how to install it.
    """
    name, package = _MODULES[library]
    try:
        return import_module(name)
    except ImportError as fault:
        raise UnsupportedError(
            f"--use-library={library} needs the module {name}: {fault}",
            notes=(f"`pip install {package}`, or leave the library out: hloc has its own kernels",),
        ) from None
