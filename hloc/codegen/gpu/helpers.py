"""The functions `@gpu.*` that kernels call; every GPU target defines them in a prelude.

This list is the contract between the emitters, whose LLVM text is independent of the machine, and
the targets. All threads of a block, or of a warp, must reach a collective function together.
"""

from __future__ import annotations

from hloc.lazy_dataclass import dataclass

WARP_THREADS = 32
"""Threads of a warp, which can exchange values by shuffles."""


@dataclass(frozen=True, slots=True)
class Helper:
    """The LLVM types of a function of the prelude.

    Attributes:
        scope: `thread`, or the threads that must call it together: `warp`, `warpgroup`, `block`.
    """

    result: str
    arguments: tuple[str, ...] = ()
    scope: str = "thread"


_FRAGMENT = "{float, float, float, float}"
_WORDS = "{i32, i32, i32, i32}"
_TILE = ("i32",) * 6 + ("float",) * 4
_SHARED, _GLOBAL = "ptr addrspace(3)", "ptr addrspace(1)"

WARPGROUP_THREADS = 128
"""Threads of a warpgroup: four adjacent warps, the first with a number that is a multiple of 4."""

WARPGROUP_COLUMNS = (128, 192, 256)
"""Columns of a warpgroup's tile of 64 rows: each thread has half as many accumulators."""

WARPGROUP_KINDS = {
    **{name: ("float", ("dd", "dl", "ld", "ll")) for name in ("bf16", "f16")},
    **{name: ("float", ("dd",)) for name in ("tf32", "e4m3", "e4m3_e5m2", "e5m2_e4m3", "e5m2")},
    **{name: ("i32", ("dd",)) for name in ("s8", "u8")},
}
"""By the types of the factors, one name if they are the same: LLVM type of the accumulators, and
the orders of both tiles in shared memory: `dl` means that rows of the left tile run along the
depth, those of the right one along its lines."""

WARPGROUP_SCORES = (64, 128)
"""Keys of a tile of attention: columns of its scores."""

WARPGROUP_VALUES = tuple(range(32, 257, 32))
"""Columns of the values of attention, padded."""


