"""What was compiled for JAX in this process; `hloc.jax.report()` reads it."""

from __future__ import annotations

from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Compilation:
    """One program that JAX had compiled.

    Attributes:
        name: of the module.
        instructions: as they came from JAX.
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
"""All of them, in their order."""
