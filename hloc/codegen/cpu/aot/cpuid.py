"""LLVM text that queries which x86-64 levels the processor and its operating system support.

The levels are those of the x86-64 System V ABI supplement. Source of the bits, and of the rule that
AVX counts only if the system saves its registers: Intel's manual, volume 2, CPUID and XGETBV.
"""

from __future__ import annotations

from collections.abc import Iterator

from hloc.lazy_dataclass import dataclass

LEVELS = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")
"""Each level includes those before it."""

_SAVES_AVX, _SAVES_AVX512 = 0x06, 0xE6
"""Bits of register XCR0: XMM and YMM; these, masks and ZMM."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """One call of CPUID, and which of its bits a level needs.

    Attributes:
        number: in EAX; ECX is 0.
        bits: (level, number of the result: EAX 0, EBX 1, ECX 2, EDX 3; numbers of bits).
    """

    number: int
    bits: tuple[tuple[str, int, tuple[int, ...]], ...]


_LEAVES = (
    _Leaf(
        1,
        (
            # SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT
            ("x86-64-v2", 2, (0, 9, 13, 19, 20, 23)),
            # FMA, MOVBE, OSXSAVE, AVX, F16C
            ("x86-64-v3", 2, (12, 22, 27, 28, 29)),
        ),
    ),
    _Leaf(
        7,
        (
            # BMI1, AVX2, BMI2
            ("x86-64-v3", 1, (3, 5, 8)),
            # AVX512F, DQ, CD, BW, VL
            ("x86-64-v4", 1, (16, 17, 28, 30, 31)),
        ),
    ),
    _Leaf(
        0x80000001,
        (
            ("x86-64-v2", 2, (0,)),  # LAHF, SAHF
            ("x86-64-v3", 2, (5,)),  # LZCNT
        ),
    ),
)


def detection_text(name: str) -> str:
    """Return a function `i32 @name()`: 0 for x86-64, 1 to 3 for x86-64-v2 to v4."""
    lines = [
        f"define internal i32 @{name}() noinline nounwind {{",
        "entry:",
        # The result of an unsupported leaf is meaningless.
        *_cpuid("basic", 0),
        *_cpuid("extended", 0x80000000),
    ]
    held: dict[str, str] = {}
    for leaf in _LEAVES:
        label = f"leaf{leaf.number:x}"
        highest = "basic" if leaf.number < 0x80000000 else "extended"
        lines.append(f"  %{label}.there = icmp uge i32 %{highest}.0, {leaf.number}")
        lines += _cpuid(label, leaf.number)
        for level, result, bits in leaf.bits:
            test = f"{label}.{level}.{result}"
            mask = sum(1 << bit for bit in bits)
            lines.append(f"  %{test}.bits = and i32 %{label}.{result}, {mask}")
            lines.append(f"  %{test}.all = icmp eq i32 %{test}.bits, {mask}")
            lines.append(f"  %{test} = and i1 %{test}.all, %{label}.there")
            lines += _join(held, level, test)
    lines += _cumulated(held)
    return "\n".join(lines) + "\n"


def _cpuid(label: str, leaf: int) -> Iterator[str]:
    """Call CPUID; the four results are `%label.0` to `%label.3`."""
    kind = "{ i32, i32, i32, i32 }"
    registers = "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"
    yield f'  %{label} = call {kind} asm "cpuid", "{registers}"(i32 {leaf}, i32 0)'
    for i in range(4):
        yield f"  %{label}.{i} = extractvalue {kind} %{label}, {i}"


def _join(held: dict[str, str], level: str, test: str) -> Iterator[str]:
    """Add `test` to the conditions of `level`; `held` has the conjunction so far."""
    if level in held:
        yield f"  %{test}.and = and i1 %{held[level]}, %{test}"
        test = f"{test}.and"
    held[level] = test


def _cumulated(held: dict[str, str]) -> Iterator[str]:
    """Find the highest level whose bits are set and whose registers the system saves."""
    v2, v3, v4 = (held[level] for level in LEVELS[1:])
    yield f"  %has.v3 = and i1 %{v2}, %{v3}"
    yield f"  %first = zext i1 %{v2} to i32"
    # XGETBV needs OSXSAVE, which is one of the bits of v3.
    yield "  br i1 %has.v3, label %saved, label %done"
    yield "saved:"
    registers = "={ax},={dx},{cx},~{dirflag},~{fpsr},~{flags}"
    yield f'  %xcr = call {{ i32, i32 }} asm sideeffect "xgetbv", "{registers}"(i32 0)'
    yield "  %xcr.low = extractvalue { i32, i32 } %xcr, 0"
    for name, mask in (("avx", _SAVES_AVX), ("avx512", _SAVES_AVX512)):
        yield f"  %{name}.bits = and i32 %xcr.low, {mask}"
        yield f"  %{name} = icmp eq i32 %{name}.bits, {mask}"
    yield f"  %has.v4 = and i1 %{v4}, %avx512"
    yield "  %with.v3 = select i1 %avx, i32 2, i32 1"
    yield "  %with.v4 = select i1 %has.v4, i32 3, i32 %with.v3"
    yield "  br label %done"
    yield "done:"
    yield "  %level = phi i32 [ %first, %entry ], [ %with.v4, %saved ]"
    yield "  ret i32 %level"
    yield "}"
