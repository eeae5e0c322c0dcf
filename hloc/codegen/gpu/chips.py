"""GPUs of all vendors as LLVM targets."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from hloc.codegen.llvm.target import Target, initialize_llvm
from hloc.errors import HloError

_VECTOR_BITS = 128


def check_chip(name: str, known: Collection[str], default: str, target: str) -> None:
    """Refuse a chip that is not `known`; raises `HloError` with the nearest name."""
    if name not in known:
        near = get_close_matches(name, known, 1) or [default]
        raise HloError(
            f"there is no chip {name!r} for target {target}",
            notes=(f"did you mean {near[0]}? Chips: {', '.join(known)}",),
        )


def chip_target(triple: str, name: str, features: str, shared_bytes: int, l2_bytes: int) -> Target:
    """Return the target for a chip that LLVM knows.

    Args:
        triple: LLVM's triple.
        name: of the chip.
        features: beyond those of the chip.
        shared_bytes: most shared memory of a block.
        l2_bytes: size of the L2 cache.
    """
    initialize_llvm(all_targets=True)
    return Target(
        triple=triple,
        cpu=name,
        features=features,
        vector_bits=_VECTOR_BITS,
        l1_bytes=shared_bytes,
        l2_bytes=l2_bytes,
        l3_bytes=0,
    )
