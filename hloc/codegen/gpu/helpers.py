"""The functions `@gpu.*` that kernels call; every GPU target defines them in a prelude.

This list is the contract between the emitters, which write LLVM text that no machine is named in,
and the targets. All threads of a block, or of a warp, reach a collective function together.
"""

from __future__ import annotations

from dataclasses import dataclass

WARP_THREADS = 32
"""Threads that run in step and can exchange values without memory."""


@dataclass(frozen=True, slots=True)
class Helper:
    """The LLVM types of a function of the prelude.

    Attributes:
        scope: `thread`, or which threads must call it together: `warp`, `block`.
    """

    result: str
    arguments: tuple[str, ...] = ()
    scope: str = "thread"


_FRAGMENT = "{float, float, float, float}"
_WORDS = "{i32, i32, i32, i32}"
_TILE = ("i32",) * 6 + ("float",) * 4
_SHARED, _GLOBAL = "ptr addrspace(3)", "ptr addrspace(1)"

HELPERS: dict[str, Helper] = {
    # who am I
    **{f"thread.{axis}": Helper("i32") for axis in "xyz"},
    **{f"block.{axis}": Helper("i32") for axis in "xyz"},
    # together
    "barrier": Helper("void", scope="block"),
    "warp_barrier": Helper("void", scope="warp"),
    **{
        f"shuffle.{how}.{kind}": Helper(kind, (kind, "i32"), "warp")
        for how in ("xor", "up", "down", "index")
        for kind in ("i32", "float")
    },
    # copies that run beside the arithmetic: 16 bytes each, in groups
    "copy_async.16": Helper("void", (_SHARED, _GLOBAL)),
    "copy_async.16.part": Helper("void", (_SHARED, _GLOBAL, "i32")),
    "copy_async.commit": Helper("void"),
    **{f"copy_async.wait.{groups}": Helper("void") for groups in range(8)},
    # tiles of matrices, spread over a warp
    "load_matrix.x4": Helper(_WORDS, (_SHARED,), "warp"),
    "load_matrix.x4.transposed": Helper(_WORDS, (_SHARED,), "warp"),
    "multiply_tiles.bf16": Helper(_FRAGMENT, _TILE, "warp"),
    "multiply_tiles.f16": Helper(_FRAGMENT, _TILE, "warp"),
    "multiply_tiles.tf32": Helper(_FRAGMENT, _TILE, "warp"),
    "multiply_tiles.s8": Helper(_WORDS, ("i32",) * 10, "warp"),
    "multiply_tiles.u8": Helper(_WORDS, ("i32",) * 10, "warp"),
}
