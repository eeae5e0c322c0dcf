"""The compilations for JAX in this process; `hloc.jax.report()` reads them."""

from __future__ import annotations

from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Compilation:
    """One program that was compiled for JAX.

    Attributes:
        name: of the module.
        instructions: their number in JAX's program.
        seconds: from MLIR to loaded code.
        was_kept: it came from hloc's cache.
        proto: the serialized HloModuleProto.
    """

    name: str
    instructions: int
    seconds: float
    was_kept: bool
    proto: bytes


COMPILATIONS: list[Compilation] = []
"""All compilations, in order."""
