"""The libraries that can replace kernels, by their names in `--use-library`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hloc.codegen.gpu.context import LaunchWriter
from hloc.codegen.gpu.library import convolutions, factors, gemms, transforms
from hloc.codegen.gpu.library_call import LibraryCall
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass


def _nothing(w: LaunchWriter, call: Any) -> None:
    """Emit nothing: the call computes the whole result."""


@dataclass(frozen=True, slots=True)
class Library:
    """One library.

    Attributes:
        summary: what it computes, for users.
        match: returns the call for an instruction or a fusion, None if it is not supported.
        finish: emits the launches that follow a call, if any.
    """

    name: str
    summary: str
    match: Callable[[Instruction], LibraryCall | None]
    finish: Callable[[LaunchWriter, Any], None] = _nothing


LIBRARIES: tuple[Library, ...] = (
    Library("cublaslt", "matrix products, with bias and relu", gemms.match),
    Library("cufft", "Fourier transforms", transforms.match, transforms.finish),
    Library("cusolver", "Cholesky factors", factors.match, factors.finish),
    Library("cudnn", "forward convolutions", convolutions.match),
)

NAMES = tuple(library.name for library in LIBRARIES)


def library_call(inst: Instruction, names: Sequence[str]) -> tuple[Library, LibraryCall] | None:
    """Return the first of the libraries `names` that supports `inst`, and its call, or None."""
    for library in LIBRARIES:
        call = library.match(inst) if library.name in names else None
        if call is not None:
            return library, call
    return None