def _sums(columns: int, kind: str = "float") -> tuple[str, ...]:
    return (kind,) * (columns // 2)


def sums_type(columns: int, kind: str = "float") -> str:
    """Return the LLVM type of a thread's accumulators of a tile of 64 rows and `columns`."""
    return f"{{{', '.join(_sums(columns, kind))}}}"


def _warpgroup_attention() -> dict[str, Helper]:
    """Return the helpers of attention in addition to those of gemms.

    `rl` is a product whose left side is in registers: four words of a lane, packed pairs in the
    layout of an accumulator of 64x16. `initialise` is a product without earlier sums. `begin` takes
    the sums, so that LLVM writes them before it; `finish_earlier` waits for all products but those
    of the last commit. `anchor` returns its operand; LLVM cannot move the result out of a loop,
    where each of many matrix descriptors that differ by constants would need registers.
    """
    found = {"warpgroup.anchor": Helper("i64", ("i64",))}
    for kind in ("bf16", "f16"):
        for columns, orders in (
            *((columns, ("dd", "dl", "ld", "ll")) for columns in WARPGROUP_SCORES),
            *((columns, ("rd", "rl")) for columns in WARPGROUP_VALUES),
        ):
            for order in orders:
                left = ("i32",) * 4 if order[0] == "r" else ("i64",)
                result, sides = sums_type(columns), (*left, "i64")
                found[f"warpgroup.multiply.{kind}.{columns}.{order}"] = Helper(
                    result, (*sides, "i32", *_sums(columns)), "warpgroup"
                )
                if order[0] != "r":
                    found[f"warpgroup.initialise.{kind}.{columns}.{order}"] = Helper(
                        result, sides, "warpgroup"
                    )
    for action, widths in (
        ("begin", set(WARPGROUP_VALUES)),
        ("finish", {*WARPGROUP_SCORES, *WARPGROUP_VALUES}),
        ("finish_earlier", set(WARPGROUP_SCORES)),
    ):
        for columns in sorted(widths):
            found[f"warpgroup.{action}.{columns}"] = Helper(
                sums_type(columns), _sums(columns), "warpgroup"
            )
    return found


WARPGROUP_HELPERS: dict[str, Helper] = {
    # mbarriers in shared memory: a phase completes when all expected threads and bytes have
    # arrived; `wait` is for the phase of a parity; the phase before the first (1) is complete
    "phase.init": Helper("void", (_SHARED, "i32")),
    "phase.publish": Helper("void"),  # makes this thread's writes visible to copies and gemms
    "phase.arrive": Helper("void", (_SHARED, "i32")),  # if the number is not 0
    "phase.expect": Helper("void", (_SHARED, "i32")),  # arrive, and expect this many bytes
    "phase.wait": Helper("void", (_SHARED, "i32")),
    # copies of tiles, which complete at a barrier: target, barrier, map, first index by dimension
    "copy_tile.prepare": Helper("void", ("ptr",)),
    **{
        f"copy_tile.{rank}": Helper("void", (_SHARED, _SHARED, "ptr", *("i32",) * rank))
        for rank in range(2, 6)
    },
    # four of the eight bytes of two words: hexadecimal digits of the third, the last one first
    "permute_bytes": Helper("i32", ("i32", "i32", "i32")),
    "store_matrix.x4": Helper("void", (_SHARED, "i32", "i32", "i32", "i32"), "warp"),
    # gemms of tiles in shared memory by a warpgroup. The operands are two matrix descriptors and a
    # number: if it is 0, the accumulators are initialised
    "warpgroup.few_registers": Helper("void", scope="warpgroup"),
    "warpgroup.many_registers": Helper("void", scope="warpgroup"),
    "warpgroup.few_registers.transposing": Helper("void", scope="warpgroup"),
    "warpgroup.many_registers.transposing": Helper("void", scope="warpgroup"),
    "warpgroup.begin": Helper("void", scope="warpgroup"),
    **{
        f"warpgroup.multiply.{kind}.{columns}.{order}": Helper(
            sums_type(columns, sums), ("i64", "i64", "i32", *_sums(columns, sums)), "warpgroup"
        )
        for kind, (sums, orders) in WARPGROUP_KINDS.items()
        for columns in WARPGROUP_COLUMNS
        for order in orders
    },
    "warpgroup.commit": Helper("void", scope="warpgroup"),
    "warpgroup.wait.1": Helper("void", scope="warpgroup"),
    **{
        f"warpgroup.finish.{columns}{suffix}": Helper(
            sums_type(columns, sums), _sums(columns, sums), "warpgroup"
        )
        for suffix, sums in (("", "float"), (".s32", "i32"))
        for columns in WARPGROUP_COLUMNS
    },
    **_warpgroup_attention(),
}
"""Helpers of chips whose tensor cores read both sides from shared memory: NVIDIA's sm_90a."""

HELPERS: dict[str, Helper] = {
    # thread and block indices
    **{f"thread.{axis}": Helper("i32") for axis in "xyz"},
    **{f"block.{axis}": Helper("i32") for axis in "xyz"},
    "grid.x": Helper("i32"),
    # collective
    "barrier": Helper("void", scope="block"),
    "warp_barrier": Helper("void", scope="warp"),
    **{
        f"shuffle.{how}.{kind}": Helper(kind, (kind, "i32"), "warp")
        for how in ("xor", "up", "down", "index")
        for kind in ("i32", "float")
    },
    # hardware arithmetic; the first number of a pair is the low half
    "exp2": Helper("float", ("float",)),
    "pack_pair.bf16": Helper("i32", ("float", "float")),
    "pack_pair.f16": Helper("i32", ("float", "float")),
    # asynchronous copies: 16 bytes each, in groups
    "copy_async.16": Helper("void", (_SHARED, _GLOBAL)),
    "copy_async.16.part": Helper("void", (_SHARED, _GLOBAL, "i32")),
    "copy_async.commit": Helper("void"),
    **{f"copy_async.wait.{groups}": Helper("void") for groups in range(8)},
    # matrix tiles of a warp
    "load_matrix.x4": Helper(_WORDS, (_SHARED,), "warp"),
    "load_matrix.x4.transposed": Helper(_WORDS, (_SHARED,), "warp"),
    "multiply_tiles.bf16": Helper(_FRAGMENT, _TILE, "warp"),
    "multiply_tiles.f16": Helper(_FRAGMENT, _TILE, "warp"),
    "multiply_tiles.tf32": Helper(_FRAGMENT, _TILE, "warp"),
    "multiply_tiles.s8": Helper(_WORDS, ("i32",) * 10, "warp"),
    "multiply_tiles.u8": Helper(_WORDS, ("i32",) * 10, "warp"),
    **WARPGROUP_HELPERS,
}
